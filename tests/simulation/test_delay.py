"""Reports that come later than their turns: what holds of decisions and of who is silent holds then, too.

Small versions run always; the long ones, of a thousand runs each, are evidence and say what they measured.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, nbinom

from croupier.bandits import policy
from croupier.checks import InvalidParameter
from croupier.cli import main
from croupier.noise import seeded
from croupier.simulation import Bernoulli, Delayed, Silent, Swinging, Trending, simulate
from croupier.simulation.cell import run_cell
from croupier.simulation.each_user import EachUser
from croupier.simulation.sweep import Sweep

NAMES = ("split", "concurrent-elimination", "dp-top-two", "concurrent-klucb", "concurrent-imed")
TRUSTS = {
    "two-servers": {"protocol_name": "laplace", "trust": "two-servers"},
    "devices": {"protocol_name": "laplace"},
    "shuffler": {"protocol_name": "shuffled-bits"},
    "nobody": {"protocol_name": "local-laplace"},
}
# Worlds whose arms are the same, by how many users a day has.
SAME = {
    "daily swing": lambda day: Swinging([0.5, 0.5], period=day),
    "trend": lambda day: Trending([0.3, 0.3, 0.3], rise=0.4, over=3 * day),
    "30 % silent": lambda day: Silent(Swinging([0.5, 0.5], period=day), 0.7),
    "a swing within a block": lambda day: Silent(Swinging([0.5, 0.5], swing=0.4, period=200), 0.7),
    "rates .8 and .6": lambda day: Silent(Swinging([0.5, 0.5], period=day), [0.8, 0.6]),
}


def made(name, world, runs, trust, horizon, effect=0.05):
    common = {"arms": world.arms, "horizon": horizon, "epsilon": 1.0, "binary": True, "runs": runs}
    return policy(name, **common, decision={"smallest_effect": effect}, **TRUSTS[trust])


def played(name, trust, case, runs, mode="law", horizon=40_000, delay=2_000):
    """False decisions and alarms of so many runs with equal arms, whose reports come up to so many turns later."""
    world = Delayed(SAME[case](horizon // 4), delay)
    chosen = made(name, world, runs, trust, horizon)
    run = simulate(chosen, world, seed=7, checkpoints=1, mode=mode)
    return {"false": int(run.false_decisions.sum()), "alarms": int(chosen.silence.alarm.sum())}


def check(found, case, runs):
    """One-sided tests at 99 %, against 5 % false decisions and 1 % false alarms."""
    assert found["false"] <= binom.isf(0.01, runs, 0.05), found
    if case == "rates .8 and .6":
        assert found["alarms"] >= 0.99 * runs - 2, found
    else:
        assert found["alarms"] <= binom.isf(0.01, runs, 0.01), found


@pytest.mark.parametrize("case", ["30 % silent", "rates .8 and .6"])
@pytest.mark.parametrize(("name", "trust"), [("dp-top-two", "two-servers"), ("split", "devices")])
def test_equal_arms_are_seldom_told_apart_when_reports_come_late(name, trust, case):
    check(played(name, trust, case, 200), case, 200)


@pytest.mark.parametrize("name", NAMES[1:])
def test_arms_that_report_alike_are_seldom_said_not_to_when_odds_wait_for_late_reports(name):
    """Unequal arms, so that odds change: what is heard is what was dealt, not what would be dealt by now."""
    world = Delayed(Silent(Bernoulli([0.3, 0.5, 0.55]), 0.6), 1_500)
    chosen = made(name, world, 200, "two-servers", 8_000)
    chosen.may_decide = False
    simulate(chosen, world, seed=5, checkpoints=1)
    assert chosen.silence.alarm.sum() <= binom.isf(1e-4, 200, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trust"), [("dp-top-two", "two-servers"), ("split", "devices")])
def test_equal_arms_are_seldom_told_apart_user_by_user(name, trust):
    case = "a swing within a block"
    check(played(name, trust, case, 30, "users", horizon=1_000, delay=300), case, 30)


@pytest.mark.evidence
@pytest.mark.parametrize("case", SAME)
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("name", NAMES)
def test_equal_arms_are_seldom_told_apart_in_a_thousand_late_runs(name, trust, case, record_property):
    found = played(name, trust, case, 1000)
    record_property(f"{name}, {trust}, {case}", found)
    check(found, case, 1000)


@pytest.mark.evidence
@pytest.mark.parametrize("case", SAME)
@pytest.mark.parametrize("trust", TRUSTS)
def test_equal_arms_are_seldom_told_apart_in_a_thousand_late_runs_user_by_user(trust, case, record_property):
    """With more turns out than a block has, and 2,000 reports."""
    found = played("split", trust, case, 1000, "users", horizon=2_000, delay=300)
    record_property(f"{trust}, {case}", found)
    check(found, case, 1000)


@pytest.mark.evidence
@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("trust", ["two-servers", "devices"])
def test_odds_that_change_while_reports_are_out_tell_no_equal_arms_apart_user_by_user(name, trust, record_property):
    found = played(name, trust, "30 % silent", 1000, "users", horizon=2_000, delay=300)
    record_property(f"{name}, {trust}", found)
    check(found, "30 % silent", 1000)


def concluded(name, world, trust, mode, seed, runs):
    chosen = made(name, world, runs, trust, 2_000, effect=0.2)
    run = simulate(chosen, world, seed=seed, checkpoints=1, mode=mode)
    return np.where(chosen.silence.alarm, 3000.0, np.minimum(run.decided, 2500.0))


IN_LAW = 2_000
"""Runs in law, which cost little."""


@pytest.mark.slow
@pytest.mark.parametrize("runs", [40, pytest.param(150, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(("trust", "delay"), [("two-servers", 0), ("two-servers", 150), ("devices", 150)])
def test_a_block_in_law_is_that_of_every_users_way(trust, delay, runs):
    """Runs in law cost little: there are many of them, so that few of every user's way tell as much."""
    silent = Silent(Swinging([0.45, 0.6], swing=0.2, period=400), [0.9, 0.7], zeros=0.8)
    users = [
        concluded("split", Delayed(silent, delay), trust, mode, seed, each)
        for seed, (mode, each) in enumerate((("law", IN_LAW), ("users", runs)))
    ]
    grid = np.unique(np.concatenate(users))
    shares = [np.searchsorted(np.sort(each), grid, side="right") / len(each) for each in users]
    # Kolmogorov-Smirnov: a false alarm with probability 1e-7.
    assert np.abs(shares[0] - shares[1]).max() < math.sqrt(math.log(2e7) * (1 / IN_LAW + 1 / runs) / 2)


@pytest.mark.slow
def test_late_blocks_in_law_are_those_of_every_users_way():
    """Between two servers odds that change leave a late block: as many blocks, and as many reports in them."""
    world, found = Delayed(Silent(Bernoulli([0.3, 0.5, 0.5]), 0.7), 400), []
    for seed, mode in enumerate(("law", "users")):
        chosen = made("dp-top-two", world, 60, "two-servers", 3_000)
        chosen.may_decide = False
        simulate(chosen, world, seed=seed, checkpoints=1, mode=mode)
        found.append((chosen.blocks.mean(), chosen.comparison.weight[:, 0, 1].mean(), chosen.turns.sum(axis=1).mean()))
    assert found[0] == pytest.approx(found[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [200, pytest.param(400, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("delay", [0, 40, 1000])
def test_silent_turns_of_full_batches_have_the_law_of_a_coin_however_late_reports_are(delay, runs):
    """They are counted in the order of dealing: as many counts of either arm against the negative binomial law."""
    users, rate, counts = 20, 0.6, []
    for seed in range(runs):
        world = Delayed(Silent(Bernoulli([0.5, 0.5]), rate), delay)
        player = EachUser(made("split", world, 1, "devices", 2_000), world, 10**6, seeded(seed))
        counts += player._filled(0, np.full(2, users))[1].tolist()
    found = np.bincount(counts, minlength=60)[:60].cumsum() / len(counts)
    # A larger distance has probability below 1e-9 (Dvoretzky, Kiefer, Wolfowitz, Massart).
    allowed = math.sqrt(math.log(2.0 / 1e-9) / (2.0 * len(counts)))
    assert np.abs(found - nbinom.cdf(np.arange(60), users, rate)).max() < allowed


def test_who_is_silent_is_heard_when_all_turns_of_the_block_are_over():
    world = Delayed(Silent(Bernoulli([0.5, 0.5]), [0.9, 0.3]), 10**6)
    chosen = made("split", world, 1, "devices", 2_000)
    simulate(chosen, world, seed=1, checkpoints=1)
    assert not chosen.silence.won.any(), "their reports may still come"
    at_once = made("split", world, 1, "devices", 2_000)
    simulate(at_once, Delayed(world, 0), seed=1, checkpoints=1)
    assert at_once.silence.alarm.all()


def test_a_delay_is_a_range_of_turns():
    assert Silent(Delayed(Bernoulli([0.5, 0.5]), 9, soonest=3), 0.5).delay == (3, 9)
    for latest, soonest in ((-1, 0), (3, 4)):
        with pytest.raises(InvalidParameter, match="latest|soonest"):
            Delayed(Bernoulli([0.5, 0.5]), latest, soonest)


def test_commands_know_how_late_reports_come(capsys):
    common = ["--means", ".4,.5,.6", "--epsilon", "1", "--runs", "20", "--json"]
    plain = ["simulate", "--policy", "dp-top-two", "--trust", "two-servers", "--horizon", "3000", *common]
    assert main(plain) == 0
    at_once = json.loads(capsys.readouterr().out)
    assert main([*plain, "--delay", "400"]) == 0
    assert json.loads(capsys.readouterr().out) != at_once
    assert main(["plan", "--policy", "split", "--delay", "300", *common]) == 0
    assert {row["trust"] for row in json.loads(capsys.readouterr().out)} == set(TRUSTS)
    for refused in (["plan", "--policy", "dp-klucb", "--delay", "3", *common], [*plain, "--delay", "-1"]):
        assert main(refused) != 0
        assert "delay" in capsys.readouterr().err


def test_a_sweep_knows_how_late_reports_come():
    keys = {"policy": ["split"], "epsilon": 1.0, "horizon": 2000, "means": [0.4, 0.6], "runs": 3, "instances": 1}
    (cell,) = Sweep.of(keys | {"delay": 250}).cells
    assert cell.make_world().delay == (0, 250)
    assert "delay" not in Sweep.of(keys).cells[0].content, "older results stay"
    assert {row["delay"] for row in run_cell(cell)} == {250}
