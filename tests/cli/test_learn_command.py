"""`croupier learn` as a person meets it: a file in, a rule and its promise out, and one line for what is wrong."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from croupier.cli import main
from croupier.learning import Samples, Seed
from croupier.learning.trial import split

EXAMPLES = Path(__file__).parents[2] / "examples"
VISITS = EXAMPLES / "visits.csv"
COMMON = ("--user-column", "user", "--label-column", "again", "--range", "minutes=0:60", "--range", "pages=0:20")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """One command: its status and what it printed."""
    try:
        status = main(["learn", *(str(argument) for argument in arguments)])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_example_is_what_its_script_makes() -> None:
    made = subprocess.run([sys.executable, EXAMPLES / "make_visits.py"], capture_output=True, text=True, check=True)
    assert made.stdout == VISITS.read_text(encoding="utf-8")


TAKEN = {"shuffle": "shuffle", "central": "central-pure", "local": "local"}


@pytest.mark.parametrize("model", TAKEN)
def test_the_rule_behind_the_example_is_learnt(capsys: pytest.CaptureFixture[str], model: str) -> None:
    epsilon = 4 if model == "local" else 1
    options = ("--cuts", 13, "--alpha", 0.2, "--epsilon", epsilon, "--model", model, "--seed", 1, "--json")
    status, out, _ = run(capsys, "--data", VISITS, *COMMON, *options)
    assert status == 0
    [body] = json.loads(out)
    assert body["rule"] in ("minutes >= 20", "minutes >= 15", "minutes >= 25")
    assert (body["users"], body["users_held_out"], body["unit"]) == (64, 16, "user")
    assert (body["samples"], body["samples_held_out"]) == (64 * 70, 16 * 70)
    assert (body["epsilon"], body["selection"]) == (epsilon, TAKEN[model])
    assert body["exact_delta"] <= body["delta"]
    assert body["open_rule"] == "minutes >= 20"
    assert body["majority_accuracy"] < 0.75 < 0.85 < body["accuracy"] <= body["open_accuracy"] + 0.02
    assert (body["messages_per_user"] == 1.0) == (model != "shuffle")
    assert body["warnings"] == []


def test_accuracy_is_that_of_the_rule_on_users_who_did_not_teach(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--cuts", 13, "--alpha", 0.2, "--epsilon", 1, "--seed", 1, "--json", "--held-out", 0.3)
    _, out, _ = run(capsys, "--data", VISITS, *COMMON, *options)
    [body] = json.loads(out)
    rows = runpy.run_path(str(EXAMPLES / "make_visits.py"))["rows"]()
    cut = float(body["rule"].removeprefix("minutes >= "))
    samples = Samples.of([[m] for _, m, _, _ in rows], [a == 1 for *_, a in rows], groups=[u for u, *_ in rows])
    taught, held = split(80, 0.3, Seed.of("croupier"))
    assert sorted([*taught, *held]) == list(range(80))
    others = samples.chosen(held)
    assert body["accuracy"] == pytest.approx(np.mean((others.features[:, 0] >= cut) == others.labels))
    commoner = samples.chosen(taught).labels.mean() > 0.5
    assert body["majority_accuracy"] == pytest.approx(np.mean(others.labels == commoner))


def test_a_person_is_told_all_they_must_know(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--data", VISITS, *COMMON, "--cuts", 13, "--alpha", 0.2, "--epsilon", 1, "--seed", 3)
    text = " ".join(out.split())
    for words in (
        "Learnt: again is 1 where minutes >=",
        "held-out users' 1,120 rows",
        "same rules, no privacy",
        "always the commoner label",
        "(1, 1e-6)-DP when one user is replaced, all their rows together",
        "64 taught",
        "a user on average",
        "a demonstration, not a release",
        "The rule is the release",
        "[GKM21] Ghazi, Kumar, Manurangsi: User-Level Private Learning via Correlated Sampling.",
    ):
        assert words in text
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = run(capsys, "--data", VISITS, *COMMON, "--cuts", 13, "--alpha", 0.2, "--epsilon", 2)
    assert "a cryptographic source" in out


def test_what_stands_in_the_way_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("user,x,y\n" + "".join(f"u{i % 6},{i / 10},{i % 2}\n" for i in range(30)), encoding="utf-8")
    status, out, _ = run(capsys, "--data", few, "--user-column", "user", "--label-column", "y", "--epsilon", 1)
    assert status == 0
    text = " ".join(out.split())
    assert "warning 5 users, where error 0.1 with probability 0.9 needs" in text
    assert "half of the users have 5 samples or fewer" in text
    assert "19 of 30 values of x lie outside 0 to 1, its public range" in text


@pytest.mark.slow
def test_a_long_list_is_said_to_be_for_simulation_only(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--cuts", 2**17, "--alpha", 0.2, "--epsilon", 1, "--seed", 1)
    _, out, _ = run(capsys, "--data", VISITS, *COMMON, *options)
    assert "more than a device would send, so this can only be simulated" in " ".join(out.split())


@pytest.mark.slow
def test_lists_of_yes_or_no_features_are_learnt(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2, (900 * 60, 2))
    rows = [(place // 60, a, b, "keep" if a and not b else "drop") for place, (a, b) in enumerate(bits.tolist())]
    path = tmp_path / "bits.csv"
    path.write_text("who,old,paid,fate\n" + "".join(f"{u},{a},{b},{y}\n" for u, a, b, y in rows), encoding="utf-8")
    options = ("--rule", "decision-lists", "--labels", "drop,keep", "--epsilon", 3, "--seed", 1, "--json")
    _, out, _ = run(capsys, "--data", path, "--user-column", "who", "--label-column", "fate", *options)
    [body] = json.loads(out)
    assert body["verified"]
    assert body["accuracy"] == body["open_accuracy"] == 1.0
    assert "if not old then 0" in body["rule"] or "if paid then 0" in body["rule"]
    assert body["messages_per_user"] < 100


GOOD = "user,x,y\na,0.1,0\na,0.9,1\nb,0.2,0\nb,0.8,1\n"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (GOOD, ("--epsilon", 0), "epsilon = 0.0 is not allowed: it must be a finite number > 0"),
        (GOOD, ("--alpha", 2), "alpha = 2.0 is not allowed: it must be a number in (0, 1)"),
        (GOOD, ("--beta", 0), "beta = 0.0 is not allowed: it must be a number in (0, 1)"),
        (GOOD, ("--held-out", 1), "held_out = 1.0 is not allowed: it must be a number in (0, 1)"),
        (GOOD, ("--cuts", 1), "cuts = 1 is not allowed: it must be a whole number in [2, 16777216]"),
        (GOOD, ("--labels", "1,1"), "labels = '1,1' is not allowed: it must be NO,YES: two different labels"),
        (GOOD, ("--labels", "no,yes"), "y = '0' is not allowed: it must be 'no' (no) or 'yes' (yes)"),
        (
            GOOD,
            ("--features", "z"),
            "features = 'z' is not allowed: it must be a column of the file, which has user, x",
        ),
        (GOOD, ("--features", "x,x"), "features = ['x', 'x'] is not allowed"),
        (GOOD, ("--range", "x=1"), "range = 'x=1' is not allowed: it must be NAME=LOW:HIGH with NAME one of x"),
        (GOOD, ("--range", "xx=0:1"), "with NAME one of x; did you mean x?"),
        (GOOD, ("--range", "x=2:1"), "range = 'x=2:1' is not allowed: it must be NAME=LOW:HIGH with LOW below HIGH"),
        (GOOD, ("--model", "local", "--delta", 0.1), "delta = 0.1 is not allowed: it must be 0 or left out"),
        (GOOD, ("--rule", "parities"), "x = 0.1 is not allowed: it must be 0 or 1 with --rule parities"),
        (GOOD, ("--rule", "decision-lists", "--conjunction", 0), "conjunction = 0 is not allowed"),
        (
            GOOD.replace("0.9", "red"),
            (),
            "line 3: x = 'red' is not allowed: it must be a number (categories are not read",
        ),
        (GOOD.replace("b,0.2,0", "b,0.2"), (), "line 4: has 2 values, where the header has 3"),
        (GOOD.replace("b,0.2,0", ",0.2,0"), (), "line 4: user = '' is not allowed: it must name a user"),
        (GOOD.replace("user", "person"), (), "user_column = 'user' is not allowed: it must be a column of the file"),
        ("user,x,y\n", (), "holds a header at most, and no sample"),
        ("", (), "user_column = 'user' is not allowed: it must be a column of the file, which has none"),
        ("user,x,y\na,1,0\n", (), "held_out = 0.2 is not allowed: it must be small enough that some of the 1 users"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, options: tuple[object, ...], said: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    common = ("--data", path, "--user-column", "user", "--label-column", "y", "--epsilon", 1)
    status, out, err = run(capsys, *common, *options)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    status, _, err = run(capsys, "--data", path, "--user-column", "u", "--label-column", "y", "--epsilon", 1)
    assert status == 2
    assert "none.csv' could not be read: No such file" in err
