"""`croupier plan`: users and days until the experiment itself concludes, for every trust side by side."""

import json
import math

import pytest

from croupier.cli import main, plan_decisions

EASY = ("plan", "--control", ".3", "--lift", ".3", "--arms", "2", "--epsilon", "1", "--runs", "100")


def rows(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_trust_stands_beside_the_one_that_was_asked_for(capsys):
    found = rows(capsys, *EASY, "--trust", "devices")
    assert [row["trust"] for row in found] == ["devices", "two-servers", "shuffler", "nobody"]
    for row in found:
        assert 0 < row["users_median"] <= row["users_power"] <= row["users_95"]
        assert row["users_median"] <= row["no_difference_95"]
        assert row["fixed_sample"] == 84
    assert found[0]["users_power"] <= found[1]["users_power"] < found[3]["users_power"]


def test_days_follow_from_users_and_a_week_is_the_least(capsys):
    asked = (*EASY, "--protocol", "laplace", "--users-per-day", "10")
    [found] = rows(capsys, *asked)
    assert found["days_95"] == max(7.0, found["users_95"] / 10)
    assert main([*asked]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Warning: with 10 users a day a first block of 2 × 32 reports" in shown
    assert "A fixed sample size without privacy, looked at once: 84 users for 80 %." in shown


def test_power_is_the_share_that_concludes(capsys):
    half, most = (rows(capsys, *EASY, "--protocol", "laplace", "--power", p)[0] for p in ("0.5", "0.9"))
    assert half["users_power"] == half["users_median"] < most["users_power"]
    assert half["fixed_sample"] < most["fixed_sample"]


@pytest.mark.slow
def test_without_a_number_of_runs_an_answer_comes_in_time_and_says_how_many_there_were(capsys, monkeypatch):
    monkeypatch.setattr(plan_decisions, "SECONDS", 0.0)
    monkeypatch.setattr(plan_decisions, "ASKED", 0.0)
    hurried = EASY[: EASY.index("--runs")]
    found = rows(capsys, *hurried)
    assert [row["runs"] for row in found] == [25] * 4
    assert found == rows(capsys, *hurried, "--runs", "25")
    monkeypatch.setattr(plan_decisions, "ASKED", math.inf)
    assert main([*hurried]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "50 / 80 / 95 % of 1,000, 25, 25, 25 simulated experiments (in the order of the rows) had decided" in shown


@pytest.mark.slow
def test_more_is_explained_where_it_stands(capsys):
    narrow = ("plan", "--means", ".5,.501", "--epsilon", "1", "--runs", "4", "--guardrail", ".5:.1", "--horizon", "999")
    assert main([*narrow]) == 0
    assert "More: when simulated experiments ended" in capsys.readouterr().out
    assert main([*EASY, "--protocol", "laplace"]) == 0
    assert "More:" not in capsys.readouterr().out


def test_a_picture_shows_how_many_have_concluded(capsys, tmp_path):
    assert main([*EASY, "--protocol", "laplace", "--plot", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--power", "1.5"), "power = 1.5"),
        (("--trust", "analyzer"), "trust = 'analyzer'"),
        (("--policy", "dp-klucb", "--users-per-day", "9"), "claims no comparison"),
        (("--users-per-day", "0"), "users_per_day = 0"),
        (("--users-per-day", "-5"), "users_per_day = -5"),
        (("--control", "1.5"), "control = 1.5"),
    ],
)
def test_what_cannot_be_planned_is_refused(capsys, arguments, said):
    assert main([*EASY, *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            ("--means", "0.5,0.500000001"),
            "means = [0.5, 0.500000001] is not allowed: it must be apart by 1e-06 or more",
        ),
        (
            ("--means", "0.5,0.6,0.6000000001", "--policy", "dp-klucb"),
            "means = [0.5, 0.6, 0.6000000001] is not allowed",
        ),
        (("--means", "0.5", "--policy", "dp-klucb"), "means = [0.5] is not allowed: it must be one mean an arm"),
        (("--arms", "2", "--lift", "0.1", "--guardrail", "0.1:1e-9"), "guardrail = '0.1:1e-9' is not allowed"),
    ],
)
def test_a_difference_that_nobody_can_find_is_refused_as_it_was_given(given, line, capsys) -> None:
    assert main(["plan", "--epsilon", "1", "--runs", "5", *given]) == 2
    assert capsys.readouterr().err.startswith(f"croupier plan: {line}")


METRICS = ["plan", "--control", "0.3", "--lift", "0.3", "--arms", "2", "--epsilon", "2", "--runs", "200"]


def test_several_metrics_are_planned_with_what_they_cost(capsys):
    assert main([*METRICS, "--guardrail", "0.2:0.2", "--share", "0.6", "--json"]) == 0
    whole, primary, guardrail, every = json.loads(capsys.readouterr().out)
    assert [row["share"] for row in (whole, primary, guardrail, every)] == [1.0, 0.6, 0.4, 1.0]
    assert whole["median"] <= primary["median"] <= every["median"]
    assert guardrail["power"] <= every["95"]
    assert main([*METRICS, "--guardrail", "0.2:0.2"]) == 0
    shown = capsys.readouterr().out
    assert "guardrail-1 is safe" in shown
    assert "With 0.5 of the budget the primary metric takes " in shown
    assert "Warning" not in shown


@pytest.mark.slow
def test_days_and_a_picture_are_there_with_several_metrics_too(capsys, tmp_path):
    path = tmp_path / "metrics.png"
    asked = [*METRICS, "--guardrail", "0.2:0.2", "--users-per-day", "20", "--plot", str(path)]
    assert main([*asked, "--json"]) == 0
    assert all(row["days"] == max(7.0, row["power"] / 20) for row in json.loads(capsys.readouterr().out))
    assert main(asked) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Warning: with 20 users a day a first block of 2 × 32 reports under two-servers" in shown
    assert "Days are those for 80 %" in shown
    assert path.stat().st_size > 1000


def test_a_margin_that_cannot_be_shown_by_the_horizon_is_warned_of(capsys):
    assert main([*METRICS, "--guardrail", "0.2:0.01", "--horizon", "2000"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Warning: guardrail-1 is not shown to be safe by 2,000 users in 80 % of experiments" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--guardrail", "0.2"], "guardrail = '0.2'"),
        (["--guardrail", "0.2:2"], "metrics.guardrail-1.margin = 2.0"),
        (["--guardrail", "0.2:0.1", "--share", "0.4"], "metrics.primary.share = 0.4"),
        (["--guardrail", "0.2:0.1", "--trust", "devices"], "unless two servers"),
        (["--guardrail", "0.2:0.1", "--policy", "dp-klucb"], "dp-klucb compares nothing"),
        (["--horizon", "100"], "horizon = 100"),
    ],
)
def test_what_cannot_be_planned_with_several_metrics_is_refused(capsys, options, words):
    assert main([*METRICS, *options]) == 2
    assert words in capsys.readouterr().err
