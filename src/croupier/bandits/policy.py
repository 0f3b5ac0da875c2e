"""What every policy is: a deterministic state machine that asks for batches and is told their sums.

State is arrays with the runs on the first axis and the arms on the second, so that one piece of code serves a live
experiment (one run) and a sweep (thousands). A policy never sees a reward: it is told decoded numbers of whole batches.

A new policy is a class that says its `odds`; where that is not enough also its `sizes`, and what to `learn` from sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.chernoff import bounds
from croupier.bandits.noise_sums import NoiseSums
from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.comparisons.tails import Floats, Tails
from croupier.protocols import Protocol
from croupier.protocols.sums.several import Sums
from croupier.texts import plural

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIRST_HORIZON = 1024
MOST_USERS = 10**18
"""More do not fit the numbers that users are counted with."""


class Policy(ABC):
    """K arms, a horizon of users (None: unknown, guessed by doubling), and a ladder of batch sizes."""

    accumulate = True
    """Whether an arm's estimate uses all of its batches or only the last."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Options of some policies only that this one reads: failure, exploration, seed, decision, shares."""
    in_blocks: ClassVar[bool] = False
    """Whether the batches of a phase close together, so that differences between arms may be claimed."""
    strange: ClassVar[bool] = False
    """Whether it comes from outside the package, where no test of ours has looked at its odds."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.strange = cls.__module__.partition(".")[0] != "croupier"

    def __init__(self, arms: int, horizon: int | None, ladder: Ladder, *, runs: int = 1, name: str = "") -> None:
        self.arms = integer("arms", arms, 2)
        self.horizon = None if horizon is None else integer("horizon", horizon, 1, MOST_USERS)
        self.ladder, self.runs, self.name = ladder, integer("runs", runs, 1), name or type(self).__name__
        self.users: Integers = np.zeros(runs, dtype=np.int64)
        self.batches: Integers = np.zeros((runs, arms), dtype=np.int64)
        self.pulls: Integers = np.zeros((runs, arms), dtype=np.int64)
        self.counts: Integers = np.zeros((runs, arms), dtype=np.int64)
        self.totals: Floats = np.zeros((runs, arms))
        self.noise: Integers = np.zeros((runs, arms), dtype=np.int64)
        self.noises = NoiseSums(self.batch_noise)
        self.active: Bools = np.ones((runs, arms), dtype=bool)
        self.open_to_users: Bools = np.ones(arms, dtype=bool)
        self.stopped: Bools = np.zeros(runs, dtype=bool)

    @property
    def finished(self) -> Bools:
        """Which runs want nothing more."""
        if self.horizon is None:
            return self.stopped
        return self.stopped | (self.users >= self.horizon)

    @property
    def settled(self) -> Bools:
        """Which runs have nothing left to learn: their users get the one arm in play and need not report."""
        return np.zeros(self.runs, dtype=bool)

    @property
    def decided(self) -> Bools:
        """In which runs a decision stands: in none, where differences are not claimed."""
        return np.zeros(self.runs, dtype=bool)

    @property
    def verdicts(self) -> list[str]:
        """What stands in every run: "leading" where nothing is decided."""
        return ["leading"] * self.runs

    @property
    def alarmed(self) -> Bools:
        """In which runs arms do not report alike, so that nothing is decided."""
        return np.zeros(self.runs, dtype=bool)

    def wrong(self, gaps: Floats, beside: Sequence[Floats] = ()) -> Bools:
        """Which runs decided what the true distances of all arms to the best one contradict.

        `beside` has the true means of the metrics beside the primary one, where there are any.
        """
        return np.zeros(self.runs, dtype=bool)

    @property
    def span(self) -> Floats:
        """The horizon, or the least power of two beyond the users so far."""
        if self.horizon is not None:
            return np.full(self.runs, float(self.horizon))
        return np.exp2(np.ceil(np.log2(np.maximum(self.users + 1, FIRST_HORIZON))))

    @abstractmethod
    def odds(self) -> Floats:
        """With what odds a user who comes now gets each arm: a row a run, that adds up to one, or zeros for nobody.

        The arms with odds above zero are open together, and each gets a batch. Only `playable` arms have odds. Asking
        changes nothing, and the same state gives the same odds: a policy that wants chance draws it from a seed that
        its configuration names.
        """

    def sizes(self, runs: Integers, arms: Integers) -> Integers:
        """How many users the next batches of these arms in these runs want: at least one each.

        Each arm climbs the ladder of batch sizes by itself, unless a policy says otherwise. Where sums accumulate, the
        size of an arm's j-th batch must not depend on that arm's sums: `intervals` would not hold.
        """
        return self.ladder.sizes(self.batches[runs, arms])

    def learn(self, released: Bools) -> None:  # noqa: B027 - most policies have nothing to add
        """Take new sums into account: estimates are renewed already, in the arms and runs where `released` is true.

        For policies that remember more than estimates. What they learn depends on the state and `released` alone.
        """

    def wanted(self) -> Integers:
        """Users that each arm wants for its next batch, now: zero for none. Asking changes nothing."""
        wanted = np.zeros((self.runs, self.arms), dtype=np.int64)
        odds = self.odds()
        if self.strange:
            self._check_odds(odds)
        runs, arms = np.nonzero(odds)
        wanted[runs, arms] = self.sizes(runs, arms)
        return wanted

    def _check_odds(self, odds: Floats) -> None:
        """Refuse what users cannot be dealt by."""
        if np.shape(odds) != self.active.shape:
            due = f"{self.active.shape}, a row a run and a column an arm"
            raise CroupierError(f"the odds of {self.name} have the shape {np.shape(odds)}, and it must be {due}")
        # What is not a number is not in the range either.
        right = (odds >= 0.0) & (odds < np.where(self.playable, np.inf, np.finfo(float).tiny))
        if not right.all():
            said = odds[~right.all(axis=1)][0].tolist()
            raise CroupierError(f"the odds of {self.name} are {said}: not finite, below 0, or of an arm out of play")

    @property
    def playable(self) -> Bools:
        """The arms that may have odds: in play, not paused, and in runs that are not finished."""
        return self.active & self.open_to_users & ~self.finished[:, None]

    def assign(self, wanted: Integers, limit: int | None = None) -> tuple[Integers, Bools]:
        """What is really assigned, arms in order up to the horizon, and which batches are released.

        A batch that the horizon cuts short is never released, and a settled run has no batches.
        """
        limit = self.horizon if limit is None else limit
        assigned = wanted
        if limit is not None:
            left = np.maximum(limit - self.users, 0)[:, None]
            before = np.cumsum(wanted, axis=1) - wanted
            assigned = np.asarray(np.clip(left - before, 0, wanted))
        return assigned, (assigned == wanted) & (wanted > 0) & ~self.settled[:, None]

    def observe(self, sums: Floats, assigned: Integers, released: Bools) -> None:
        """Be told the estimated reward sums of the released batches (in units of a reward) and all assignments."""
        released = np.asarray(released, dtype=bool)
        self.users = self.users + assigned.sum(axis=1)
        self.pulls = self.pulls + assigned
        told = np.nonzero(released)
        if not self.accumulate:
            for table in (self.totals, self.counts, self.noise):
                table[told] = 0
        np.add(self.totals, sums, out=self.totals, where=released)
        np.add(self.counts, assigned, out=self.counts, where=released)
        self.noise[told] = self.noises.added(self.noise[told], self.ladder.noise_sizes(assigned[told]))
        self.batches = self.batches + released
        self.learn(released)

    @property
    def means(self) -> Floats:
        """Estimated means; a half where nothing is known."""
        return np.where(self.counts > 0, self.totals / np.maximum(self.counts, 1), 0.5)

    @property
    def best_arm(self) -> Integers:
        """The arm with the best estimate among those still in play."""
        return np.asarray(np.argmax(np.where(self.active & self.open_to_users, self.means, -np.inf), axis=1))

    def intervals(self, failure: float = 0.05) -> tuple[Floats, Floats]:
        """Bounds on every arm's mean that all hold while there are so many arms, except with this probability.

        The j-th batch of an arm gets the share 6/(πj)² of its part of the failure probability, so that looking as
        often as one likes costs nothing. The chance that a modular sum has wrapped around is set aside first.
        """
        failure = float(between("failure", failure, 0, 1))
        rows, j = self.noises.tails, np.maximum(self.batches, 1)
        spare = np.maximum(failure - rows.wrap[self.noise].sum(axis=1, keepdims=True), 0.0)
        with np.errstate(divide="ignore"):
            level = np.log(2.0 * self.arms * (np.pi * j) ** 2 / (6.0 * spare))
        return bounds(self.totals, self.counts, self.noise, rows, level)

    def mechanism(self, size: int) -> Sums | None:
        """How a batch of this size is made private; None without privacy."""
        return self.ladder.mechanism(size)

    def batch_noise(self, users: int) -> Tails:
        """What is known of the noise in the sum of a batch of so many users, in units of a reward.

        For policies that add a noise of their own to override; all others have their protocol's.
        """
        return self.ladder.noise(users)

    def disturb(self, sums: Floats, released: Bools, generator: np.random.Generator) -> Floats:
        """Reward sums with the policy's own noise, where it has some; for simulations, which draw it."""
        return sums

    def over(self, protocol: Protocol | None, noise: float) -> Policy:
        """This policy afresh over another protocol (None: no noise) with `noise` times as much of it in its radii.

        For policies with published radii, to compare what they cost.
        """
        raise CroupierError(f"{self.name} has no published radii")

    def pause(self, arm: int) -> None:
        """Offer an arm to nobody for now."""
        self.open_to_users[self._arm(arm)] = False

    def resume(self, arm: int) -> None:
        """Offer a paused arm again."""
        self.open_to_users[self._arm(arm)] = True

    def retire(self, arm: int) -> None:
        """Take an arm out for good."""
        if self.active.sum(axis=1).min() <= 1 and self.active[:, self._arm(arm)].any():
            raise InvalidParameter("arm", arm, "not the last arm in play")
        self.active[:, arm] = False

    def add_arm(self) -> int:
        """Add a fresh arm and return its number."""
        for name in ("batches", "pulls", "counts", "totals", "noise"):
            table = getattr(self, name)
            setattr(self, name, np.concatenate((table, np.zeros((self.runs, 1), dtype=table.dtype)), axis=1))
        self.active = np.concatenate((self.active, np.ones((self.runs, 1), dtype=bool)), axis=1)
        self.open_to_users = np.append(self.open_to_users, True)
        self.arms += 1
        return self.arms - 1

    def stop(self) -> None:
        """End all runs early."""
        self.stopped = np.ones(self.runs, dtype=bool)

    def _arm(self, arm: int) -> int:
        return integer("arm", arm, 0, self.arms - 1)

    def table(self, run: int = 0) -> list[dict[str, Any]]:
        """One run's arms as rows."""
        lower, upper = self.intervals()
        return [
            {
                "arm": arm,
                "active": bool(self.active[run, arm]),
                "users": int(self.pulls[run, arm]),
                "batches": int(self.batches[run, arm]),
                "mean": float(self.means[run, arm]),
                "lower": float(lower[run, arm]),
                "upper": float(upper[run, arm]),
            }
            for arm in range(self.arms)
        ]

    def __repr__(self) -> str:
        rows = "\n".join(
            f"  arm {row['arm']:>3}  {'in ' if row['active'] else 'out'}  {row['users']:>12,} users  "
            f"mean {row['mean']:.4f} in [{row['lower']:.4f}, {row['upper']:.4f}]"
            for row in self.table()
        )
        return f"{self.name}: {self.arms} arms, horizon {self.horizon}, {plural(self.runs, 'run')}\n{rows}"
