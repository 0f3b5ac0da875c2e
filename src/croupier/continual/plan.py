"""A counter's plan: the tree, one mechanism a level, the weights of the combination, and what follows from them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between, positive
from croupier.continual.deviation import Chernoff, slopes_around
from croupier.continual.shufflers import composed
from croupier.continual.tree import Tree, Weights
from croupier.privacy import Guarantee, Loss
from croupier.protocols import SumMechanism
from croupier.protocols.mechanism import canonical
from croupier.texts import plural

Floats = NDArray[np.float64]

VERSION = 1


@dataclass(frozen=True, repr=False)
class CounterPlan:
    """A counter of `tree.users` users, ready to run; `Counter` runs it.

    `centred`: the users of the unfinished lowest node, of whom nothing is known yet, count as the middle of the range
    (without it, as nothing, as in the paper).

    Examples
    --------
    >>> from croupier.continual import counter
    >>> counter(users=1000, epsilon=1.0, over="laplace")  # doctest: +ELLIPSIS
    counter of 1,000 users over laplace, in batches of 32 to 512: (1, 1e-6)-DP when one user is replaced; standard ...
    """

    tree: Tree
    mechanisms: tuple[SumMechanism, ...]
    weights: Weights
    epsilon: float
    delta: float
    centred: bool

    def __post_init__(self) -> None:
        if tuple(mechanism.users for mechanism in self.mechanisms) != self.tree.sizes:
            raise InvalidParameter("mechanisms", [m.users for m in self.mechanisms], f"for {self.tree.sizes} users")
        if any(mechanism.values != self.mechanisms[0].values for mechanism in self.mechanisms):
            raise InvalidParameter("mechanisms", "different values", "about the same values at every level")
        if one_sided := [mechanism.protocol for mechanism in self.mechanisms if mechanism.side != "unbiased"]:
            allowed = "one whose sums err to both sides: errors to one would add up"
            raise InvalidParameter("over", one_sided[0], allowed)
        if any(m.fits_any_batch and m.recipe != self.mechanisms[0].recipe for m in self.mechanisms):
            raise InvalidParameter("mechanisms", "different encodings", "the same at every level: one report is in all")
        own = self.weights.own
        if len(own) != self.tree.levels or own[0] != 1.0:
            raise InvalidParameter("weights", own, f"{self.tree.levels} numbers, the first of them 1")
        for weight in own:
            between("weights", weight, 0, 1, "[]")
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        if not isinstance(self.centred, bool):
            raise InvalidParameter("centred", self.centred, "true or false")

    def __repr__(self) -> str:
        """What is counted in which batches, what is promised, and how far off a running sum is."""
        batches = " to ".join(f"{size:,}" for size in dict.fromkeys((self.tree.sizes[0], self.tree.sizes[-1])))
        counted = f"counter of {plural(self.users, 'user')} over {self.mechanisms[0].protocol}, in batches of {batches}"
        return f"{counted}: {self.privacy}; standard deviation at most {self.noise_std:.3g} of a running sum"

    @property
    def users(self) -> int:
        return self.tree.users

    @property
    def shufflers(self) -> int:
        return self.tree.levels

    @property
    def dimension(self) -> int:
        return self.mechanisms[0].dimension

    @cached_property
    def loss(self) -> Loss:
        """The exact loss of a user, who takes part in one node of every level."""
        return composed(self.mechanisms)

    @property
    def memory_nodes(self) -> int:
        """Numbers that the server remembers: one a level."""
        return self.tree.levels

    @property
    def privacy(self) -> Guarantee:
        """What the user is promised; `loss` recomputes it."""
        return Guarantee("approximate" if self.delta else "pure", self.epsilon, self.delta, unit="user")

    @property
    def messages_per_user(self) -> float:
        """Where the servers add the noise one report is in the sums of all levels: they form every node themselves."""
        if self.mechanisms[0].fits_any_batch:
            return self.mechanisms[0].messages_per_user
        return math.fsum(mechanism.messages_per_user for mechanism in self.mechanisms)

    @property
    def middle(self) -> float:
        """What an unfinished node's user counts as."""
        values = self.mechanisms[0].values
        return (values.low + values.high) / 2.0 if self.centred else 0.0

    @property
    def unknown_error(self) -> float:
        """How far a user who counts as the middle can be off, at most: half the span when centred."""
        values = self.mechanisms[0].values
        return max(abs(values.high - self.middle), abs(values.low - self.middle))

    @property
    def pending_error(self) -> float:
        """How far the unfinished lowest node can be off, at most."""
        return (self.tree.smallest - 1) * self.unknown_error

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of one finished node's estimate, by level."""
        own = [mechanism.variance + mechanism.rounding_variance for mechanism in self.mechanisms]
        return self.weights.variances(self.tree.degree, own)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in the worst prefix (per coordinate)."""
        return math.sqrt(self.tree.worst(self.variances))

    def bound(self, failure: float) -> float:
        """α such that all n estimates are within α of the truth, except with this probability ([TKMS23] Definition
        2.1).

        Chernoff's bound from the exact cumulants of the noise, added over all prefixes: with m_i nodes of level i the
        noise has cumulant Σ m_i C_i, so the sum over all prefixes is a product over levels. That beats exact
        quantiles of the worst prefix at failure/n, since few prefixes are as bad as the worst. The chance that a
        modular sum wraps around is set aside first; infinite when that alone is larger.
        """
        return self.deviation(failure, directions=self.dimension) + self.pending_error

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float:
        """A bound on the noise of all prefixes at once, seen along so many fixed directions.

        A direction combines the coordinates' noises with coefficients of at most one whose squares add up to
        `strength`: 1 for a coordinate or a unit vector. Where K(l)/l² of the noise never falls as l grows, as for
        Skellam and Laplace noise but not for bits, its cumulant is at most strength·K(l).
        """
        if strength != 1.0 and not all(mechanism.noise.cumulant_rises for mechanism in self.mechanisms):
            raise InvalidParameter("strength", strength, "1, unless the noise is Skellam or Laplace")
        spare = self.spare(failure)
        if spare <= 0.0:
            return math.inf
        chernoff = self.chernoff if strength == 1.0 else self.chernoff.stronger(strength)
        return chernoff.deviation(directions / spare)

    def spare(self, failure: float) -> float:
        """What is left of a failure probability for the noise, after the chance that some modular sum wraps around."""
        failure = float(between("failure", failure, 0, 1))
        wraps = zip(self.tree.nodes, self.mechanisms, strict=True)
        return failure - self.dimension * math.fsum(nodes * m.wrap_probability for nodes, m in wraps)

    @cached_property
    def chernoff(self) -> Chernoff:
        """The cumulants of finished nodes, by level, which every bound on the noise is made of."""
        slopes = slopes_around(self.noise_std)
        return Chernoff(self.tree, slopes, np.array([self._cumulant(i, slopes) for i in range(self.tree.levels)]))

    def own_cumulant(self, level: int, slopes: Floats, weight: float = 1.0) -> Floats:
        """log E e^{l·error} of one node's own sum times a weight, whichever sign of the error is worse."""
        mechanism = self.mechanisms[level]
        steps = weight * mechanism.unit * slopes
        with np.errstate(over="ignore", invalid="ignore"):
            own = np.maximum(mechanism.noise.cumulant(steps), mechanism.noise.cumulant(-steps))
        if not mechanism.values.binary:
            # Rounding moves each user by less than one level: Hoeffding's cumulant.
            own = own + mechanism.users * (weight * slopes * mechanism.values.span / mechanism.precision) ** 2 / 8.0
        return np.asarray(np.where(np.isnan(own), np.inf, own))

    def _cumulant(self, level: int, slopes: Floats) -> Floats:
        """log E e^{l·error} of one finished node's estimate, whichever sign of the error is worse."""
        weight = self.weights.own[level]
        own = self.own_cumulant(level, slopes, weight)
        if level == 0 or weight == 1.0:
            return own
        return np.asarray(own + self.tree.degree * self._cumulant(level - 1, (1.0 - weight) * slopes))

    def to_json(self) -> str:
        """One line of canonical JSON: the plan whole, to be stored beside the log."""
        body = asdict(self.tree) | {"weights": list(self.weights.own), "centred": self.centred}
        target = {"epsilon": self.epsilon, "delta": self.delta}
        mechanisms = [mechanism.to_dict() for mechanism in self.mechanisms]
        return canonical({"version": VERSION} | target | body | {"mechanisms": mechanisms})

    @classmethod
    def from_json(cls, text: str) -> CounterPlan:
        """Read a plan back; anything unknown, missing or inconsistent is refused."""
        try:
            body = json.loads(text)
            if body.pop("version") != VERSION:
                raise InvalidParameter("version", text[:60], str(VERSION))
            tree = Tree(**{key: body.pop(key) for key in ("users", "smallest", "degree", "levels")})
            mechanisms = tuple(SumMechanism.from_json(canonical(m)) for m in body.pop("mechanisms"))
            return cls(tree, mechanisms, Weights(tuple(body.pop("weights"))), **body)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise InvalidParameter("plan", text[:60], f"version {VERSION} of a counter's plan ({error!r})") from None
