"""Sweeps give the same rows whoever runs them, in whatever order, and however often they are cut short."""

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from multiprocessing import active_children
from pathlib import Path
from time import monotonic, sleep
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest

from croupier import __version__
from croupier.checks import CroupierError, InvalidParameter
from croupier.simulation import simulate, simulated_policy
from croupier.simulation.cell import Cell, repeat, run_cell
from croupier.simulation.engines import ENGINES, Store, local, ray_cluster
from croupier.simulation.sweep import Sweep, columns, read_sweep, run_sweep, summaries

SMALL = {
    "policy": ["dp-klucb", "dist-dp-se", "dp-se", "kl-ucb"],
    "epsilon": [0.5, 1.0],
    "arms": 3,
    "horizon": 2000,
    "instances": 3,
    "runs": 2,
    "seed": 11,
}


def swept(out: Path, keys: dict[str, Any] | None = None, **options: Any) -> bytes:
    """A sweep's whole file."""
    run_sweep(Sweep.of(keys or SMALL), Store(out, columns), **options)
    return out.read_bytes()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small sweep, run in this process without interruption."""
    out = tmp_path_factory.mktemp("sweep") / "reference.parquet"
    swept(out, jobs=1)
    return out


@pytest.mark.slow
def test_two_jobs_write_the_same_file_as_one(tmp_path: Path, reference: Path) -> None:
    assert swept(tmp_path / "two.parquet", jobs=2) == reference.read_bytes()
    assert os.listdir(tmp_path) == ["two.parquet"]


@pytest.mark.slow
def test_the_order_of_the_description_does_not_change_a_row(tmp_path: Path, reference: Path) -> None:
    turned = SMALL | {"policy": SMALL["policy"][::-1], "epsilon": [1, 0.5, 1]}
    swept(tmp_path / "turned.parquet", turned, jobs=1)
    assert read_sweep(tmp_path / "turned.parquet")[1].equals(read_sweep(reference)[1])


def test_a_cell_does_not_depend_on_the_cells_beside_it(tmp_path: Path, reference: Path) -> None:
    swept(tmp_path / "alone.parquet", SMALL | {"policy": "dp-klucb", "epsilon": 1}, jobs=1)
    alone = read_sweep(tmp_path / "alone.parquet")[1].to_pylist()
    together = read_sweep(reference)[1].to_pylist()
    assert len(alone) == 6
    assert all(row in together for row in alone)


@pytest.mark.slow
def test_every_row_can_be_repeated_from_its_own_columns(reference: Path) -> None:
    rows = read_sweep(reference)[1].to_pylist()
    assert [repeat(row) for row in rows[::5]] == rows[::5]


def test_a_row_of_given_means_can_be_repeated(tmp_path: Path) -> None:
    keys = {"policy": "vb-sdp-ae", "epsilon": 0.5, "constants": "published", "means": [0.2, 0.8], "horizon": 3000}
    swept(tmp_path / "means.parquet", keys | {"runs": 3, "delta": 1e-5}, jobs=1)
    rows = read_sweep(tmp_path / "means.parquet")[1].to_pylist()
    assert [repeat(row) for row in rows] == rows
    assert {(row["arms"], row["low"], row["delta"], row["notion"]) for row in rows} == {(2, None, 1e-5, "approximate")}
    assert [row["run"] for row in rows] == [0, 1, 2]


def test_rows_are_one_a_run_with_worlds_in_order() -> None:
    cell = Sweep.of(SMALL | {"policy": "kl-ucb", "epsilon": None}).cells[0]
    rows = run_cell(cell)
    means = cell.make_world().means
    regret = np.asarray([row["regret"] for row in rows])
    # The worst arm for everyone costs most, and nothing costs less than nothing.
    assert np.all((regret > 0) & (regret <= 2000 * np.ptp(means, axis=1)))
    assert [(row["instance"], row["run"]) for row in rows] == [(i, r) for i in range(3) for r in range(2)]
    assert np.array_equal(means[0], means[1])
    assert not np.array_equal(means[1], means[2])
    # Two runs in one world have rewards of their own.
    assert regret[0] != regret[1]


def test_all_policies_meet_the_same_worlds_and_another_seed_meets_others() -> None:
    cells = Sweep.of(SMALL).cells
    first = cells[0].make_world().means
    assert all(np.array_equal(cell.make_world().means, first) for cell in cells)
    more = Sweep.of(SMALL | {"instances": 5}).cells[0].make_world().means
    assert np.array_equal(more[:6], first)
    assert not np.array_equal(Sweep.of(SMALL | {"seed": 12}).cells[0].make_world().means, first)


def test_what_means_nothing_to_a_policy_makes_no_cells() -> None:
    names = ["dp-klucb", "dist-dp-se", "shuffle-dp-se", "dp-se", "kl-ucb"]
    cells = Sweep.of(SMALL | {"policy": names, "constants": ["tight", "published"], "delta": 1e-7}).cells
    settings = [(cell.policy, cell.epsilon, cell.constants, cell.delta, cell.notion) for cell in cells]
    assert settings.count(("kl-ucb", None, "tight", None, "none")) == 1
    assert [setting for setting in settings if setting[0] == "dp-se"] == [
        ("dp-se", 0.5, "published", 0.0, "pure"),
        ("dp-se", 1.0, "published", 0.0, "pure"),
    ]
    assert len(cells) == 1 + 2 + 4 + 4 + 4


def test_what_no_policy_of_a_sweep_reads_is_refused() -> None:
    for key, value in {"delta": 1e-7, "smallest_effect": 0.1, "reporting": 0.5, "delay": 10, "scaling": 5.0}.items():
        with pytest.raises(InvalidParameter, match=f"^{key} = .* none of dp-klucb, dist-dp-se, dp-se, kl-ucb reads it"):
            Sweep.of(SMALL | {key: value})
    for key, value in {"epsilon": 1.0, "constants": "published", "protocol": "laplace"}.items():
        with pytest.raises(InvalidParameter, match=f"^{key} = .*: kl-ucb does not read it"):
            Sweep.of({"policy": "kl-ucb", key: value})


@pytest.mark.parametrize("world", ["gaussian", "beta"])
def test_other_worlds_are_swept_too(world: str) -> None:
    cell = Sweep.of(SMALL | {"policy": "dp-klucb", "epsilon": 1, "world": world}).cells[0]
    assert not cell.make_world().binary
    assert len(run_cell(cell)) == 6


def break_after(count: int, problem: BaseException) -> Callable[..., Iterator[tuple[Any, Any]]]:
    """An engine that fails when so many cells are finished."""

    def engine(work: Callable[[Any], Any], items: Sequence[Any], jobs: int | None) -> Iterator[tuple[Any, Any]]:
        for item in items[:count]:
            yield item, work(item)
        raise problem

    return engine


def counting(played: list[Cell]) -> Callable[..., Iterator[tuple[Any, Any]]]:
    """An engine that notes what it is given."""

    def engine(work: Callable[[Any], Any], items: Sequence[Any], jobs: int | None) -> Iterator[tuple[Any, Any]]:
        played.extend(items)
        yield from local(work, items, 1)

    return engine


@pytest.mark.slow
def test_a_sweep_cut_short_goes_on_where_it_stopped(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, played = tmp_path / "resumed.parquet", list[Cell]()
    monkeypatch.setitem(ENGINES, "breaks", break_after(3, KeyboardInterrupt()))
    monkeypatch.setitem(ENGINES, "counts", counting(played))
    with pytest.raises(KeyboardInterrupt):
        swept(out, engine="breaks")
    assert not out.exists()
    parts = sorted((tmp_path / "resumed.parquet.parts").iterdir())
    cells = Sweep.of(SMALL).cells
    assert [part.stem for part in parts] == sorted(cell.name for cell in cells[:3])
    # One part is lost and one is damaged: both are run again, and so are those that never were.
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:100])
    done: list[int] = []
    assert swept(out, engine="counts", progress=done.append) == reference.read_bytes()
    assert len(played) == len(cells) - 1
    assert sum(done) == len(cells)
    assert os.listdir(tmp_path) == ["resumed.parquet"]


@pytest.mark.slow
def test_finished_cells_of_another_sweep_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "shared.parquet"
    monkeypatch.setitem(ENGINES, "breaks", break_after(1, RuntimeError("power cut")))
    with pytest.raises(RuntimeError):
        swept(out, engine="breaks")
    left = Path(f"{out}.parts") / "half.unfinished"
    left.touch()
    swept(out, SMALL | {"policy": "kl-ucb", "epsilon": None, "seed": 5}, jobs=1)
    assert [path.stem for path in Path(f"{out}.parts").iterdir()] == [Sweep.of(SMALL).cells[0].name]


def test_the_file_carries_its_description_and_version(tmp_path: Path, reference: Path) -> None:
    assert read_sweep(reference)[0] == Sweep.of(SMALL)
    assert Store(reference, columns).read()[0]["croupier.version"] == __version__
    fixed = {"policy": "kl-ucb", "means": [0.3, 0.6], "horizon": [100, 1000], "runs": 2}
    swept(tmp_path / "fixed.parquet", fixed, jobs=1)
    assert read_sweep(tmp_path / "fixed.parquet")[0] == Sweep.of(fixed)


def test_other_files_are_refused(tmp_path: Path, reference: Path) -> None:
    text = tmp_path / "rows.parquet"
    text.write_text("policy, regret")
    with pytest.raises(CroupierError, match="rows.parquet"):
        read_sweep(text)
    store = Store(tmp_path / "bare.parquet", columns)
    store.keep("part", [])
    store.merge(["part"], {})
    with pytest.raises(CroupierError, match="not written by a sweep"):
        read_sweep(tmp_path / "bare.parquet")
    with pytest.raises(CroupierError, match="out = .*folder that exists"):
        Store(tmp_path / "nowhere" / "rows.parquet", columns)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet.parts").touch()
    with pytest.raises(CroupierError, match="rows.parquet.parts.* cannot be written"):
        swept(tmp_path / "rows.parquet", SMALL | {"policy": "kl-ucb", "epsilon": None}, jobs=1)


def test_summaries_are_those_of_the_rows(reference: Path) -> None:
    sweep, table = read_sweep(reference)
    rows = table.to_pylist()
    for summary in summaries(sweep, table):
        own = [row for row in rows if row["policy"] == summary["policy"] and row["epsilon"] == summary["epsilon"]]
        regret = [row["regret"] for row in own]
        worlds = [np.mean([row["regret"] for row in own if row["instance"] == i]) for i in range(3)]
        assert summary["runs"] == len(own) == 6
        assert summary["constants"] == (None if summary["policy"] in ("kl-ucb", "dp-se") else "tight")
        assert summary["regret_mean"] == pytest.approx(np.mean(regret))
        assert summary["regret_sem"] == pytest.approx(np.std(worlds, ddof=1) / math.sqrt(3))
        assert summary["regret_median"] == pytest.approx(np.median(regret))
        assert summary["regret_max"] == max(regret)
        assert summary["best_arm_rate"] == pytest.approx(np.mean([row["best_arm_found"] for row in own]))


def test_one_run_has_no_standard_error(tmp_path: Path) -> None:
    swept(tmp_path / "one.parquet", {"policy": "kl-ucb", "means": [0.3, 0.6], "horizon": 100, "runs": 1}, jobs=1)
    assert [row["regret_sem"] for row in summaries(*read_sweep(tmp_path / "one.parquet"))] == [None]


def test_regret_agrees_with_a_simulation_of_its_own() -> None:
    cell = Sweep.of({"policy": "dp-klucb", "epsilon": 1, "means": [0.3, 0.7], "horizon": 5000, "runs": 400}).cells[0]
    ours = np.asarray([row["regret"] for row in run_cell(cell)])
    policy = simulated_policy("dp-klucb", arms=2, horizon=5000, epsilon=1.0, runs=400, binary=True)
    theirs = simulate(policy, cell.make_world(), seed=3).regret
    # Seeded, so it passes or fails for good; six standard errors: a false alarm in 5e8 choices of seeds.
    assert abs(ours.mean() - theirs.mean()) < 6 * math.hypot(ours.std(), theirs.std()) / 20


def test_cells_outside_a_papers_range_are_refused_before_anything_runs() -> None:
    sweep = Sweep.of({"policy": ["kl-ucb", "vb-sdp-ae"], "epsilon": [0.5, 1, 2], "constants": "published"})
    seen: list[int] = []
    with pytest.raises(CroupierError, match=r"^vb-sdp-ae, epsilon 1, published.*\(and 1 more of 4 cells\)$"):
        sweep.check(seen.append)
    assert sum(seen) == 4
    Sweep.of(SMALL).check()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"policy": None}, "policy is missing"),
        ({"policy": []}, "policy = "),
        ({"policy": "ucb"}, "policy = 'ucb'"),
        ({"polcy": "kl-ucb"}, "no key 'polcy'"),
        ({"epsilon": None}, "epsilon is missing.*is private"),
        ({"epsilon": [1, "two"]}, "epsilon = 'two'"),
        ({"epsilon": math.inf}, "epsilon = inf"),
        ({"horizon": 1e4}, "horizon = 10000.0"),
        ({"constants": "loose"}, "constants = 'loose'"),
        ({"delta": 0}, "delta = 0"),
        ({"world": "poisson"}, "world = 'poisson'"),
        ({"arms": True}, "arms = True"),
        ({"low": 0.8}, "low = 0.8.*below high"),
        ({"means": [0.1, 0.2]}, "arms = 3.*means are given"),
        ({"arms": None, "instances": None, "means": [0.1, "x"]}, "means = "),
        ({"arms": None, "instances": None, "means": [0.1, 1.2]}, "means = 1.2"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_a_wrong_description_names_its_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(CroupierError, match=message):
        _ = Sweep.of(SMALL | keys).cells


@pytest.mark.slow
def test_an_error_in_a_worker_names_its_cell() -> None:
    # Made by hand, past the checks.
    good = Sweep.of(SMALL | {"policy": "vb-sdp-ae", "epsilon": 0.5}).cells[0]
    bad = Cell(**vars(good) | {"epsilon": 3.0, "constants": "published"})
    with pytest.raises(CroupierError, match="^vb-sdp-ae, epsilon 3, published constants, horizon 2,000: epsilon = 3"):
        list(local(run_cell, [bad, bad], jobs=2))


@pytest.mark.slow
def test_a_worker_that_dies_is_reported() -> None:
    with pytest.raises(CroupierError, match="a worker process died"):
        list(local(os._exit, [3, 3], jobs=2))


@pytest.mark.slow
def test_closing_the_local_engine_ends_its_workers() -> None:
    before = set(active_children())
    # The second piece of work would take an hour.
    with closing(local(sleep, [0.0, 3600.0], jobs=2)) as results:
        assert next(results) == (0.0, None)
    deadline = monotonic() + 60.0
    # The pool's own thread may be the one that waits for a worker: then it is gone a moment before it has an exit code.
    while set(active_children()) - before and monotonic() < deadline:
        sleep(0.05)
    assert not set(active_children()) - before


class TaskError(Exception):
    """What the stand-in for Ray wraps errors in."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a long story")
        self.cause = cause


class StandIn(ModuleType):
    """Just enough of Ray to see what is asked of it."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = ModuleType("ray.exceptions")
        self.exceptions.RayTaskError = TaskError  # type: ignore[attr-defined]
        self.asked: list[str] = []
        self.under_way = self.most = 0

    def is_initialized(self) -> bool:
        return "init" in self.asked

    def init(self, **options: Any) -> None:
        self.asked.append("init")

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    def remote(self, work: Callable[[Any], Any]) -> Any:
        class Task:
            @staticmethod
            def remote(item: Any) -> tuple[str, Any]:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
                return "promise", item

        self.work = work
        return Task

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        self.under_way -= num_returns
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: tuple[str, Any]) -> Any:
        try:
            return self.work(reference[1])
        except Exception as error:
            raise TaskError(error) from None


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "most"), [(None, 7), (2, 2)])
def test_ray_gets_every_cell_and_is_shut_down(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch, jobs: int | None, most: int
) -> None:
    ray = StandIn()
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert swept(tmp_path / "ray.parquet", engine="ray", jobs=jobs) == reference.read_bytes()
    assert ray.asked == ["init", "shutdown"]
    assert ray.most == most


def test_errors_on_ray_are_our_own_and_its_cluster_is_left_when_others_started_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(item: int) -> int:
        raise CroupierError("no") if item == 1 else ZeroDivisionError

    ray = StandIn()
    monkeypatch.setitem(sys.modules, "ray", ray)
    ray.init()
    with pytest.raises(CroupierError, match="^no$"):
        list(ray_cluster(refuse, [1]))
    with pytest.raises(TaskError):
        list(ray_cluster(refuse, [2]))
    assert ray.asked == ["init"]


def test_ray_runs_the_sweep_or_says_how_to_get_it(tmp_path: Path, reference: Path) -> None:
    if find_spec("ray") is None:
        with pytest.raises(CroupierError, match=r"ray is not installed: .*croupier\[ray\]"):
            swept(tmp_path / "ray.parquet", engine="ray")
        assert os.listdir(tmp_path) == []
        return
    with catch_warnings():
        # Ray's own warnings are not ours to fix.
        simplefilter("ignore")
        assert swept(tmp_path / "ray.parquet", engine="ray", jobs=2) == reference.read_bytes()


def test_a_missing_parquet_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CroupierError, match=r"pyarrow is not installed: .*croupier\[figures\]"):
        Store(tmp_path / "rows.parquet", columns)
