"""`croupier histogram` and `croupier price --items` as a person meets them."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from croupier.cli import main
from croupier.noise import Noise

COLOURS = ("red", "green", "blue", "grey")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """One command: its status and what it printed."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine hundred users' colours as lines and as CSV, and the universe."""
    items = ["red"] * 600 + ["green"] * 250 + ["blue"] * 50
    (tmp_path / "items.txt").write_text("\n".join(items) + "\n", encoding="utf-8")
    rows = "".join(f"{i},{item},{i % 7}\n" for i, item in enumerate(items))
    (tmp_path / "items.csv").write_text("user,colour,day\n" + rows, encoding="utf-8")
    (tmp_path / "universe.txt").write_text("\n".join(COLOURS) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("model", ["shuffle", "local", "central", "central-pure"])
@pytest.mark.parametrize("form", ["lines", "csv"])
def test_it_releases_the_counts_of_a_file(
    capsys: pytest.CaptureFixture[str], folder: Path, model: str, form: str
) -> None:
    where = (folder / "items.txt",) if form == "lines" else (folder / "items.csv", "--column", "colour")
    options = ("--universe", folder / "universe.txt", "--epsilon", 2, "--model", model, "--top", 2)
    status, out, _ = run(capsys, "histogram", *where, *options, "--json")
    assert status == 0
    found = json.loads(out)
    for row in found:
        assert (row["users"], row["items"], row["model"], row["seed"]) == (900, 4, model, None)
        assert row["exact_delta"] <= row["delta"]
        assert row["lower"] <= row["upper"]
    assert [row["item"] for row in found] == ["red", "green"]
    truth = {"red": 600, "green": 250}
    # Bounds fail with probability 0.05 here; this allows for ten times their reach.
    assert all(abs(row["count"] - truth[row["item"]]) <= 10 * row["radius"] for row in found)
    status, out, _ = run(capsys, "histogram", *where, *options)
    assert status == 0
    for word in ("privacy", "trusts", "error", "bounds", "messages", "noise", "cryptographic", "900 users, 4 items"):
        assert word in out


@pytest.mark.parametrize("model", ["shuffle", "local", "central", "central-pure", "two-servers"])
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_of_few_users_no_count_is_shown_that_is_further_off_than_it_says(
    capsys: pytest.CaptureFixture[str], folder: Path, model: str, epsilon: float
) -> None:
    (folder / "few.txt").write_text("red\nred\ngreen\nblue\n", encoding="utf-8")
    private = ("--epsilon", epsilon, "--model", model, "--failure", 1e-9)
    for seed in range(6):
        few = ("histogram", folder / "few.txt", "--universe", folder / "universe.txt", *private, "--seed", seed)
        text = run(capsys, *few)[1]
        told = float(re.search(r"is within ([\d.]+) of the truth", " ".join(text.split()))[1])
        for colour, truth in zip(COLOURS, (2, 1, 1, 0), strict=True):
            shown = int(re.search(rf"^{colour} +(-?\d+)", text, re.MULTILINE)[1])
            assert 0 <= shown <= 4
            assert abs(shown - truth) <= told


def test_a_seed_repeats_a_demonstration_and_says_so(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    command = ("histogram", folder / "items.txt", "--universe", folder / "universe.txt", "--epsilon", 1)
    first, again, other = (run(capsys, *command, "--seed", seed)[1] for seed in (7, 7, 8))
    assert first == again != other
    assert "seed 7: a demonstration, not a release" in first


def test_real_noise_is_drawn_from_the_cryptographic_source(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, sample = [], Noise.sample

    def watched(self: Noise, size: object, source: object) -> np.ndarray:
        seen.append(repr(source))
        return sample(self, size, source)  # type: ignore[arg-type]

    monkeypatch.setattr(Noise, "sample", watched)
    run(capsys, "histogram", folder / "items.txt", "--universe", folder / "universe.txt", "--epsilon", 1)
    assert set(seen) == {"secure()"}


def test_standard_input_is_a_file_too(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO((folder / "items.txt").read_text(encoding="utf-8")))
    status, out, _ = run(capsys, "histogram", "-", "--universe", folder / "universe.txt", "--epsilon", 1)
    assert status == 0
    assert "red" in out


def test_buckets_say_how_they_are_read_back(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    command = ("histogram", folder / "items.txt", "--epsilon", 2, "--top", 1, "--salt", "s")
    _, out, _ = run(capsys, *command, "--buckets", 10)
    assert "no candidate" in out
    assert "--candidates FILE" in out
    assert "SHA-256(salt, zero byte, item), salt 's'" in " ".join(out.split())
    for option in ("--candidates", "--universe"):
        _, out, _ = run(capsys, *command, "--buckets", 10, option, folder / "universe.txt")
        assert "red" in out
    _, out, _ = run(capsys, *command, "--buckets", 1, "--candidates", folder / "universe.txt")
    assert "hold several candidates, counted together" in out
    assert " + " in out


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("red\nmauve\n", (), "line 2: 'mauve' is not in the universe"),
        ("red\n\ngreen\n", (), "line 2: no item where one was due"),
        ("", (), "holds no item"),
        ("\n\n", (), "holds no item"),
        ("user,hue\n1,red\n", ("--column", "colour"), "no column 'colour'; it has 'user', 'hue'"),
        ("user,colour\n1\n", ("--column", "colour"), "holds no item"),
        ("user,colour\n1\n2,red\n", ("--column", "colour"), "line 2: no item where one was due"),
        ("", ("--column", "colour"), "it has none"),
        ("red\n", ("--model", "local", "--side", "over"), "side = 'over'"),
        ("red\n", ("--model", "local", "--delta", "1e-6"), "delta = 1e-06"),
        ("red\n", ("--top", "0"), "top = 0"),
        ("red\n", ("--failure", "1"), "failure = 1"),
        ("red\n", ("--candidates", "x"), "candidates = 'x'"),
        ("red\n", ("--side", "both"), "users = 1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str, options: tuple[str, ...], words: str
) -> None:
    file = folder / "bad.txt"
    file.write_text(content, encoding="utf-8")
    command = ("histogram", file, "--universe", folder / "universe.txt", "--epsilon", 1)
    status, out, err = run(capsys, *command, *options)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_files_that_cannot_be_read_are_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, _, err = run(capsys, "histogram", "nowhere", "--universe", folder / "universe.txt", "--epsilon", 1)
    assert status == 2
    assert "nowhere: could not be read" in err
    (folder / "latin").write_bytes("grün\n".encode("latin-1"))
    status, _, err = run(capsys, "histogram", folder / "latin", "--universe", folder / "universe.txt", "--epsilon", 1)
    assert status == 2
    assert "is not UTF-8 text" in err
    status, _, err = run(capsys, "histogram", folder / "items.txt", "--epsilon", 1)
    assert status == 2
    assert "--buckets" in err
    (folder / "twice").write_text("red\nred\n", encoding="utf-8")
    status, _, err = run(capsys, "histogram", folder / "items.txt", "--universe", folder / "twice", "--epsilon", 1)
    assert status == 2
    assert "names = 'red'" in err


@pytest.mark.slow
def test_price_shows_what_a_user_sends_and_what_is_for_simulation_only(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("price", "--items", 200_000, "--users", 10_000, "--epsilon", 0.9)
    status, out, _ = run(capsys, *command, "--json")
    assert status == 0
    rows = json.loads(out)
    assert {row["model"] for row in rows} == {"two-servers", "shuffle", "local", "central", "central-pure"}
    under = [row for row in rows if row["side"] == "under"]
    assert under
    assert all(row["simulation_only"] and row["messages_per_user"] > 199_999 for row in under)
    over = next(row for row in rows if row["side"] == "over" and row["constants"] == "tight")
    assert not over["simulation_only"]
    assert next(row for row in rows if row["model"] == "two-servers")["simulation_only"], "a number for every item"
    status, out, _ = run(capsys, *command)
    assert "simulation only" in out
    assert "messages" in out
    assert run(capsys, "price", "histogram", "--users", 10, "--epsilon", 1)[0] == 2
    assert run(capsys, "price", "laplace", "--items", 10, "--users", 10, "--epsilon", 1)[0] == 2
    status, out, _ = run(capsys, "price", "--items", 10, "--users", 100, "--epsilon", 1)
    assert status == 0
    assert "shuffle under (published): epsilon = 1.0" in out
