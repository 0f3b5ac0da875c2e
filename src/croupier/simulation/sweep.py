"""Sweeps: policies × epsilon × constants × horizons in drawn worlds, one Parquet row a run.

A sweep is a list of independent cells. A cell's results follow from its own content alone, so they do not depend on
the other cells, on the number of jobs or on the engine, and a row can be repeated from its own columns. Finished cells
are kept beside the output until all are there: a sweep that was cut short goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from croupier import __version__
from croupier.bandits import Policy
from croupier.checks import CroupierError, InvalidParameter, between, integer, one_of, positive
from croupier.protocols import protocol
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.engines import ENGINES, Store
from croupier.simulation.runner import simulate
from croupier.simulation.worlds import Bernoulli, Beta, ClippedGaussian, World, checked_means, uniform_means

Row = dict[str, Any]

WORLDS: dict[str, Callable[[Any], World]] = {"bernoulli": Bernoulli, "gaussian": ClippedGaussian, "beta": Beta}
"""Worlds made from means (for clipped Gaussians: from centres)."""


@dataclass(frozen=True)
class Cell:
    """One policy in one setting, run `runs` times in each of `instances` worlds, all at once.

    Fields that mean nothing to a policy are the same in all its cells: without privacy there is no epsilon.
    """

    policy: str
    epsilon: float | None
    delta: float | None
    constants: str
    horizon: int
    world: str
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
        values = {field.name: row[field.name] for field in fields(cls)}
        return cls(**values | {"means": None if row["means"] is None else tuple(row["means"])})

    @property
    def total(self) -> int:
        return self.instances * self.runs

    @property
    def notion(self) -> str:
        """What the policy promises; `none` where there is no privacy at all."""
        entry = ALL_POLICIES[self.policy]
        # A reference has no protocol of ours, and is purely private.
        return "pure" if self.epsilon is not None and entry.protocol is None else entry.notion

    @property
    def name(self) -> str:
        """A file name: two cells share it when all their content and the version of croupier agree."""
        return f"{_digest(self.policy, asdict(self), __version__):064x}"[:32]

    def make_world(self) -> World:
        """The worlds that every policy of a sweep meets alike, one for each run."""
        if self.means is not None:
            return WORLDS[self.world](self.means)
        assert self.low is not None
        assert self.high is not None
        drawn = np.random.default_rng([self.seed, _digest("instances", self.arms, self.low, self.high)])
        means = uniform_means(self.arms, self.instances, self.low, self.high, drawn)
        return WORLDS[self.world](np.repeat(means, self.runs, axis=0))

    def make_policy(self, runs: int) -> Policy:
        """The policy, not yet played."""
        return simulated_policy(
            self.policy,
            arms=self.arms,
            horizon=self.horizon,
            epsilon=self.epsilon,
            delta=self.delta,
            constants=self.constants,
            runs=runs,
            binary=self.make_world().binary,
        )

    def __str__(self) -> str:
        privacy = "" if self.epsilon is None else f", epsilon {self.epsilon:g}, {self.constants} constants"
        return f"{self.policy}{privacy}, horizon {self.horizon:,}"


def run_cell(cell: Cell) -> list[Row]:
    """Play all runs of a cell; one row each."""
    entropy = np.random.SeedSequence([cell.seed, _digest("rewards", asdict(cell))])
    seed = int.from_bytes(entropy.generate_state(4).tobytes(), "little")
    try:
        run = simulate(cell.make_policy(cell.total), cell.make_world(), seed=seed, checkpoints=1)
    except CroupierError as error:
        # Other errors may not survive the way back from another process.
        raise CroupierError(f"{cell}: {error}") from None
    everyone = np.arange(cell.total)
    found = run.world.gaps(cell.total)[everyone, run.policy.best_arm] <= 1e-12
    common = asdict(cell) | {"notion": cell.notion, "means": cell.means and list(cell.means)}
    return [
        common
        | {
            "instance": index // cell.runs,
            "run": index % cell.runs,
            "regret": float(run.regret[index]),
            "best_arm_found": bool(found[index]),
        }
        for index in everyone.tolist()
    ]


def repeat(row: Mapping[str, Any]) -> Row:
    """Run again what gave a row, from its columns alone."""
    cell = Cell.of(row)
    place: int = row["instance"] * cell.runs + row["run"]
    return run_cell(cell)[place]


def _digest(*content: object) -> int:
    text = json.dumps(content, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def _several(check: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def checked(name: str, value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else (value,)
        if not values:
            raise InvalidParameter(name, value, "one value or more")
        return tuple(dict.fromkeys(check(name, one) for one in values))

    return checked


def _means(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not all(type(one) in (int, float) for one in value):
        raise InvalidParameter(name, value, "a list of numbers")
    return tuple(checked_means(list(value)).tolist())


KEYS: dict[str, Callable[[str, Any], Any]] = {
    "policy": _several(lambda name, value: one_of(name, value, tuple(ALL_POLICIES))),
    "epsilon": _several(lambda name, value: float(positive(name, value))),
    "constants": _several(lambda name, value: one_of(name, value, CONSTANTS)),
    "horizon": _several(lambda name, value: integer(name, value, 1, 10**15)),
    "delta": lambda name, value: float(between(name, value, 0, 1)),
    "world": lambda name, value: one_of(name, value, tuple(WORLDS)),
    "arms": lambda name, value: integer(name, value, 2),
    "means": _means,
    "low": lambda name, value: float(between(name, value, 0, 1, "[]")),
    "high": lambda name, value: float(between(name, value, 0, 1, "[]")),
    "instances": lambda name, value: integer(name, value, 1),
    "runs": lambda name, value: integer(name, value, 1),
    "seed": lambda name, value: integer(name, value, 0, 2**63 - 1),
}
"""What a sweep is described by, and how each value is checked."""


def checked(keys: Mapping[str, Any], table: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """The values as the table's checks return them, without those that are None."""
    for key in keys:
        if key not in table:
            raise CroupierError(f"there is no key {key!r}; there are {', '.join(table)}")
    return {key: table[key](key, value) for key, value in keys.items() if value is not None}


@dataclass(frozen=True)
class Sweep:
    """Everything that decides a sweep's rows; make one with `of`, which checks.

    >>> sweep = Sweep.of({"policy": ["dp-klucb", "kl-ucb"], "epsilon": [0.5, 1], "arms": 5, "horizon": 10_000})
    >>> [str(cell) for cell in sweep.cells][1:]
    ['dp-klucb, epsilon 1, tight constants, horizon 10,000', 'kl-ucb, horizon 10,000']
    """

    policy: tuple[str, ...]
    epsilon: tuple[float, ...] | None = None
    constants: tuple[str, ...] = ("tight",)
    horizon: tuple[int, ...] = (100_000,)
    delta: float | None = None
    world: str = "bernoulli"
    arms: int = 10
    means: tuple[float, ...] | None = None
    low: float | None = 0.25
    high: float | None = 0.75
    instances: int = 20
    runs: int = 10
    seed: int = 0

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> Sweep:
        """Check plain values, as a file or a command line has them; None stands for a key left out."""
        given = checked(keys, KEYS)
        if "policy" not in given:
            raise InvalidParameter("policy", None, "given: one or more of " + ", ".join(ALL_POLICIES))
        if "means" in given:
            implied = {"arms": len(given["means"]), "instances": 1, "low": None, "high": None}
            for key, value in implied.items():
                if given.get(key, value) != value:
                    raise InvalidParameter(key, given[key], "left out where the means are given")
            given |= implied
        sweep = cls(**given)
        if sweep.low is not None and sweep.high is not None and not sweep.low < sweep.high:
            raise InvalidParameter("low", sweep.low, f"below high = {sweep.high:g}")
        return sweep

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every distinct cell, in an order that does not depend on how the sweep was written down."""
        settings = product(self.policy, self.epsilon or (None,), self.constants, self.horizon)
        cells = {self._cell(*setting) for setting in settings}
        return tuple(sorted(cells, key=lambda cell: (cell.policy, cell.epsilon or 0, cell.constants, cell.horizon)))

    def _cell(self, policy: str, epsilon: float | None, constants: str, horizon: int) -> Cell:
        entry, delta = ALL_POLICIES[policy], None
        if entry.model == "none":
            epsilon, constants = None, "tight"
        elif epsilon is None:
            raise InvalidParameter("epsilon", None, f"given: {policy} is private")
        elif entry.protocol is None:
            delta, constants = 0.0, "published"
        else:
            own = None if entry.notion == "pure" else self.delta
            delta = protocol(entry.protocol, epsilon=epsilon, delta=own).delta
        place = (self.world, self.arms, self.low, self.high, self.means)
        return Cell(policy, epsilon, delta, constants, horizon, *place, self.instances, self.runs, self.seed)

    def unfinished(self, store: Store) -> list[Cell]:
        """The cells that the store does not have yet."""
        return [cell for cell in self.cells if not store.has(cell.name, cell.total)]

    def check(self, progress: Callable[[int], None] | None = None) -> None:
        """Refuse the sweep where a cell's policy cannot be made, before anything runs."""
        refused = []
        for cell in self.cells:
            try:
                cell.make_policy(runs=1)
            except CroupierError as error:
                refused.append(f"{cell}: {error}")
            if progress is not None:
                progress(1)
        if refused:
            others = f" (and {len(refused) - 1} more of {len(self.cells)} cells)" if len(refused) > 1 else ""
            raise CroupierError(refused[0] + others)


def columns(arrow: Any) -> Any:
    """A file's columns: a cell's fields, the run's place in it, and what came of it."""
    text, whole, real, flag = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
    kinds = {"policy": text, "epsilon": real, "delta": real, "notion": text, "constants": text, "horizon": whole}
    kinds |= {"world": text, "arms": whole, "low": real, "high": real, "means": arrow.list_(real)}
    kinds |= dict.fromkeys(("instances", "runs", "seed", "instance", "run"), whole)
    return arrow.schema(list((kinds | {"regret": real, "best_arm_found": flag}).items()))


def run_sweep(
    sweep: Sweep,
    store: Store,
    *,
    jobs: int | None = None,
    engine: str = "local",
    progress: Callable[[int], None] | None = None,
) -> None:
    """Run the cells that are not finished, then write the file."""
    play = ENGINES[one_of("engine", engine, tuple(ENGINES))]
    tell = progress or (lambda done: None)
    left = sweep.unfinished(store)
    tell(len(sweep.cells) - len(left))
    with closing(play(run_cell, left, jobs)) as results:
        for cell, rows in results:
            store.keep(cell.name, rows)
            tell(1)
    about = {"croupier.version": __version__, "croupier.sweep": json.dumps(asdict(sweep))}
    store.merge((cell.name for cell in sweep.cells), about)


def read_sweep(path: str | Path) -> tuple[Sweep, Any]:
    """The sweep that a finished file holds, and its rows as a pyarrow table."""
    about, table = Store(path, columns).read()
    if "croupier.sweep" not in about:
        raise CroupierError(f"{path} was not written by a sweep")
    return Sweep.of(json.loads(about["croupier.sweep"])), table


def summaries(sweep: Sweep, table: Any) -> list[Row]:
    """Every cell's regret: mean, standard error, median, worst; and how often the best arm was found.

    Runs in one world are alike, so with several worlds the standard error is that of the worlds' means.
    """
    shape = (len(sweep.cells), sweep.instances, sweep.runs)
    regrets = table["regret"].to_numpy().reshape(shape)
    found = table["best_arm_found"].to_numpy().reshape(shape)
    rows = []
    for cell, regret, best in zip(sweep.cells, regrets, found, strict=True):
        units = regret.mean(axis=1) if sweep.instances > 1 else regret[0]
        rows.append(
            {key: getattr(cell, key) for key in ("policy", "epsilon", "constants", "horizon")}
            | {
                "runs": regret.size,
                "regret_mean": float(regret.mean()),
                "regret_sem": float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
                "regret_median": float(np.median(regret)),
                "regret_max": float(regret.max()),
                "best_arm_rate": float(best.mean()),
            }
        )
    return rows
