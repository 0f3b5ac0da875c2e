"""`croupier count` as a person meets it: a table, JSON, streams from words and files, one clear line for bad input."""

import json
from pathlib import Path

import pytest

from croupier.cli import main
from croupier.protocols import ROWS

KEYS = {"shufflers", "users", "max_error_mean", "rms_error_worst", "bound", "memory_nodes"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["count", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_json_has_its_keys_and_one_row_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "--users", "2048", "--shufflers", "2", "--epsilon", "0.9", "--delta", "1e-6", "--runs", "3", "--json"
    )
    [row] = json.loads(out)
    assert status == 0
    assert row.keys() >= KEYS
    assert (row["shufflers"], row["users"], row["memory_nodes"]) == (2, 2048, 2)
    assert 0 < row["rms_error_worst"] <= row["bound"]
    assert row["delta_recomputed"] <= 1e-6


def test_the_table_compares_counters_with_references(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys,
        *("--users", "1024", "--shufflers", "1", "--shufflers", "tree", "--epsilon", "0.9", "--runs", "2"),
        "--references",
    )
    assert status == 0
    for name in ("tree", "central tree", "central square root", "local"):
        assert [word for word in name.split() if word not in out] == []
    assert "recomputed" in out


@pytest.mark.parametrize("stream", ["bernoulli:0.3", "constant:1", "constant:0.25", "hard"])
def test_streams_by_name(capsys: pytest.CaptureFixture[str], stream: str) -> None:
    status, out, _ = run(
        capsys, "--users", "600", "--shufflers", "1", "--epsilon", "1", "--stream", stream, "--runs", "2", "--json"
    )
    assert status == 0
    assert json.loads(out)[0]["within_bound"] == 1.0


def test_values_of_both_signs_are_summed_in_batches_of_a_size_of_ones_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    numbers = tmp_path / "values.txt"
    numbers.write_text("\n".join(["-5", "4.5", "0", "-1"] * 100))
    asked = ("--users", "400", "--shufflers", "2", "--epsilon", "4", "--stream", str(numbers), "--runs", "2", "--json")
    status, out, _ = run(capsys, *asked, "--low=-5", "--high", "5", "--smallest", "40")
    (row,) = json.loads(out)
    assert (status, row["batches"][0], row["within_bound"]) == (0, 40, 1.0)
    status, _, err = run(capsys, *asked)
    assert (status, "-5" in err) == (2, True)
    status, _, err = run(capsys, *asked, "--low=-5", "--high", "5", "--references")
    assert (status, "references" in err) == (2, True)


def test_a_file_is_a_stream(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    numbers = tmp_path / "values.txt"
    numbers.write_text("\n".join(["0", "1"] * 100))
    file = ("--stream", str(numbers), "--epsilon", "1", "--shufflers", "1", "--runs", "1")
    assert run(capsys, "--users", "200", *file)[0] == 0
    status, _, err = run(capsys, "--users", "300", *file)
    assert status == 2
    assert "users = 300" in err
    numbers.write_text("0\n1\nyes\n")
    assert "line 3: 'yes' is not a number" in run(capsys, "--users", "3", *file)[2]


@pytest.mark.slow
def test_the_best_number_of_shufflers_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--users", "2048", "--epsilon", "0.9", "--runs", "1", "--json")
    [best] = json.loads(run(capsys, "--shufflers", "best", *common)[1])
    others = json.loads(run(capsys, "--shufflers", "1", "--shufflers", "2", "--shufflers", "tree", *common)[1])
    assert best["bound"] <= min(row["bound"] for row in others)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--users", "4096", "--shufflers", "0"), "shufflers = 0"),
        (("--users", "4096", "--shufflers", "many"), "shufflers = 'many'"),
        (("--users", "4096", "--shufflers", "30"), "shufflers = 30"),
        (("--users", "10"), "users = 10"),
        (("--users", "4096", "--stream", "tosses"), "stream = 'tosses'"),
        (("--users", "4096", "--stream", "bernoulli:2"), "rate = 2"),
        (("--users", "4096", "--stream", "constant:7"), "value = 7"),
        (("--users", "4096", "--runs", "0"), "runs = 0"),
        (("--users", "4096", "--failure", "2"), "failure = 2"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str
) -> None:
    status, out, err = run(capsys, "--epsilon", "0.9", *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert named in err


@pytest.mark.parametrize("over", ["local-laplace", "trusted:ROW"])
def test_any_protocol_of_numbers_sums_a_batch_a_strangers_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "strangers"))
    monkeypatch.setattr(ROWS, "_added", {})
    asked = ("--users", "600", "--shufflers", "1", "--epsilon", "1", "--over", over, "--runs", "1", "--json")
    status, out, _ = run(capsys, *asked)
    assert (status, json.loads(out)[0]["over"]) == (0, over)


@pytest.mark.parametrize("over", ["counted-messages", "shared-vectors", "lapalce"])
def test_a_protocol_that_no_counter_can_use_is_refused_by_name(capsys: pytest.CaptureFixture[str], over: str) -> None:
    status, _, err = run(capsys, "--users", "600", "--shufflers", "1", "--epsilon", "1", "--over", over)
    assert status == 2
    assert f"over = '{over}' is not allowed" in err


@pytest.mark.parametrize(
    ("trust", "stream", "over"),
    [
        ("two-servers", "constant:1", "laplace"),
        ("shuffler", "constant:1", "shuffled-bits"),
        ("shuffler", "constant:0.5", "shuffled-laplace"),
        ("nobody", "constant:1", "local-laplace"),
    ],
)
def test_what_sums_follows_from_whom_one_trusts(
    capsys: pytest.CaptureFixture[str], trust: str, stream: str, over: str
) -> None:
    asked = ("--users", "600", "--shufflers", "1", "--epsilon", "1", "--runs", "1", "--json")
    status, out, _ = run(capsys, *asked, "--trust", trust, "--stream", stream)
    assert (status, json.loads(out)[0]["over"], json.loads(out)[0]["trust"]) == (0, over, trust)
