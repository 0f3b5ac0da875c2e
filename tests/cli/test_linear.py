"""`croupier linear`: rows for people and for programs, worlds by name and from files, and clear refusals."""

import json
from pathlib import Path

import pytest

from croupier.cli import linear, main
from croupier.simulation.linear_compare import ENTRIES
from croupier.simulation.plots import COLOURS, style

TIPS = Path(__file__).parents[2] / "examples" / "tips.csv"
LOGGED = ("--data", str(TIPS), "--action-column", "tip", "--reward-column", "finished")
FEW = ("--users", "3000", "--runs", "2", "--epsilon", "4")


def said(capsys, *words):
    assert main(["linear", *words]) == 0
    return capsys.readouterr().out


def flat(capsys, *words):
    """The same without its folds."""
    return " ".join(said(capsys, *words).split())


def rows(capsys, *words):
    return json.loads(said(capsys, *words, "--json"))


def test_models_are_compared_on_a_sphere(capsys):
    found = rows(capsys, "--world", "sphere", "--model", "no-privacy", "--model", "growing", *FEW)
    assert [row["model"] for row in found] == ["no-privacy", "growing"]
    assert found[0]["regret_mean"] < found[1]["regret_mean"]
    assert all(row["held"] == 1.0 and row["proven"] for row in found)


def test_what_is_not_proven_is_marked_wherever_its_numbers_stand(capsys):
    text = flat(capsys, "--model", "growing-tuned", "--model", "local", *FEW)
    assert text.count("†") == 2
    assert "no guarantee" in text
    assert "‡ Fitted before learning begins" in text
    assert "[ZCHLW20]" in text
    proven = said(capsys, "--model", "growing", *FEW)
    assert "†" not in proven
    assert "‡" not in proven


@pytest.mark.slow
def test_a_log_shows_what_there_is_to_gain_and_whether_it_was_shown(capsys):
    text = flat(capsys, *LOGGED, "--users", "40000", "--control", "0.1", "--model", "growing-tuned", "--runs", "2")
    assert "Best for everybody: mail" in text
    assert "a gain over the best single action is" in text
    [row] = rows(capsys, *LOGGED, "--users", "40000", "--control", "0.1", "--model", "growing-tuned", "--runs", "2")
    assert row["gain_lower"] < row["gain"] < row["gain_upper"]


def test_where_nothing_is_to_be_gained_it_says_so(capsys, tmp_path):
    path = tmp_path / "flat.csv"
    path.write_text("a,tip,done\n" + "\n".join(f"{i % 9},{'xy'[i % 2]},{i % 2}" for i in range(400)), encoding="utf-8")
    given = ("--data", str(path), "--action-column", "tip", "--reward-column", "done")
    text = flat(capsys, *given, "--model", "growing-tuned", "--control", "0.1", *FEW)
    assert "No linear rule earns more, so there is nothing to gain by personalisation." in text
    assert "a gain over the best single action is not shown" in text


@pytest.mark.slow
def test_a_plan_says_how_many_users_it_takes(capsys, monkeypatch):
    needs = []

    def worked_out(*given, **options):
        needs.append(real(*given, **options))
        return needs[-1]

    real = linear.users_to_gain
    monkeypatch.setattr(linear, "users_to_gain", worked_out)
    found = rows(capsys, "--world", "table:iris", "--plan", "--epsilon", "2")
    assert [row["trust"] for row in found] == ["two-servers", "devices"]
    assert all(2_000 <= row["users"] <= 64_000 for row in found)
    again = iter(needs)
    monkeypatch.setattr(linear, "users_to_gain", lambda *given, **options: next(again))
    text = said(capsys, "--world", "table:iris", "--plan", "--epsilon", "2")
    assert all(f"{row['users']:,.0f}" in text for row in found)
    assert "users needed" in text
    assert "no guarantee" in text


@pytest.mark.slow
def test_a_picture_is_written(capsys, tmp_path):
    path = tmp_path / "regret.png"
    text = said(capsys, "--model", "growing", "--model", "no-privacy", "--plot", str(path), *FEW)
    assert f"figure: {path}" in text
    assert path.stat().st_size > 10_000


BAD = {
    "an unknown world": (("--world", "torus"), "world = 'torus'"),
    "an unknown model": (("--model", "magic"), "model = 'magic'"),
    "an unknown trust": (("--trust", "me"), "trust = 'me'"),
    "a file without its columns": (("--data", str(TIPS)), "action_column is missing"),
    "columns without a file": (("--action-column", "tip"), "action_column = 'tip'"),
    "both kinds of columns": ((*LOGGED, "--label-column", "tip"), "only one of --label-column"),
    "a world and a file": ((*LOGGED, "--world", "sphere"), "world = 'sphere'"),
    "a range of nothing": ((*LOGGED, "--range", "size=0:1"), "range = 'size'"),
    "a range without an end": ((*LOGGED, "--range", "age=0"), "range = 'age=0'"),
    "a control share on a sphere": (("--control", "0.1"), "control = 0.1"),
    "a plan on a sphere": (("--plan",), "plan = True"),
    "no epsilon": (("--epsilon", "0", "--model", "growing"), "epsilon = 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case, capsys):
    words, expected = BAD[case]
    assert main(["linear", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error


def test_rows_say_whom_they_trust_with_what_and_one_run_has_no_spread(capsys):
    one = ("--users", "1000", "--runs", "1", "--trust", "devices", "--model", "growing", "--model", "no-privacy")
    growing, free = rows(capsys, *one, "--epsilon", "4")
    assert [growing[key] for key in ("trust", "epsilon", "delta")] == ["devices", 4.0, 1e-6]
    assert [free[key] for key in ("trust", "epsilon", "delta")] == ["none", None, None]
    text = flat(capsys, *one)
    assert "1,000 users, 1 run, " in text
    assert f"devices {growing['regret_mean']:.4g} - " in flat(capsys, *one, "--epsilon", "4")


def test_no_two_models_are_drawn_alike():
    drawn = [tuple(style(index).values()) for index in range(len(ENTRIES))]
    assert len(set(drawn)) == len(ENTRIES) > len(COLOURS)
