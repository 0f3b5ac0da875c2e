"""Counters under continual observation: a tree of private sums, planned for its users, and the server that reads it.

A `CounterPlan` is frozen: the tree, one mechanism a level, the weights of the combination, and what follows from them
(privacy, error, memory). A `Counter` is the server: it drives the shufflers, is told what full batches decode to, and
holds one number a level.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, between, integer, positive
from croupier.continual.shufflers import Activated, Arrived, Batch, ConcurrentShufflers, Event, Released, composed
from croupier.continual.tree import Tree, Weights
from croupier.noise import PolyaDifference, Skellam
from croupier.privacy import Guarantee, Loss
from croupier.protocols import Mechanism
from croupier.protocols.mechanism import canonical

Floats = NDArray[np.float64]

VERSION = 1
STEPS = 400
"""Slopes tried for Chernoff's bound, over six orders of magnitude; the bound is flat around the best one."""


@dataclass(frozen=True)
class CounterPlan:
    """A counter of `tree.users` users, ready to run; see `croupier.continual.counter`.

    `centred`: the users of the unfinished lowest node, of whom nothing is known yet, count as the middle of the range
    (without it, as nothing, as in the paper).
    """

    tree: Tree
    mechanisms: tuple[Mechanism, ...]
    weights: Weights
    epsilon: float
    delta: float
    centred: bool

    def __post_init__(self) -> None:
        if tuple(mechanism.users for mechanism in self.mechanisms) != self.tree.sizes:
            raise InvalidParameter("mechanisms", [m.users for m in self.mechanisms], f"for {self.tree.sizes} users")
        if any(mechanism.values != self.mechanisms[0].values for mechanism in self.mechanisms):
            raise InvalidParameter("mechanisms", "different values", "about the same values at every level")
        if any(mechanism.side != "unbiased" for mechanism in self.mechanisms):
            raise InvalidParameter("mechanisms", "counts that err to one side", "unbiased: errors would add up")
        own = self.weights.own
        if len(own) != self.tree.levels or own[0] != 1.0:
            raise InvalidParameter("weights", own, f"{self.tree.levels} numbers, the first of them 1")
        for weight in own:
            between("weights", weight, 0, 1, "[]")
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        if not isinstance(self.centred, bool):
            raise InvalidParameter("centred", self.centred, "true or false")

    @property
    def users(self) -> int:
        return self.tree.users

    @property
    def shufflers(self) -> int:
        return self.tree.levels

    @property
    def memory_nodes(self) -> int:
        """Numbers that the server remembers: one a level."""
        return self.tree.levels

    @property
    def dimension(self) -> int:
        return self.mechanisms[0].dimension

    @cached_property
    def loss(self) -> Loss:
        """The exact loss of a user, who takes part in one node of every level."""
        return composed(self.mechanisms)

    @property
    def privacy(self) -> Guarantee:
        """What the user is promised; `loss` recomputes it."""
        return Guarantee("approximate" if self.delta else "pure", self.epsilon, self.delta)

    @property
    def messages_per_user(self) -> float:
        return math.fsum(mechanism.messages_per_user for mechanism in self.mechanisms)

    @property
    def middle(self) -> float:
        """What an unfinished node's user counts as."""
        values = self.mechanisms[0].values
        return (values.low + values.high) / 2.0 if self.centred else 0.0

    @property
    def pending_error(self) -> float:
        """How far the unfinished lowest node can be off, at most."""
        values = self.mechanisms[0].values
        return (self.tree.low - 1) * max(abs(values.high - self.middle), abs(values.low - self.middle))

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
        """α such that all n estimates are within α of the truth, except with this probability (002 Definition 2.1).

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
        failure = float(between("failure", failure, 0, 1))
        if strength != 1.0 and not all(isinstance(m.noise, Skellam | PolyaDifference) for m in self.mechanisms):
            raise InvalidParameter("strength", strength, "1, unless the noise is Skellam or Laplace")
        wraps = zip(self.tree.nodes, self.mechanisms, strict=True)
        spare = failure - self.dimension * math.fsum(nodes * m.wrap_probability for nodes, m in wraps)
        if spare <= 0.0:
            return math.inf

        def cumulant(level: int, slopes: Floats) -> Floats:
            return strength * self._cumulant(level, slopes)

        return _least_deviation(self.tree, cumulant, self.noise_std, directions / spare)

    def _cumulant(self, level: int, slopes: Floats) -> Floats:
        """log E e^{l·error} of one finished node's estimate, whichever sign of the error is worse."""
        mechanism, weight = self.mechanisms[level], self.weights.own[level]
        steps = weight * mechanism.unit * slopes
        with np.errstate(over="ignore", invalid="ignore"):
            own = np.maximum(mechanism.noise.cumulant(steps), mechanism.noise.cumulant(-steps))
        if not mechanism.values.binary:
            # Rounding moves each user by less than one level: Hoeffding's cumulant.
            own = own + mechanism.users * (weight * slopes * mechanism.values.span / mechanism.precision) ** 2 / 8.0
        own = np.where(np.isnan(own), np.inf, own)
        if level == 0 or weight == 1.0:
            return np.asarray(own)
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
            tree = Tree(**{key: body.pop(key) for key in ("users", "low", "degree", "levels")})
            mechanisms = tuple(Mechanism.from_json(canonical(m)) for m in body.pop("mechanisms"))
            return cls(tree, mechanisms, Weights(tuple(body.pop("weights"))), **body)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise InvalidParameter("plan", text[:60], f"version {VERSION} of a counter's plan ({error!r})") from None


class Counter:
    """The server of one counter: opens batches, is told what they decode to, and says the running sum at any time.

    Releases that are due at the same time may come in any order; they are applied lowest level first once all are
    there. With its log it can be resumed: `Counter.resume(plan, counter.shufflers.log)`.
    """

    def __init__(self, plan: CounterPlan, *, keep_log: bool = True) -> None:
        self.plan = plan
        self.shufflers = ConcurrentShufflers(
            plan.tree.levels, epsilon=plan.epsilon, delta=plan.delta, keep_log=keep_log
        )
        shape = (plan.dimension,) if plan.mechanisms[0].coordinates else ()
        self._totals = np.zeros((plan.tree.levels, *shape))
        self._waiting: dict[int, Any] = {}
        self.summed = 0
        """Users whose values are in the finished nodes."""
        self._activate()

    @property
    def users(self) -> int:
        """Users so far."""
        return self.shufflers.users

    @property
    def open(self) -> list[Batch]:
        """What the next user takes part in."""
        return self.shufflers.open

    @property
    def room(self) -> int:
        """Users who can come before something must be released, or the counter ends."""
        left = self.plan.users - self.users
        return left if self.shufflers.room is None else min(self.shufflers.room, left)

    @property
    def estimate(self) -> Any:
        """The sum of all users' values so far."""
        total = self._totals.sum(axis=0) + (self.users - self.summed) * self.plan.middle
        return total if total.ndim else float(total)

    def arrive(self, users: int = 1) -> None:
        """Users came and took part in all open batches."""
        integer("users", users, 1)
        if self.users + users > self.plan.users:
            raise InvalidParameter("users", self.users + users, f"at most {self.plan.users}, as planned")
        self.shufflers.arrive(users)

    def release(self, batch: int, decoded: int | tuple[int, ...]) -> None:
        """A full batch's view decodes to this."""
        levels = {found.number: found.shuffler for found in self.shufflers.full}
        release = self.shufflers.release(batch, decoded)
        self._waiting[levels[batch]] = release.sum
        if self.shufflers.full:
            return
        for level in sorted(self._waiting):
            self._finish(level, self._waiting[level])
        self._waiting.clear()
        self.summed = self.users - self.users % self.plan.tree.low
        self._activate()

    def _finish(self, level: int, own: Any) -> None:
        weight = self.plan.weights.own[level]
        if level:
            own = weight * own + (1.0 - weight) * self._totals[level - 1]
            self._totals[level - 1] = 0.0
        self._totals[level] += own

    def _activate(self) -> None:
        for level in self.shufflers.idle:
            size = self.plan.tree.sizes[level]
            # A node that cannot fill any more would cost its users and tell nothing.
            if self.users % size == 0 and self.users + size <= self.plan.users:
                self.shufflers.activate(level, self.plan.mechanisms[level])

    @classmethod
    def resume(cls, plan: CounterPlan, log: Iterable[Event]) -> Counter:
        """Go through a log again and be where it ends."""
        counter = cls(plan)
        for number, event in enumerate(list(log)):
            if isinstance(event, Arrived):
                counter.arrive(event.users)
            elif isinstance(event, Released):
                counter.release(event.batch, event.decoded)
            elif not isinstance(event, Activated) or event not in counter.shufflers.log[number : number + 1]:
                raise CroupierError(f"event {number} does not follow: {event}")
        return counter


def gaussian_deviation(
    tree: Tree, variances: Sequence[float], failure: float, *, directions: float = 1.0, strength: float = 1.0
) -> float:
    """`CounterPlan.deviation` for Gaussian noise of these variances on the nodes of each level."""
    failure = float(between("failure", failure, 0, 1))
    std = math.sqrt(tree.worst(variances))
    return _least_deviation(
        tree, lambda level, slopes: strength * variances[level] * slopes**2 / 2.0, std, directions / failure
    )


def _least_deviation(tree: Tree, cumulant: Callable[[int, Floats], Floats], std: float, odds: float) -> float:
    """The least of (log Σ_prefixes e^{cumulant} + log 2·odds)/l over slopes l."""
    slopes = np.geomspace(1e-3, 1e3, STEPS) / max(std, 1e-9)
    total = np.zeros_like(slopes)
    for level, nodes in enumerate(tree.nodes):
        top = level == tree.levels - 1
        most = nodes if top else min(tree.degree - 1, nodes)
        total += _log_geometric(cumulant(level, slopes), most)
    return float(np.min((total + math.log(2.0 * odds)) / slopes))


def _log_geometric(exponent: Floats, most: int) -> Floats:
    """log Σ_{m=0}^{most} e^{m·exponent} for exponents >= 0, without overflow."""
    from scipy.special import logsumexp

    endless = np.isinf(exponent)
    exponent = np.where(endless, 0.0, np.maximum(exponent, 0.0))
    if most <= 64:
        found = logsumexp(np.arange(most + 1)[:, None] * exponent[None], axis=0)
    else:
        # most·e + log of Σ e^{-m·e} <= 1/(1 - e^{-e}), and never more than most + 1 terms.
        with np.errstate(divide="ignore"):
            found = most * exponent + np.minimum(-np.log(-np.expm1(-exponent)), math.log(most + 1))
    return np.where(endless, np.inf, found)
