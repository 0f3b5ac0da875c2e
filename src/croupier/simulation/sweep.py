"""Sweeps: policies × epsilon × constants × horizons in drawn worlds, one Parquet row a run.

A sweep is a list of independent cells. A cell's results follow from its own content alone, so they do not depend on
the other cells, on the number of jobs or on the engine, and a row can be repeated from its own columns. Finished cells
are kept beside the output until all are there: a sweep that was cut short goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from croupier import __version__
from croupier.checks import CroupierError, InvalidParameter, between, did_you_mean, integer, one_of, positive
from croupier.frames import Rows
from croupier.protocols import ROWS, protocol
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.protocol import CONSTANTS, MOST_PARTICIPATIONS
from croupier.registry import Registry
from croupier.simulation.baselines import ALL_POLICIES, BUDGET, IN_BLOCKS, OPTIONS, check_read, read_options
from croupier.simulation.cell import DECIDED, LATER, Cell, Row, Special, admitted_cell
from croupier.simulation.data import file_hash, ratings
from croupier.simulation.engines import ENGINES, Store
from croupier.simulation.reporting import LONGEST
from croupier.simulation.runner import decision_summary
from croupier.simulation.world_names import WORLDS
from croupier.simulation.worlds import checked_means


def _several(check: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def checked(name: str, value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else (value,)
        if not values:
            raise InvalidParameter(name, value, "one value or more")
        return tuple(dict.fromkeys(check(name, entry) for entry in values))

    return checked


def _plain_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _means(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not all(map(_plain_number, value)):
        raise InvalidParameter(name, value, "a list of numbers")
    return tuple(checked_means(list(value)).tolist())


def _rates(name: str, value: Any) -> tuple[float, ...]:
    rates = value if isinstance(value, list | tuple) else [value]
    return tuple(float(between(name, rate, 0, 1, "(]")) for rate in rates)


def _known(registry: Registry[Any], name: str, value: Any) -> str:
    registry.find(value, name)
    return str(value)


def _text(name: str, value: Any, allowed: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(name, value, allowed)
    return value


KEYS: dict[str, Callable[[str, Any], Any]] = {
    "policy": _several(lambda name, value: _known(ALL_POLICIES, name, value)),
    "protocol": lambda name, value: _known(ROWS, name, value),
    "epsilon": _several(lambda name, value: float(positive(name, value))),
    "constants": _several(lambda name, value: one_of(name, value, CONSTANTS)),
    "horizon": _several(lambda name, value: integer(name, value, 1, 10**15)),
    "delta": lambda name, value: float(between(name, value, 0, 1)),
    "scaling": lambda name, value: float(between(name, value, 1, 10**6, "[]")),
    "participations": lambda name, value: integer(name, value, 1, MOST_PARTICIPATIONS),
    "trust": lambda name, value: one_of(name, value, TRUSTS),
    "smallest_effect": lambda name, value: float(between(name, value, 0, 1)),
    "reporting": lambda name, value: _rates(name, value),
    "delay": lambda name, value: integer(name, value, 0, LONGEST),
    "world": lambda name, value: _known(WORLDS, name, value),
    "data": lambda name, value: _text(name, value, "the name of a file"),
    "data_hash": lambda name, value: _text(name, value, "a SHA-256"),
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
            raise CroupierError(f"there is no key {key!r}; there are {', '.join(table)}{did_you_mean(key, table)}")
    return {key: table[key](key, value) for key, value in keys.items() if value is not None}


@dataclass(frozen=True)
class Sweep(Special):
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
    world: str | None = "bernoulli"
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
        sweep = cls.written(keys)
        said = {key: value for key, value in checked(keys, KEYS).items() if key in (*BUDGET, "protocol", *IN_BLOCKS)}
        check_read(sweep.policy, sweep.protocol, sweep.options | said)
        return sweep

    @classmethod
    def written(cls, keys: Mapping[str, Any]) -> Sweep:
        """The sweep that results were written with: its file also names what no policy of it reads."""
        given = checked(keys, KEYS)
        if "policy" not in given:
            raise InvalidParameter("policy", None, "given: one or more of " + ", ".join(ALL_POLICIES))
        if "data" in given:
            given = _from_data(given)
        if "means" in given:
            given |= _implied(given, "the means are given", arms=len(given["means"]), instances=1, low=None, high=None)
        sweep = cls(**given)
        if sweep.low is not None and sweep.high is not None and not sweep.low < sweep.high:
            raise InvalidParameter("low", sweep.low, f"below high = {sweep.high:g}")
        return sweep

    @property
    def options(self) -> dict[str, Any]:
        """Of the protocols, for those that read them."""
        return {key: getattr(self, key) for key in OPTIONS}

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every distinct cell, in an order that does not depend on how the sweep was written down."""
        settings = product(self.policy, self.epsilon or (None,), self.constants, self.horizon)
        cells = {self._cell(*setting) for setting in settings}
        return tuple(sorted(cells, key=lambda cell: (cell.policy, cell.epsilon or 0, cell.constants, cell.horizon)))

    def _cell(self, policy: str, epsilon: float | None, constants: str, horizon: int) -> Cell:
        entry, delta, over = ALL_POLICIES[policy], None, self.protocol
        carried = over or entry.protocol
        if entry.model == "none":
            epsilon, constants, over = None, "tight", None
        elif epsilon is None:
            raise InvalidParameter("epsilon", None, f"given: {policy} is private")
        elif entry.protocol is None:
            delta, constants, over = 0.0, "published", None
        else:
            assert carried is not None
            own = None if ROWS[carried].notion == "pure" else self.delta
            delta = protocol(carried, epsilon=epsilon, delta=own).delta
        place = (self.world, self.arms, self.low, self.high, self.means)
        often = (self.instances, self.runs, self.seed)
        read = read_options(policy, over, self.options) | {"reporting": self.reporting, "delay": self.delay}
        if entry.in_blocks:
            read |= {"smallest_effect": self.smallest_effect}
        read |= {"protocol": over, "data": self.data, "data_hash": self.data_hash}
        return Cell(policy, epsilon, delta, constants, horizon, *place, *often, **read)

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


def _from_data(given: dict[str, Any]) -> dict[str, Any]:
    """A world from a file: its arms are those that the file makes, and nothing is drawn."""
    given = given | _implied(given, "the world is a file", world=None, instances=1, low=None, high=None)
    if "means" in given:
        raise InvalidParameter("means", given["means"], "left out where the world is a file")
    if "data_hash" in given:
        return given
    path = given["data"]
    log = ratings(path, arms=given.get("arms"), seed=given.get("seed", 0))
    return given | {"arms": log.arms, "data_hash": file_hash(path)}


def _implied(given: dict[str, Any], where: str, **implied: Any) -> dict[str, Any]:
    """What follows where `where` holds; a given value that says otherwise is refused."""
    for key, value in implied.items():
        if given.get(key, value) != value:
            raise InvalidParameter(key, given[key], f"left out where {where}")
    return implied


def columns(arrow: Any) -> Any:
    """A file's columns: a cell's fields, the run's place in it, and what came of it."""
    text, whole, real, flag = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
    kinds = {"policy": text, "epsilon": real, "delta": real, "notion": text, "constants": text, "horizon": whole}
    kinds |= {"world": text, "arms": whole, "low": real, "high": real, "means": arrow.list_(real)}
    kinds |= dict.fromkeys(("instances", "runs", "seed", "instance", "run"), whole)
    kinds |= dict.fromkeys(LATER, text) | {"scaling": real, "participations": whole}
    kinds |= {
        "delay": whole,
        "smallest_effect": real,
        "reporting": arrow.list_(real),
        "regret": real,
        "best_arm_found": flag,
    }
    kinds |= {"decision": text, "users_decided": whole, "decision_wrong": flag, "alarm": flag}
    return arrow.schema(list(kinds.items()))


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
    with closing(play(admitted_cell, left, jobs)) as results:
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
    return Sweep.written(json.loads(about["croupier.sweep"])), table


def summaries(sweep: Sweep, table: Any) -> Rows:
    """Every cell's regret: mean, standard error, median, worst; and how often the best arm was found.

    Runs in one world are alike, so with several worlds the standard error is that of the worlds' means.
    """
    shape = (len(sweep.cells), sweep.instances, sweep.runs)
    regrets = table["regret"].to_numpy().reshape(shape)
    hits = table["best_arm_found"].to_numpy().reshape(shape)
    # Files of earlier versions say nothing of decisions.
    decided = table.select(DECIDED).to_pylist() if set(DECIDED) <= set(table.column_names) else []
    rows, each = Rows(), sweep.instances * sweep.runs
    for place, (cell, regret, best) in enumerate(zip(sweep.cells, regrets, hits, strict=True)):
        units = regret.mean(axis=1) if sweep.instances > 1 else regret[0]
        rows.append(
            {"policy": cell.policy, "epsilon": cell.epsilon, "constants": cell.read_constants, "horizon": cell.horizon}
            | ({} if cell.trust is None else {"trust": cell.trust})
            | {
                "runs": regret.size,
                "regret_mean": float(regret.mean()),
                "regret_sem": float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
                "regret_median": float(np.median(regret)),
                "regret_max": float(regret.max()),
                "best_arm_rate": float(best.mean()),
            }
            | _decisions(decided[place * each : (place + 1) * each])
        )
    return rows


def _decisions(rows: list[Row]) -> Row:
    """Of how many runs something was decided, after how many users, and how often that was wrong."""
    if not rows or rows[0]["decision"] is None:
        return {}
    users = np.asarray([np.inf if row["users_decided"] is None else row["users_decided"] for row in rows])
    return decision_summary(users, [row["decision_wrong"] for row in rows], [row["alarm"] for row in rows])
