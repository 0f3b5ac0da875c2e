"""Counters with simulated users: a value enters, the running sum comes out; one by one, or a whole array at once.

Devices, shufflers and server are in one process here. Every level encodes each value by itself, as a device does, and
the noise of a batch is drawn once, which has the same law as adding up all shares.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer
from croupier.continual import Counter, CounterPlan, prefixes
from croupier.frames import Rows, Tabular
from croupier.noise import Source
from croupier.noise.source import fractions
from croupier.protocols.sums.values import encode

Floats = NDArray[np.float64]

CHUNK = 2**20
"""Users encoded at a time, so that memory stays small."""

FIRST_EPOCH = 1024

NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class RunningSum(ABC):
    """What every counter in a simulation offers: `update` for one value, `run` for an array, and its error bound."""

    users: int
    memory_nodes: int

    @abstractmethod
    def update(self, value: Any) -> Any:
        """Take in the next user's value and return the estimated sum of all so far."""

    @abstractmethod
    def run(self, values: ArrayLike) -> Floats:
        """The estimates after every value of a fresh stream (the first axis is time)."""

    @abstractmethod
    def bound(self, failure: float) -> float:
        """α such that all estimates are within α of the truth, except with this probability."""

    def mean_squares(self, values: Floats) -> Floats | None:
        """The exact mean square error after every value of a stream of numbers, where it is known."""
        return None


class TreeSum(RunningSum):
    """A planned counter with its users in the same process.

    >>> from croupier.continual import counter
    >>> from croupier.noise import seeded
    >>> running = TreeSum(counter(1000, 2, epsilon=1.0), seeded(1))
    >>> estimates = [running.update(1) for _ in range(1000)]
    >>> abs(estimates[-1] - 1000) < running.bound(1e-6)
    True
    """

    def __init__(self, plan: CounterPlan, source: Source) -> None:
        self.plan, self.source = plan, source
        self.server = Counter(plan)
        self.users, self.memory_nodes = plan.users, plan.memory_nodes
        self._smallest, self._middle = plan.tree.smallest, plan.middle
        self._finished: Any = self.server.estimate
        self._pending: list[Any] = []
        self._check = _entrance(plan)
        self._left = plan.users
        self._sums = np.zeros((plan.tree.levels, *np.shape(self._finished)), dtype=np.int64)

    def bound(self, failure: float) -> float:
        return self.plan.bound(failure)

    def mean_squares(self, values: Floats) -> Floats | None:
        return mean_squares(self.plan, values) if np.ndim(values) == 1 else None

    def update(self, value: Any) -> Any:
        if not self._left:
            raise InvalidParameter("users", self.users + 1, f"at most {self.users}, as planned")
        self._pending.append(self._check(value))
        self._left -= 1
        if len(self._pending) == self._smallest:
            values = self.plan.mechanisms[0].values.unit(self._pending)
            self._pending = []
            self._close(values)
        return self._finished + len(self._pending) * self._middle

    def extend(self, block: ArrayLike) -> Any:
        """Take in the values of exactly one lowest node at once, and return the estimate after them."""
        values = self.plan.mechanisms[0].values.unit(as_numbers(block))
        if (
            values.ndim != 1 + self.plan.mechanisms[0].coordinates
            or len(values) != self._smallest
            or self._pending
            or self._left < self._smallest
        ):
            raise InvalidParameter("block", values.shape, f"the {self._smallest} users of one whole lowest node")
        self._left -= self._smallest
        self._close(values)
        return self._finished

    def _close(self, values: Floats) -> None:
        """A lowest node is full: its users' reports to every level, and the releases that are due."""
        if values.ndim == 1 and self.plan.mechanisms[0].values.binary:
            # Bits are whole levels on every grid.
            self._sums += [int(values.sum()) * mechanism.precision for mechanism in self.plan.mechanisms]
        else:
            self._sums += encoded_sums(values, [mechanism.precision for mechanism in self.plan.mechanisms], self.source)
        self.server.arrive(self._smallest)
        for batch in self.server.shufflers.full:
            decoded = batch.mechanism.noisy(self._sums[batch.shuffler], self.source)
            self._sums[batch.shuffler] = 0
            self.server.release(batch.number, tuple(decoded.tolist()) if decoded.ndim else int(decoded))
        self._finished = self.server.estimate

    def run(self, values: ArrayLike) -> Floats:
        plan = self.plan
        array = as_numbers(values)
        if array.ndim != 1 + plan.mechanisms[0].coordinates or not 1 <= len(array) <= plan.users:
            shape = f"(t, {plan.dimension})" if plan.mechanisms[0].coordinates else "(t,)"
            raise InvalidParameter("values", array.shape, f"an array {shape} with t at most {plan.users}, as planned")
        sums = self._level_sums(array)
        decoded = [m.estimate(m.noisy(s, self.source)) for m, s in zip(plan.mechanisms, sums, strict=True)]
        finished = prefixes(plan.tree, plan.weights.refined(plan.tree, decoded))
        t = np.arange(1, len(array) + 1)
        pending = (t % plan.tree.smallest) * plan.middle
        estimates = np.repeat(finished, plan.tree.smallest, axis=0)[1 : len(array) + 1]
        return estimates + (pending if array.ndim == 1 else pending[:, None]) if plan.middle else estimates

    def _level_sums(self, array: Floats) -> list[NDArray[np.int64]]:
        """Encoded sums of all nodes that fill, by level."""
        tree, values = self.plan.tree, self.plan.mechanisms[0].values
        counts = [len(array) // size for size in tree.sizes]
        shape = array.shape[1:]
        lowest = [np.zeros((counts[0], *shape), dtype=np.int64) for _ in ([0] if values.binary else tree.sizes)]
        step = max(1, CHUNK // tree.smallest)
        for start in range(0, counts[0], step):
            nodes = slice(start, min(start + step, counts[0]))
            unit = values.unit(array[nodes.start * tree.smallest : nodes.stop * tree.smallest])
            for level, sums in enumerate(lowest):
                precision = 1 if values.binary else self.plan.mechanisms[level].precision
                encoded = encode(unit, precision, self.source)
                sums[nodes] = encoded.reshape(-1, tree.smallest, *shape).sum(axis=1)
        values.unit(array[counts[0] * tree.smallest :])
        levels = []
        for level, count in enumerate(counts):
            own = lowest[min(level, len(lowest) - 1)]
            width = tree.degree**level
            scale = self.plan.mechanisms[level].precision if values.binary else 1
            levels.append(scale * own[: count * width].reshape(count, width, *shape).sum(axis=1))
        return levels


def encoded_sums(values: Floats, precisions: Sequence[int], source: Source) -> NDArray[np.int64]:
    """Σ `encode(values, precision, source)` over users for each precision: the same numbers from the same draws.

    A word of 64 bits is below p·2⁶⁴ where its first 53 bits, as a number below one, are below p, if p is a multiple of
    2⁻⁵³. The fraction of a number above one is. That is several times as fast.
    """
    if not values.size or values.min() * min(precisions) < 1.0:
        return np.stack([encode(values, precision, source).sum(axis=0) for precision in precisions])
    fraction, whole, drawn = (np.empty(values.shape) for _ in range(3))
    everybody, sums = np.ones(len(values)), []
    for precision in precisions:
        np.multiply(values, precision, out=fraction)
        np.floor(fraction, out=whole)
        np.subtract(fraction, whole, out=fraction)
        if fraction.flat[0] or fraction.any():
            fractions(drawn, source)
            whole += drawn < fraction
        # Whole numbers below 2⁵³ add up exactly, in any order.
        sums.append(everybody @ whole)
    return np.asarray(sums).astype(np.int64)


class DoublingSum(RunningSum):
    """A counter that knows no number of users: epochs of twice as many each, every one a fresh counter.

    A user belongs to one epoch, so privacy is that of one counter. What an epoch ended with is carried over.
    """

    def __init__(self, plan: Callable[[int], CounterPlan], source: Source, *, first: int = FIRST_EPOCH) -> None:
        self._plan, self.source = plan, source
        self._size = integer("first", first, 2)
        self._carried: Any = 0.0
        self._first = self._size
        self._seen = 0
        self._begin()

    @property
    def users(self) -> int:  # type: ignore[override]
        """Users so far."""
        return self._seen

    @property
    def memory_nodes(self) -> int:  # type: ignore[override]
        return self.epoch.memory_nodes + 1

    def _begin(self) -> None:
        self.epoch = TreeSum(self._plan(self._size), self.source)
        self._size *= 2

    def update(self, value: Any) -> Any:
        last = self.epoch
        total = last.update(value) + self._carried
        self._seen += 1
        if not last._left:
            self._carried = total
            self._begin()
        return total

    def run(self, values: ArrayLike) -> Floats:
        array = as_numbers(values)
        if not array.ndim:
            raise InvalidParameter("values", array.shape, "an array with time on its first axis")
        fresh = type(self)(self._plan, self.source, first=self._first)
        counts, carried, start = [], np.zeros(array.shape[1:]), 0
        while True:
            epoch = fresh.epoch
            part = array[start : start + epoch.users]
            counts.append(epoch.run(part) + carried)
            start += len(part)
            if start >= len(array):
                return np.concatenate(counts)
            carried = counts[-1][-1]
            fresh._begin()

    def bound(self, failure: float, users: int | None = None) -> float:
        """For all estimates up to so many users (default: so far); epoch e has the share 6/(πe)² of the failure."""
        failure = float(between("failure", failure, 0, 1))
        bounds: list[float] = []
        size, left = self._first, max(1, self._seen if users is None else users)
        while left > 0:
            share = failure * 6.0 / (math.pi * (len(bounds) + 1)) ** 2
            bounds.append(self._plan(size).bound(share))
            left, size = left - size, 2 * size
        return math.fsum(bounds)


def as_numbers(values: Any) -> Floats:
    """Numbers as an array, or a refusal."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "value", values, "numbers: a vector of norm at most 1, or an array of one shape"
        ) from None


def _entrance(plan: CounterPlan) -> Callable[[Any], Any]:
    """A quick check of one value, where it enters."""
    values = plan.mechanisms[0].values
    if plan.mechanisms[0].coordinates or values.clip:
        wanted = (plan.dimension,) if plan.mechanisms[0].coordinates else ()

        def check_shape(value: Any) -> Any:
            if np.shape(value) != wanted:
                allowed = f"a vector of {plan.dimension} coordinates" if wanted else "a number"
                raise InvalidParameter("value", f"shape {np.shape(value)}", allowed)
            values.unit(as_numbers(value))
            return value

        return check_shape
    low, high = float(values.low), float(values.high)
    allowed = f"{low:g} or {high:g}" if values.binary else f"a number in [{low:g}, {high:g}]"

    def check(value: Any) -> Any:
        if not isinstance(value, NUMBERS) or not low <= value <= high or (values.binary and low != value != high):
            raise InvalidParameter("value", value, allowed)
        return value

    return check


def mean_squares(plan: CounterPlan, values: Floats) -> Floats:
    """The exact mean square error of a counter after every value: the noise of finished nodes, and unfinished users."""
    smallest = plan.tree.smallest
    levels = zip(plan.tree.nodes, plan.variances, strict=True)
    noise = prefixes(plan.tree, [np.full(nodes, variance) for nodes, variance in levels])
    sums, users = np.append(0.0, np.cumsum(values)), np.arange(1, len(values) + 1)
    unseen = sums[1:] - sums[users // smallest * smallest] - users % smallest * plan.middle
    return np.asarray(noise[users // smallest] + unseen**2)


NEARLY = 0.98
"""Times whose exact mean square error is at least this share of the largest count as the worst time."""


@dataclass(frozen=True)
class CountingError(Tabular):
    """How far a counter was off, over several runs of one stream.

    `rms_error_worst` is the root mean square over runs at the worst time. Where the law of the error is known, as of
    all counters but those that double, that time is known beforehand. `rms_error_largest` is the largest over all
    times, which chance pushes up.

    >>> from croupier.continual import counter
    >>> from croupier.noise import seeded
    >>> plan = counter(1000, 2, epsilon=1.0)
    >>> error = CountingError.measure(lambda run: TreeSum(plan, seeded(run)), np.ones(1000), runs=5)
    >>> error.rows[0]["max_error_mean"] == error.max_error_mean, error.within(plan.bound(1e-6))
    (True, 1.0)
    """

    max_error_mean: float
    max_error_worst: float
    rms_error_worst: float
    rms_error_largest: float
    rms_error_last: float
    within: Callable[[float], float]

    @property
    def rows(self) -> Rows:
        """One row: every error, by its name."""
        return Rows([{field.name: getattr(self, field.name) for field in fields(self) if field.name != "within"}])

    @classmethod
    def measure(
        cls, counters: Callable[[int], RunningSum], values: Floats, runs: int, tell: Callable[[], None] | None = None
    ) -> CountingError:
        """Run a stream through `runs` fresh counters, numbered from 0."""
        truth = np.cumsum(values, axis=0)
        squares = np.zeros(len(values))
        largest = np.zeros(integer("runs", runs, 1))
        known = counters(0).mean_squares(values)
        for number in range(runs):
            error = counters(number).run(values) - truth
            if error.ndim > 1:
                error = np.abs(error).max(axis=1)
            squares += error**2
            largest[number] = np.abs(error).max()
            if tell is not None:
                tell()
        squares /= runs
        worst = squares.max() if known is None else squares[known >= NEARLY * known.max()].mean()
        return cls(
            float(largest.mean()),
            float(largest.max()),
            float(np.sqrt(worst)),
            float(np.sqrt(squares.max())),
            float(np.sqrt(squares[-1])),
            lambda bound: float(np.mean(largest <= bound)),
        )
