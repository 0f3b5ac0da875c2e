"""A private question planned for one batch size, whatever is asked: a sum, a histogram or a selection.

A mechanism is frozen and complete. It says what each device sends, what an intermediary lets through, what the analyzer
makes of it, and what it proves. Who carries reports (devices, fronts, analyzers) needs to know nothing else.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.noise import Noise, Source
from croupier.privacy import Guarantee, Loss
from croupier.privacy.guarantee import small
from croupier.protocols.padding import Shape, TamperedMessage
from croupier.texts import canonical as canonical
from croupier.validity import Prio3
from croupier.validity.shares import Ring

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

VERSION = 1
MOST_MESSAGES = 100_000
"""A report of more messages than this can be simulated, not sent."""
MOST_USERS = 10**12
POSSIBLE = 2.0**-40
"""How often an honest batch may decode to what is taken for damage."""
TRUSTS = ("two-servers", "devices", "shuffler", "nobody", "analyzer")
"""Who must be trusted: one of two servers, whichever; devices to add their noise, and servers not to collude; the
shuffler; nobody; the analyzer."""

KINDS: dict[str, type[Mechanism]] = {}
"""Every kind of mechanism by the name in its serialized form."""
UNNAMED = "SumMechanism"
"""Sums came first, and are written without a kind."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """A claim, and the exact values recomputed from the noise."""

    claim: Guarantee
    epsilon: float
    delta: float
    rho: float | None = None
    divergence: float | None = None

    def __repr__(self) -> str:
        return f"Certificate({self})"

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{self.claim}: it {verdict}, with exact ε = {self.epsilon:.6g} at δ = {small(self.delta)}"

    @property
    def holds(self) -> bool:
        """Whether the recomputed privacy is at least as good as every number of the claim."""
        claim, hair = self.claim, 1.0 + 1e-9
        if self.rho is not None and self.rho > (claim.rho or 0.0) * hair:
            return False
        if self.divergence is not None and self.divergence > (claim.divergence or 0.0) * hair:
            return False
        return self.delta <= claim.delta * hair or self.epsilon <= claim.epsilon * hair


@dataclass(frozen=True)
class Residual:
    """What is left of a user's privacy when all servers collude, and see one report whole.

    Then only the user's own share of the noise hides the value: ε (may be infinite), and how well the best guess at
    the value can do. `advantage` is the total variation distance between the reports of the lowest and the highest
    value: 0 means that a report tells nothing, 1 that it tells which of the two it was.
    """

    epsilon: float
    advantage: float

    @property
    def hides_nothing(self) -> bool:
        return math.isinf(self.epsilon)


@dataclass(frozen=True)
class Decoded:
    """What a batch's view decodes to, and how many of its messages were damaged."""

    decoded: int | tuple[int, ...]
    damaged: int


class Mechanism(ABC):
    """One private question to `users` users, calibrated: frozen, serializable, with its certificate.

    A protocol, a histogram or a selection plans one. Its subclasses say what is asked.

    Examples
    --------
    >>> from croupier.noise import seeded
    >>> from croupier.protocols import laplace
    >>> mechanism = laplace(epsilon=1.0).plan(users=3)
    >>> reports = [mechanism.randomize(value, seeded(place)) for place, value in enumerate([0.2, 0.9, 0.4])]
    >>> mechanism.analyze(mechanism.collect(reports))
    2.6 ± 3.2 (95 %) of 3 users, 1-DP when one report is replaced, laplace
    >>> print(mechanism.certificate())
    1-DP when one report is replaced: it holds, with exact ε = 1 at δ = 0
    """

    kind: ClassVar[str]
    lets_users_return: ClassVar[bool] = False
    """Whether its guarantee may be for a user in several batches."""
    constants: str
    guarantee: Guarantee
    users: int
    honest: int
    """How many users are counted on to add their noise."""
    front_shares: int
    """How many parties' noise the front of a service adds."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    @abstractmethod
    def trust(self) -> str:
        """Who must be trusted for the guarantee: one of `TRUSTS`."""

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The exact privacy loss of one user's change, against whoever sees the view."""

    @abstractmethod
    def certificate(self) -> Certificate:
        """Recompute the privacy of the view from the noise itself, and set it beside the claim."""

    @property
    @abstractmethod
    def possible(self) -> tuple[int, int]:
        """Between which decoded numbers a batch lies, but for probability 2^-40, if at least the honest add noise."""

    @property
    @abstractmethod
    def outputs(self) -> int | None:
        """How many numbers a batch decodes to; None where it is one that stands alone."""

    @property
    @abstractmethod
    def messages_per_user(self) -> float:
        """On average."""

    @property
    @abstractmethod
    def bits_per_user(self) -> float:
        """On average."""

    @property
    def simulation_only(self) -> bool:
        """Whether a device would have to send more messages than anyone would."""
        return self.messages_per_user > MOST_MESSAGES

    @property
    def checkable(self) -> bool:
        """Whether a device can check everything that its privacy rests on."""
        return True

    @property
    @abstractmethod
    def recipe(self) -> dict[str, Any]:
        """What all mechanisms of an experiment have in common, whatever the size of their batch."""

    @property
    @abstractmethod
    def extremes(self) -> tuple[Any, Any]:
        """Two values of a user, as different as can be."""

    @abstractmethod
    def check_value(self, value: object) -> None:
        """Refuse what no user can report."""

    def summary(self, decoded: int | Sequence[int]) -> dict[str, float]:
        """What a batch's numbers say in short, where there is something short to say."""
        return {}

    @cached_property
    def shape(self) -> Shape:
        """What every report looks like, or a refusal when no front can carry it.

        >>> from croupier.protocols import counted_messages, shuffled_laplace
        >>> shuffled_laplace(epsilon=1.0, binary=True).plan(users=1000).shape.slots
        13
        >>> counted_messages(epsilon=1.0).plan(users=1000).shape.cap
        5
        """
        return self._shape()

    @cached_property
    def sent_loss(self) -> Loss:
        """The exact loss of the mechanism as it is sent: with its noise limited."""
        return Loss(self.loss.releases, float(self.loss.distance) + self.shape.distance)

    def slots(self, value: object, source: Source) -> tuple[bytes, ...]:
        """One user's randomized report as padded messages and dummies: always as many, always as long."""
        form = self.shape
        return form.padded(self._messages(value, source))

    def front_slots(self, source: Source) -> tuple[bytes, ...]:
        """The front's own noise in the same form; a count that exceeds its limit is drawn again."""
        form = self.shape
        if not form.front:
            return ()
        messages = self._front_messages(source)
        while len(messages) > form.front:
            messages = self._front_messages(source)
        return form.padded_front(messages)

    def read(self, slots: Sequence[bytes | None]) -> Decoded:
        """Decode a whole batch: as many opened slots as its users sent, None where one did not open.

        A message that did not open, or says what no honest device says, counts as a harmless one. Its sender could
        have sent that very one, so nobody else's part changes; how many there were is public.

        >>> from croupier.noise import seeded
        >>> from croupier.protocols import shuffled_laplace
        >>> mechanism = shuffled_laplace(epsilon=5.0, binary=True).plan(users=40)
        >>> mechanism.read([slot for user in range(40) for slot in mechanism.slots(user % 2, seeded(user))])
        Decoded(decoded=20, damaged=0)
        """
        due = self.users * self.shape.slots + self.shape.front
        if len(slots) != due:
            raise TamperedMessage(f"{len(slots)} messages where {due} are due")
        return self._decoded(slots)

    @abstractmethod
    def _shape(self) -> Shape:
        """What every report looks like, or a refusal."""

    @abstractmethod
    def _messages(self, value: object, source: Source) -> tuple[bytes, ...]:
        """The messages of a report; one whose noise exceeds the limit is drawn again, whatever its value."""

    @abstractmethod
    def _front_messages(self, source: Source) -> tuple[bytes, ...]:
        """The messages of the front's own noise."""

    @abstractmethod
    def _decoded(self, slots: Sequence[bytes | None]) -> Decoded:
        """What so many slots say, whatever some users may have sent."""

    # In shares between two servers

    @property
    def ring(self) -> Ring | None:
        """The numbers that reports are split into shares over; None where they are not carried in shares."""
        return None

    @property
    def prio3(self) -> Prio3 | None:
        """How a report proves to two servers that it is in range; None where it cannot.

        >>> from croupier.protocols import laplace
        >>> laplace(epsilon=1.0, trust="two-servers").plan(users=100).prio3
        Prio3(Sum(max_measurement=127), proofs=1, shares=2)
        >>> laplace(epsilon=1.0, trust="devices").plan(users=100).prio3
        """
        return None

    @property
    def fits_any_batch(self) -> bool:
        """Whether nothing in a report depends on its batch: the servers add all the noise, and each of them enough."""
        return self.trust == "two-servers"

    def for_users(self, users: int) -> Self:
        """The same for another number of users, where nothing but the batch's size changes."""
        if users != self.users:
            raise InvalidParameter("users", users, f"{self.users}: the noise is that of a batch of so many")
        return self

    def secret(self, value: object, source: Source) -> list[int]:
        """What a device splits into shares: its encoded value, with its own share of the noise where it adds one."""
        raise self._not_shared()

    def server_noise(self, source: Source) -> list[int]:
        """What one server adds to its sum: a whole noise, or nothing where the devices add theirs."""
        raise self._not_shared()

    def told(self, total: Sequence[int]) -> int | tuple[int, ...]:
        """What is published, from the sum of both servers' sums."""
        raise self._not_shared()

    def _not_shared(self) -> CroupierError:
        return CroupierError(f"{type(self).__name__} is not carried in shares between two servers")

    @property
    @abstractmethod
    def residual(self) -> Residual:
        """The local guarantee of one report, when all servers collude.

        >>> from croupier.protocols import shuffled_bits, shuffled_laplace
        >>> local = shuffled_laplace(epsilon=1.0, binary=True).plan(users=1000).residual
        >>> round(local.epsilon, 1), round(local.advantage, 3)
        (7.9, 0.999)
        >>> shuffled_bits(epsilon=1.0).plan(users=1000).residual.epsilon
        inf
        """

    @abstractmethod
    def exposed(self, end: int, trials: int, source: Source, progress: Callable[[int], None] | None = None) -> Integers:
        """For the audit: one number a batch, of many, that tells most about its first user.

        The first user holds either of two values (`end` 0 or 1); what the others hold is the same for both.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The mechanism as plain data, complete: a device needs nothing else."""

    def to_json(self) -> str:
        """One line of canonical JSON: sorted keys, no spaces."""
        return canonical(self.to_dict())

    @classmethod
    def from_json(cls, text: str, *, affordable: bool = False) -> Self:
        """Read a mechanism of any kind back (on a kind itself: of that kind); whatever is wrong with it is refused.

        `affordable` refuses noise that would take a device's time and memory, before any table is made.
        """
        try:
            body = json.loads(text)
            if body.pop("version") != VERSION:
                raise InvalidParameter("version", text[:60], f"{VERSION}")
            name = body.pop("kind", UNNAMED)
            kind = KINDS.get(name)
            if kind is None or not issubclass(kind, cls):
                known = ", ".join(name for name, kind in KINDS.items() if issubclass(kind, cls))
                raise InvalidParameter("kind", name, f"one of {known}")
            made = kind._read(body, affordable)
            if made.guarantee.participations > 1 and not kind.lets_users_return:
                raise InvalidParameter("participations", made.guarantee.participations, f"1 for {name}")
            return made
        except CroupierError:
            raise
        except (KeyError, TypeError, AttributeError, AssertionError, ValueError, ZeroDivisionError) as error:
            allowed = f"version {VERSION} of a serialized mechanism ({error!r})"
            raise InvalidParameter("mechanism", text[:60], allowed) from None

    @classmethod
    @abstractmethod
    def _read(cls, body: dict[str, Any], affordable: bool) -> Self:
        """The mechanism in this data, without its version and kind."""


def check_front(front_shares: int, honest: int) -> None:
    """The front adds a whole noise of its own, that of as many parties as are counted on, or none."""
    if front_shares:
        integer("front_shares", front_shares, honest, honest)


def check_source(source: object) -> None:
    """Refuse what hands out no words, as NumPy's generators: what they draw can be foretold, and hides nobody."""
    if not hasattr(source, "words"):
        raise InvalidParameter("source", source, "one of croupier's own: secure(), or seeded(7) in a simulation")


def is_affordable(share: Noise, users: int) -> bool:
    """Whether the noise of so many users, and of a front, is within a device's time and memory."""
    return share.times(2 * integer("users", users, 1, MOST_USERS)).affordable
