"""Several metrics a report: guardrails err no more often than they say, and intervals of any metric hold at every look.

Small versions run always; the long ones are evidence and say what they measured.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from croupier.bandits import policy
from croupier.checks import InvalidParameter
from croupier.simulation import Bernoulli, Beta, Swinging, simulate
from croupier.simulation.levelled import Ratings

NAMES = ("split", "concurrent-elimination", "dp-top-two", "concurrent-klucb", "concurrent-imed")
METRICS = {
    "finished": {"role": "primary"},
    "crashes": {"role": "guardrail", "high": 5, "cap": True, "better": "lower", "margin": 0.25, "rate": 0.5},
    "minutes": {"role": "guardrail", "high": 60, "cap": True, "margin": 3.0},
    "revenue": {"high": 100, "cap": True},
}
TERMS = {"smallest_effect": 0.05, "rate": 0.5}


def made(name, arms, runs, horizon=30_000, metrics=METRICS, epsilon=2.0, **options):
    return policy(name, arms=arms, horizon=horizon, epsilon=epsilon, metrics=metrics, runs=runs, **options)


def counts(*rates, cap=5):
    """Poisson counts capped at five, on the scale from 0 to 1."""

    def table(rate):
        law = np.exp(-rate) * np.cumprod([1.0, *(rate / k for k in range(1, 40))])
        law = np.append(law[:cap], 1.0 - law[:cap].sum())
        return np.repeat(np.arange(cap + 1) / cap, np.rint(100_000 * law).astype(int))

    return Ratings([table(rate) for rate in rates])


def revenue(*buying, cap=100.0):
    """Nothing from most, amounts of very different size from the others, capped."""
    amounts = np.minimum(np.random.default_rng(5).lognormal(3.0, 1.2, 2000), cap) / cap
    return Ratings([np.concatenate((np.zeros(round(2000 / share) - 2000), amounts)) for share in buying])


def rare(found, runs, of=0.05):
    """A one-sided test at 99 %."""
    assert found <= binom.isf(0.01, runs, of), f"{found} of {runs} runs"


BESIDE = {
    "steady": lambda arms: [counts(*[0.5] * arms), Beta([0.3] * arms), revenue(*[0.05] * arms)],
    "swinging": lambda arms: [Swinging([0.2] * arms), Swinging([0.3] * arms), revenue(*[0.05] * arms)],
}


def alike(name, case, runs, arms=2):
    primary = Swinging([0.5] * arms) if case == "swinging" else Bernoulli([0.5] * arms)
    run = simulate(made(name, arms, runs, decision=TERMS), primary, seed=11, beside=BESIDE[case](arms), checkpoints=1)
    return int(run.false_decisions.sum()), run


@pytest.mark.parametrize("case", BESIDE)
def test_equal_arms_with_four_metrics_are_seldom_found_to_differ(case):
    false, run = alike("split", case, 200)
    rare(false, 200)
    assert not run.policy.watched.out.any(), "five points of margin away from harm"


@pytest.mark.evidence
@pytest.mark.parametrize("name", NAMES)
def test_equal_arms_with_four_metrics_are_seldom_found_to_differ_by_any_policy(name, record_property):
    for case in BESIDE:
        for arms in (2, 3):
            false, _ = alike(name, case, 1000, arms)
            record_property(f"{case}, {arms} arms", {"false": false})
            rare(false, 1000)


def at_the_margin(name, runs, arms=2, horizon=30_000):
    """The last arm is better in what decides, and the margin worse in crashes: how often what was said of it."""
    chosen = made(name, arms, runs, horizon, decision=TERMS)
    chosen.may_decide = False
    ever = {"safe": np.zeros(runs, dtype=bool), "harmed": np.zeros(runs, dtype=bool)}

    def watch(policy):
        crashes = policy.guarded[0]
        ever["safe"] |= crashes.safe[:, -1]
        ever["harmed"] |= policy.watched.out[:, -1]

    primary, same = [0.5] * (arms - 1) + [0.6], [0.1] * (arms - 1)
    beside = [Bernoulli([*same, 0.15]), Beta([0.3] * arms), revenue(*[0.05] * arms)]
    simulate(chosen, Bernoulli(primary), seed=3, beside=beside, checkpoints=1, watch=watch)
    return {key: int(value.sum()) for key, value in ever.items()}


def test_a_guardrail_exactly_at_its_margin_is_seldom_said_to_be_safe_or_harmed():
    found = at_the_margin("split", 200)
    rare(found["safe"], 200)
    rare(found["harmed"], 200)


@pytest.mark.evidence
@pytest.mark.parametrize("name", NAMES)
def test_at_the_margin_no_policy_says_more_than_it_may(name, record_property):
    for arms in (2, 3):
        found = at_the_margin(name, 1000, arms)
        record_property(f"{arms} arms", found)
        rare(found["safe"], 1000)
        rare(found["harmed"], 1000)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [100, pytest.param(300, marks=pytest.mark.evidence)])
def test_an_arm_at_its_margin_that_is_better_in_what_decides_is_not_shipped(runs):
    chosen = made("split", 2, runs, decision=TERMS)
    beside = [Bernoulli([0.1, 0.15]), Bernoulli([0.3, 0.3]), Bernoulli([0.05, 0.05])]
    run = simulate(chosen, Bernoulli([0.5, 0.6]), seed=3, beside=beside, checkpoints=1)
    rare(int(run.false_decisions.sum()), runs)
    assert np.mean(chosen.waiting) > 0.9
    waits = [chosen.decision(run) for run in np.flatnonzero(chosen.waiting).tolist()]
    assert {decision.waits for decision in waits} <= {("crashes",), ("crashes", "minutes")}
    said = waits[0].sentence(["A", "B"], "finishes")
    assert said.startswith("not decided: B finishes more than A by ")
    assert said.endswith(", among those who reported, and it is not known yet that B is safe in crashes")


@pytest.mark.parametrize("name", NAMES)
def test_an_arm_that_harms_is_taken_out_and_never_wins_however_good_it_is(name):
    runs = 100
    chosen = made(name, 3, runs, decision=TERMS)
    beside = [Bernoulli([0.1, 0.1, 0.3]), Bernoulli([0.3] * 3), Bernoulli([0.05] * 3)]
    run = simulate(chosen, Bernoulli([0.5, 0.6, 0.8]), seed=5, beside=beside, checkpoints=1)
    assert not ((chosen.winner == 2) & chosen.decided).any()
    assert chosen.watched.out[:, 2].mean() > 0.9
    assert not chosen.watched.out[:, :2].any()
    rare(int(run.false_decisions.sum()), runs)
    if name != "concurrent-imed":
        assert np.mean(chosen.winner == 1) > 0.8
    out = int(np.flatnonzero(chosen.watched.out[:, 2])[0])
    assert chosen.decision(out).sentence(["A", "B", "C"]).endswith("; C is out, since it harms crashes")
    assert (chosen.odds()[chosen.watched.out[:, 2], 2] == 0).all()


def test_where_every_other_arm_harms_the_control_stays_at_once():
    chosen = made("split", 2, 100, decision=TERMS)
    chosen.may_decide = False
    beside = [Bernoulli([0.1, 0.3]), Bernoulli([0.3] * 2), Bernoulli([0.05] * 2)]
    run = simulate(chosen, Bernoulli([0.5, 0.8]), seed=5, beside=beside, checkpoints=1)
    assert np.mean([verdict == "harmful" for verdict in chosen.verdicts]) > 0.98
    assert (chosen.winner[chosen.decided] == 0).all()
    assert not run.false_decisions.any()
    decision = chosen.decision(int(np.argmax(chosen.decided)))
    assert (decision.kind, decision.leader, decision.reference) == ("harmful", 0, 1)
    assert decision.sentence(["A", "B"]) == "A stays: B harms crashes, among those who reported"
    assert np.median(run.decided) < 8_000


@pytest.mark.parametrize("name", NAMES)
def test_a_better_arm_that_is_safe_is_found_by_every_policy(name):
    chosen = made(name, 2, 100, horizon=60_000, decision=TERMS)
    beside = [Bernoulli([0.1, 0.1]), Bernoulli([0.3] * 2), Bernoulli([0.05] * 2)]
    run = simulate(chosen, Bernoulli([0.5, 0.6]), seed=5, beside=beside, checkpoints=1)
    assert np.mean(chosen.winner == 1) > 0.9
    assert not run.false_decisions.any()
    assert run.decisions()["users_median"] < 20_000


def missed(primary, beside, runs, horizon, metrics, seed=1):
    """In how many runs the interval of each metric has ever missed the true difference."""
    chosen = made("split", 2, runs, horizon, metrics)
    chosen.may_decide = False
    ever = np.zeros((runs, 1 + len(beside)), dtype=bool)
    gaps = [float(world.means[1] - world.means[0]) for world in (primary, *beside)]

    def watch(policy):
        for place, comparison in enumerate((policy.comparison, *policy.watched.comparisons)):
            lower, upper = comparison.intervals(policy.levels.pair)
            ever[:, place] |= (lower[:, 1, 0] > gaps[place] + 1e-12) | (upper[:, 1, 0] < gaps[place] - 1e-12)

    simulate(chosen, primary, seed=seed, beside=beside, checkpoints=1, watch=watch)
    return ever.sum(axis=0)


COVERED = {
    "counts": (counts(0.5, 0.8), counts(0.05, 0.05), counts(2.0, 2.5)),
    "revenue": (revenue(0.05, 0.06), revenue(0.01, 0.012), revenue(0.3, 0.3)),
    "bounded": (Beta([0.3, 0.35]), Beta([0.9, 0.9]), Beta([0.02, 0.03])),
    "drifting": (Swinging([0.5, 0.55]), Swinging([0.2, 0.2]), Swinging([0.85, 0.8])),
}
WATCHED = {"a": {"role": "primary", "binary": False}} | {name: {"binary": False} for name in "bcd"}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [100, pytest.param(200, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("what", COVERED)
def test_intervals_of_every_metric_hold_at_all_looks(what, runs):
    found = missed(COVERED[what][0], COVERED[what], runs, 10_000, WATCHED)
    for count in found:
        rare(int(count), runs)


@pytest.mark.evidence
@pytest.mark.parametrize("what", COVERED)
def test_intervals_of_every_metric_hold_at_all_looks_in_long_runs(what, record_property):
    found = missed(COVERED[what][0], COVERED[what], 1000, 100_000, WATCHED)
    record_property(what, found.tolist())
    for count in found:
        rare(int(count), 1000)


@pytest.mark.slow
def test_what_users_send_one_by_one_adds_up_to_what_the_law_says():
    metrics = {"a": {"role": "primary"}, "b": {"high": 5}, "c": {"low": -1, "high": 1}}
    worlds = Bernoulli([0.3, 0.6]), [Beta([0.2, 0.4]), Bernoulli([0.5, 0.9])]
    means = {}
    for mode in ("law", "users"):
        chosen = made("split", 2, 6, 2_400, metrics, epsilon=6.0)
        chosen.may_decide = False
        simulate(chosen, worlds[0], seed=4, beside=worlds[1], checkpoints=1, mode=mode)
        compared = (chosen.comparison, *chosen.watched.comparisons)
        means[mode] = [comparison.differences[:, 1, 0].mean() for comparison in compared]
    # A difference of means of 6 × 1,200 users each side varies by 0.009 or less, and with noise by 0.017; six of them.
    assert means["law"] == pytest.approx([0.3, 0.2, 0.4], abs=0.1)
    assert means["users"] == pytest.approx([0.3, 0.2, 0.4], abs=0.1)


def test_an_arm_added_late_is_guarded_from_then_on():
    chosen = made("split", 2, 4, None, decision=TERMS)
    beside = [Bernoulli([0.1, 0.1]), Bernoulli([0.3] * 2), Bernoulli([0.05] * 2)]
    simulate(chosen, Bernoulli([0.5, 0.5]), seed=5, beside=beside, users=2_000, checkpoints=1)
    chosen.may_decide = False
    chosen.add_arm()
    beside = [Bernoulli([0.1, 0.1, 0.6]), Bernoulli([0.3] * 3), Bernoulli([0.05] * 3)]
    simulate(chosen, Bernoulli([0.5, 0.5, 0.5]), seed=6, beside=beside, users=30_000, checkpoints=1)
    assert chosen.watched.out[:, 2].all()
    assert not chosen.watched.out[:, :2].any()
    assert len(chosen.metric_rows()) == 4 * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trust": "devices"}, "trust = 'devices' .* two-servers where there are several"),
        ({"protocol_name": "skellam"}, "protocol_name = 'skellam' .* laplace where"),
        ({"binary": True}, "binary = True .* False where"),
        ({"low": -1}, "low = -1 .* left out where there are several metrics"),
        ({"delta": 1e-6}, "delta = 1e-06"),
        ({"constants": "published"}, "constants = 'published'"),
    ],
)
def test_what_several_metrics_do_not_read_is_refused_by_name(options, words):
    with pytest.raises(InvalidParameter, match=words):
        made("split", 2, 1, **options)


def test_policies_that_compare_nothing_take_no_metrics_and_simulations_take_a_world_for_each():
    with pytest.raises(InvalidParameter, match="metrics = .* left out: dp-klucb compares nothing"):
        made("dp-klucb", 2, 1)
    with pytest.raises(InvalidParameter, match="beside = 0 .* 3 worlds"):
        simulate(made("split", 2, 1), Bernoulli([0.5, 0.5]), seed=1)
    chosen = made("split", 2, 1)
    with pytest.raises(InvalidParameter, match="beside = None .* shape"):
        chosen.observe(np.zeros((1, 2)), np.full((1, 2), 50), np.ones((1, 2), dtype=bool))


def test_batches_are_quiet_for_every_guardrail():
    loose = METRICS | {"crashes": METRICS["crashes"] | {"role": "secondary", "margin": None}}
    loose |= {"minutes": {"high": 60}}
    least = made("split", 2, 1, None, loose, decision=TERMS).least
    assert made("split", 2, 1, None, decision=TERMS).least > least
    assert math.isfinite(least)
