"""A cell of a sweep: one policy in one setting, what decides its results, and the rows that come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier import __version__
from croupier.bandits import Policy
from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.protocols import ROWS
from croupier.simulation.baselines import ALL_POLICIES, OPTIONS, reads, simulated_policy
from croupier.simulation.data import file_hash, ratings
from croupier.simulation.reporting import Delayed, Silent
from croupier.simulation.runner import Run, simulate
from croupier.simulation.world_names import WORLDS, world
from croupier.simulation.worlds import World, uniform_means

Row = dict[str, Any]

DECIDED = ("decision", "users_decided", "decision_wrong", "alarm")
"""Columns of policies that claim comparisons."""


@dataclass(frozen=True, kw_only=True)
class Special:
    """What a sweep and each of its cells may say besides: None where it is not used."""

    protocol: str | None = None
    data: str | None = None
    data_hash: str | None = None
    scaling: float | None = None
    participations: int | None = None
    trust: str | None = None
    smallest_effect: float | None = None
    reporting: tuple[float, ...] | None = None
    delay: int | None = None


LATER = tuple(field.name for field in fields(Special))


@dataclass(frozen=True)
class Cell(Special):
    """One policy in one setting, run `runs` times in each of `instances` worlds, all at once.

    Fields that mean nothing to a policy are the same in all its cells: without privacy there is no epsilon.
    """

    policy: str
    epsilon: float | None
    delta: float | None
    constants: str
    horizon: int
    world: str | None
    arms: int
    low: float | None
    high: float | None
    means: tuple[float, ...] | None
    instances: int
    runs: int
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Cell:
        """The cell that a row came from."""
        values = {field.name: row[field.name] for field in fields(cls) if field.name in row}
        lists = {key: None if values.get(key) is None else tuple(values[key]) for key in ("means", "reporting")}
        return cls(**values | lists)

    @property
    def total(self) -> int:
        return self.instances * self.runs

    @property
    def notion(self) -> str:
        """What the policy promises; `none` where there is no privacy at all."""
        if self.protocol is not None:
            return ROWS[self.protocol].notion
        entry = ALL_POLICIES[self.policy]
        # A reference has no protocol of ours, and is purely private.
        return "pure" if self.epsilon is not None and entry.protocol is None else entry.notion

    @property
    def read_constants(self) -> str | None:
        """The constants, where the policy has a protocol's. A cell always names some: its seed follows from them."""
        return self.constants if "constants" in reads(self.policy, self.protocol) else None

    @property
    def content(self) -> dict[str, Any]:
        """What decides the results. Keys that came later count where they are used, so that older results stay."""
        body = asdict(self)
        return {key: value for key, value in body.items() if value is not None or key not in LATER}

    @property
    def name(self) -> str:
        """A file name: two cells share it when all their content and the version of croupier agree."""
        return f"{_digest(self.policy, self.content, __version__):064x}"[:32]

    def make_world(self) -> World:
        """The worlds that every policy of a sweep meets alike, one for each run."""
        found = self._outcomes()
        found = found if self.reporting is None else Silent(found, self.reporting)
        return found if self.delay is None else Delayed(found, self.delay)

    def _outcomes(self) -> World:
        if self.data is not None:
            return _read_data(self.data, self.data_hash, self.arms, self.seed)
        assert self.world is not None
        if self.means is not None:
            return world(self.world, self.means)
        assert self.low is not None
        assert self.high is not None
        means = drawn_means(self.arms, self.instances, self.low, self.high, self.seed)
        return world(self.world, np.repeat(means, self.runs, axis=0))

    def admit(self) -> None:
        """Import what is named as `module:name`, in a process that has not yet."""
        for registry, name in ((ALL_POLICIES, self.policy), (ROWS, self.protocol), (WORLDS, self.world)):
            registry.admit(name)

    def make_policy(self, runs: int) -> Policy:
        """The policy, not yet played."""
        return simulated_policy(
            self.policy,
            arms=self.arms,
            horizon=self.horizon,
            epsilon=self.epsilon,
            delta=self.delta,
            constants=self.read_constants,
            runs=runs,
            binary=self.make_world().binary,
            **({} if self.protocol is None else {"protocol_name": self.protocol}),
            **{key: value for key in OPTIONS if (value := getattr(self, key)) is not None},
            **({} if self.smallest_effect is None else {"decision": {"smallest_effect": self.smallest_effect}}),
        )

    def __str__(self) -> str:
        privacy = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        privacy += "" if self.read_constants is None else f", {self.constants} constants"
        over = "" if self.protocol is None else f" over {self.protocol}"
        whom = "" if self.trust is None else f", trusting {self.trust}"
        return f"{self.policy}{over}{whom}{privacy}, horizon {self.horizon:,}"


def drawn_means(arms: int, instances: int, low: float, high: float, seed: int) -> NDArray[np.floating[Any]]:
    """The means of worlds that every policy meets alike: they follow from these numbers alone."""
    if not 0 <= low < high <= 1:
        raise InvalidParameter("low", low, f"a number in [0, 1] below high = {high:g}")
    generator = np.random.default_rng([integer("seed", seed, 0), _digest("instances", arms, low, high)])
    return uniform_means(integer("arms", arms, 2), instances, low, high, generator)


def run_cell(cell: Cell) -> list[Row]:
    """Play all runs of a cell; one row each."""
    entropy = np.random.SeedSequence([cell.seed, _digest("rewards", cell.content)])
    seed = int.from_bytes(entropy.generate_state(4).tobytes(), "little")
    try:
        run = simulate(cell.make_policy(cell.total), cell.make_world(), seed=seed, checkpoints=1)
    except CroupierError as error:
        # Other errors may not survive the way back from another process.
        raise CroupierError(f"{cell}: {error}") from None
    everyone = np.arange(cell.total)
    best = run.world.gaps(cell.total, cell.horizon - 1)[everyone, run.policy.best_arm] <= 1e-12
    lists = {key: value and list(value) for key, value in (("means", cell.means), ("reporting", cell.reporting))}
    said = asdict(cell)
    # What is always said comes first.
    common = {key: said[key] for key in sorted(said, key=LATER.__contains__)} | {"notion": cell.notion} | lists
    decided = decision_rows(run)
    return [
        common
        | {
            "instance": index // cell.runs,
            "run": index % cell.runs,
            "regret": float(run.regret[index]),
            "best_arm_found": bool(best[index]),
        }
        | decided[index]
        for index in everyone.tolist()
    ]


def decision_rows(run: Run) -> list[Row]:
    """What every run decided, after how many users, and whether it was wrong; None where the policy claims nothing."""
    policy = run.policy
    if run.decided is None:
        return [dict.fromkeys(DECIDED)] * policy.runs
    wrong, alarms = run.false_decisions.tolist(), policy.alarmed.tolist()
    return [
        {
            "decision": "no decision" if alarm and not decided else kind,
            "users_decided": int(users) if decided else None,
            "decision_wrong": false,
            "alarm": alarm,
        }
        for kind, decided, users, false, alarm in zip(
            policy.verdicts, policy.decided.tolist(), run.decided.tolist(), wrong, alarms, strict=True
        )
    ]


def admitted_cell(cell: Cell) -> list[Row]:
    """Play a cell that this machine's own sweep is made of; a file's rows are never taken at their word like this."""
    cell.admit()
    return run_cell(cell)


@lru_cache(maxsize=1)
def _read_data(path: str, known: str | None, arms: int, seed: int) -> World:
    log = ratings(path, arms=arms, seed=seed)
    if known not in (None, file_hash(path)):
        raise CroupierError(f"{path} is not the file that this was made of: its SHA-256 is another")
    return log


def repeat(row: Mapping[str, Any]) -> Row:
    """Run again what gave a row, from its columns alone."""
    cell = Cell.of(row)
    place: int = row["instance"] * cell.runs + row["run"]
    return run_cell(cell)[place]


def _digest(*content: object) -> int:
    text = json.dumps(content, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
