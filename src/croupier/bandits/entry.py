"""A row of the catalogue of policies, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from croupier.bandits.batch_sizes import SMALLEST, Ladder
from croupier.bandits.metrics import Metrics
from croupier.bandits.policy import Policy
from croupier.bandits.terms import Terms
from croupier.protocols import Protocol, protocol


@dataclass(frozen=True)
class Entry:
    """One policy of the catalogue: whom it trusts, what it promises, and where it comes from.

    Parameters
    ----------
    name : what `--policy` takes.
    paper_name : what its authors call it.
    model : who is trusted, as `croupier policies` says it.
    protocol : the name of the protocol that its sums come by; None without privacy.
    paper : its citation key, or "a baseline" where there is none; "after" a paper is what croupier made of it.
    build : makes the policy of a `Request`.
    tight_only : whether there are no published constants: nobody has published the policy over these sums.
    in_blocks : whether its arms run side by side in blocks, so that their differences may be claimed.

    Examples
    --------
    >>> from croupier.bandits import POLICIES
    >>> POLICIES["dp-klucb"].protocol, POLICIES["dp-klucb"].notion, POLICIES["dp-klucb"].paper
    ('laplace', 'pure', 'after [AWHOIB25]')
    """

    name: str
    paper_name: str
    model: str
    protocol: str | None
    paper: str = field(repr=False)
    build: Callable[[Request], Policy] = field(repr=False)
    tight_only: bool = False
    """Whether there are no published constants: nobody has published the policy over these sums."""
    in_blocks: bool = False
    """Whether its arms run side by side in blocks, so that their differences may be claimed."""

    @property
    def trusts(self) -> tuple[str, ...]:
        """Whom it can be asked to trust, over its own protocol; the first unless one is named."""
        return (self.model,) if self.protocol is None else protocol(self.protocol, epsilon=0.5).row.trusts

    @property
    def notion(self) -> str:
        """What the policy's default protocol promises."""
        if self.protocol is None:
            return "none"
        return protocol(self.protocol, epsilon=0.5).row.notion


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    entry: Entry
    arms: int
    horizon: int | None
    epsilon: float | None
    protocol: Protocol | None
    constants: str
    runs: int
    smallest: int | None
    growth: float | None
    failure: float | None
    exploration: float | None
    seed: int = 0
    terms: Terms = field(default_factory=Terms)
    metrics: Metrics | None = None

    def ladder(self, growth: float, published_first: int = 2) -> Ladder:
        """Batch sizes: the papers' from two users on, tight ones from the smallest batch."""
        first = published_first if self.constants == "published" else SMALLEST
        if self.protocol is None:
            first = 1
        return Ladder(self.protocol, self.smallest or first, self.growth or growth)

    def common(self) -> dict[str, Any]:
        return {"runs": self.runs, "name": self.entry.name}
