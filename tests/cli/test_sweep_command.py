"""`croupier sweep` as a person meets it: a file or options, a table or JSON, one clear line for bad input."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from croupier import cli
from croupier.checks import CroupierError
from croupier.cli import sweep as command
from croupier.simulation.engines import ENGINES
from croupier.simulation.sweep import Sweep, read_sweep

FILE = """
policy = ["dp-klucb", "kl-ucb"]
epsilon = [0.5, 1]
arms = 3
horizon = 2_000
instances = 2
runs = 2
seed = 4
jobs = 1
"""

OPTIONS = (
    *("--policy", "dp-klucb", "--policy", "kl-ucb", "--epsilon", "0.5", "--epsilon", "1"),
    *("--arms", "3", "--horizon", "2000"),
    *("--instances", "2", "--runs", "2", "--seed", "4", "--jobs", "1"),
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "GROUPS", {"try it": (command,)})


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """One sweep: its status and what it printed."""
    try:
        status = cli.main(["sweep", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_file_and_options_describe_the_same_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    Path("small.toml").write_text(FILE)
    status, table, err = run(capsys, "small.toml", "--out", "file.parquet")
    assert (status, err) == (0, "")
    assert "kl-ucb" in table
    assert "12 rows, one a run, are in file.parquet." in table
    status, out, _ = run(capsys, *OPTIONS, "--out", "options.parquet", "--json")
    assert status == 0
    assert Path("file.parquet").read_bytes() == Path("options.parquet").read_bytes()
    rows = json.loads(out)
    assert [(row["policy"], row["epsilon"]) for row in rows] == [("dp-klucb", 0.5), ("dp-klucb", 1.0), ("kl-ucb", None)]
    assert rows[0].keys() == {
        "policy",
        "epsilon",
        "constants",
        "horizon",
        "runs",
        "regret_mean",
        "regret_sem",
        "regret_median",
        "regret_max",
        "best_arm_rate",
    }


def test_options_beat_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("small.toml").write_text(FILE + 'out = "rows.parquet"\nengine = "local"\n')
    assert run(capsys, "small.toml", "--policy", "dp-imed", "--means", "0.2,0.6", "--runs", "3")[0] == 0
    found, table = read_sweep("rows.parquet")
    asked = {"policy": "dp-imed", "epsilon": [0.5, 1], "means": [0.2, 0.6], "horizon": 2000, "runs": 3, "seed": 4}
    assert found == Sweep.of(asked)
    assert table.num_rows == 6
    Path("fixed.toml").write_text("policy = 'kl-ucb'\nmeans = [0.2, 0.6]\nhorizon = 100\nruns = 1\njobs = 1\n")
    assert run(capsys, "fixed.toml", "--arms", "4", "--instances", "1", "--out", "drawn.parquet")[0] == 0
    assert read_sweep("drawn.parquet")[0].arms == 4


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("policy = 'kl-ucb'\nepsilon = [0.5 1]\n", ("wrong.toml", "line 2, column 16")),
        ("runs = 1\nruns = 2\n", ("wrong.toml", "line 2")),
        ("polices = 'kl-ucb'", ("wrong.toml", "'polices'", "policy")),
        ("policy = 'klucb'", ("wrong.toml", "policy = 'klucb'", "kl-ucb")),
        ("policy = 7", ("wrong.toml", "policy = 7")),
        ("runs = '7'", ("wrong.toml", "runs = '7'", "whole number")),
        ("horizon = [100, 1e3]", ("wrong.toml", "horizon = 1000.0")),
        ("epsilon = [0.5, true]", ("wrong.toml", "epsilon = True")),
        ("epsilon = nan", ("wrong.toml", "epsilon = nan")),
        ("means = 0.5", ("wrong.toml", "means = 0.5", "list")),
        ("seed = 2026-01-01", ("wrong.toml", "seed = ")),
        ("[world]\nkind = 'beta'", ("wrong.toml", "world = ", "bernoulli")),
        ("engine = 'spark'", ("wrong.toml", "engine = 'spark'", "local")),
        ("jobs = 0", ("wrong.toml", "jobs = 0")),
        ("out = 3", ("wrong.toml", "out = 3")),
        (b"policy = '\xff'", ("wrong.toml", "utf-8")),
    ],
)
def test_a_wrong_file_is_one_line_that_names_file_and_key(
    capsys: pytest.CaptureFixture[str], text: str | bytes, parts: tuple[str, ...]
) -> None:
    Path("wrong.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    status, out, err = run(capsys, "wrong.toml", "--out", "rows.parquet")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert [part for part in parts if part not in err] == []


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("missing.toml",), "missing.toml"),
        (("--policy", "kl-ucb"), "out is missing"),
        (("--out", "rows.parquet"), "policy is missing"),
        (("--policy", "dp-klucb", "--out", "rows.parquet"), "epsilon is missing"),
        (("--policy", "kl-ucb", "--out", "nowhere/rows.parquet"), "out = 'nowhere/rows.parquet'"),
        (("--policy", "kl-ucb", "--out", "rows.parquet", "--means", "0.3;0.5"), "--means"),
        (("--policy", "kl-ucb", "--out", "rows.parquet", "--means", "0.3,1.5"), "means = 1.5"),
        (("--policy", "kl-ucb", "--out", "rows.parquet", "--jobs", "0"), "jobs = 0"),
        (("--policy", "kl-ucb", "--out", "rows.parquet", "--engine", "spark"), "--engine"),
        (
            ("--policy", "sdp-ae", "--out", "rows.parquet", "--epsilon", "1", "--constants", "published"),
            "sdp-ae, epsilon 1, published constants",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert names in err
    assert os.listdir() == []


@pytest.mark.parametrize(("problem", "status"), [(KeyboardInterrupt(), 130), (CroupierError("a worker died"), 2)])
def test_an_interrupted_sweep_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, problem: BaseException, status: int
) -> None:
    def breaks(work: Callable[[Any], Any], items: Sequence[Any], jobs: int | None) -> Iterator[tuple[Any, Any]]:
        yield items[0], work(items[0])
        raise problem

    with monkeypatch.context() as patch:
        patch.setitem(ENGINES, "local", breaks)
        found, out, err = run(capsys, *OPTIONS, "--out", "rows.parquet")
    assert (found, out) == (status, "")
    assert "1 of 3 cells are kept in rows.parquet.parts: repeat the command to go on" in err
    assert run(capsys, *OPTIONS, "--out", "rows.parquet")[0] == 0
    assert os.listdir() == ["rows.parquet"]
    assert read_sweep("rows.parquet")[1].num_rows == 12


def test_cells_of_another_sweep_are_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.parquet.parts").mkdir()
    Path("rows.parquet.parts/other.parquet").touch()
    assert "another sweep" in run(capsys, *OPTIONS, "--out", "rows.parquet")[1]
    assert os.listdir("rows.parquet.parts") == ["other.parquet"]
