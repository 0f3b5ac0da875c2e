"""Plans of growing batches, and their server with real reports: who is in which batch, what noise is in the sums."""

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.linear import LinearServer, NoiseSum, first_batch, growing_bandit, linear_bandit
from croupier.noise import secure, seeded
from croupier.personal import Rule, with_constant
from croupier.protocols import Moments


@lru_cache
def plan(**options):
    return growing_bandit(**{"users": 3_000, "dimension": 3, "epsilon": 2.0, "trust": "devices"} | options)


def test_everyone_is_in_one_batch_and_batches_grow_by_the_ratio():
    found = plan(users=100_000, first=500, ratio=1.5)
    ends = list(found.ends())
    assert ends[-1] == 100_000
    sizes = np.diff([0, *ends])
    assert sizes[0] == 500
    # The users summed grow by the ratio, but for the first two batches, which are alike, and the last, which takes all.
    growth = np.asarray(ends[2:-1]) / np.asarray(ends[1:-2])
    np.testing.assert_allclose(growth, 1.5, rtol=2e-3)
    assert sizes[-1] >= 0.5 * (ends[-2] * 0.5), "no small rest"


def test_a_cap_holds_and_the_batches_become_many():
    capped = plan(users=20_000, first=300, largest=700)
    sizes = np.diff([0, *capped.ends()])
    assert sizes[:-1].max() == 700
    assert sizes[-1] < 1_100
    assert len(sizes) > 20


@pytest.mark.parametrize(("users", "first"), [(64, 32), (1_000, 999), (1_000, 1_000), (5_000, 40), (33, 32)], ids=str)
def test_all_users_are_in_some_batch(users, first):
    ends = list(plan(users=users, first=first).ends())
    assert ends[-1] == users
    assert all(a < b for a, b in itertools.pairwise([0, *ends]))


def test_the_first_batch_grows_with_noise_features_and_what_is_asked_of_it():
    usual = first_batch(plan(users=10**6))
    assert first_batch(plan(users=10**6, epsilon=0.5)) > 3 * usual
    assert first_batch(plan(users=10**6, dimension=6)) > 2 * usual
    assert first_batch(plan(users=10**6, places=4)) > 3 * usual
    assert math.isclose(first_batch(plan(users=10**6, exploration=0.2)), 0.2 * usual, rel_tol=0.02)
    assert first_batch(plan(users=800)) == 100, "at most an eighth chooses at random"


def test_two_servers_noises_have_twice_the_variance():
    one, two = (plan(trust=trust, noise="skellam").mechanism(500) for trust in ("devices", "two-servers"))
    assert math.isclose(two.variance, 2.0 * one.variance, rel_tol=1e-6)


@pytest.mark.parametrize("trust", ["devices", "two-servers", "shuffler"])
def test_a_user_pays_what_is_promised_and_hardly_less(trust):
    found = plan(trust=trust, noise="skellam")
    loss = found.mechanism(400).loss
    assert 0.5e-6 < loss.delta(2.0) <= 1e-6
    assert found.trust == trust
    assert found.privacy.delta == 1e-6


def test_without_delta_the_noise_is_laplace_and_privacy_pure():
    found = plan(delta=0.0)
    assert found.protocol.name == "laplace-vectors"
    assert found.privacy.notion == "pure"
    assert found.mechanism(300).loss.pure <= 2.0
    with pytest.raises(InvalidParameter, match="^noise = 'laplace' .* shuffler"):
        plan(delta=0.0, trust="shuffler")


def test_of_the_two_laws_the_one_is_taken_that_pushes_less():
    many = growing_bandit(10**5, 8, epsilon=1.0)
    assert many.protocol.name == "shared-vectors", "a vector of many numbers is hidden better by Skellam noise"
    few = growing_bandit(10**5, 2, epsilon=1.0, delta=1e-12)
    assert few.protocol.name == "laplace-vectors"
    for trust in ("devices", "two-servers"):
        chosen = growing_bandit(10**5, 3, epsilon=1.0, trust=trust)
        laws = [growing_bandit(10**5, 3, epsilon=1.0, trust=trust, noise=law) for law in ("skellam", "laplace")]

        def push(own):
            sums = NoiseSum()
            for _ in range(4):
                sums = sums.plus(own.mechanism(100))
            return own.noise_bounds(sums).joint

        assert math.isclose(push(chosen), min(map(push, laws)), rel_tol=1e-9)


def test_the_weight_of_rewards_is_where_noise_pushes_an_estimate_least():
    found = growing_bandit(10**5, 5, epsilon=1.0, noise="skellam")

    def push(weight):
        own = replace(found.moments, weight=weight)
        return own.diameter * math.hypot(1.0 / weight, 1.0)

    assert push(found.moments.weight) <= 1.002 * min(push(weight) for weight in np.linspace(0.3, 2.0, 500))
    # What the split of the budget brings, against equal parts as [TKMS23] has them: w = 1 and rewards not centred.
    plain = Moments(5, weight=1.0, centred=False)
    assert push(found.moments.weight) < 0.75 * plain.diameter * math.hypot(1.0, 1.0)


def crowd(rule, users, source, dimension=3, actions=4):
    """Users who choose on their own devices: features, actions, rewards."""
    generator = np.random.default_rng(users)
    raw = generator.normal(size=(users, actions, dimension - 1))
    features = with_constant(raw / np.linalg.norm(raw, axis=-1, keepdims=True))
    chosen, control = rule.play(features, source)
    x = features[np.arange(users), chosen]
    means = np.clip(0.5 + 0.4 * np.sqrt(2.0) * x[:, 0], 0.0, 1.0)
    return x, (generator.random(users) < means).astype(float), chosen, control


def played(server, source, look=lambda: None):
    """The one loop, with real reports through the real carrier; the true sums beside it."""
    true = np.zeros(server.plan.moments.dimension)
    while server.room:
        batch, users = server.open[0], server.room
        look()
        x, rewards, _, _ = crowd(server.rule, users, source)
        vectors = server.plan.moments.of(x, rewards)
        true += vectors.sum(axis=0)
        server.arrive(users)
        assert [due.number for due in server.due] == [batch.number]
        assert not server.open
        server.release(batch.number, batch.mechanism.run(vectors, source).decoded)
    return true


@pytest.mark.parametrize("trust", ["devices", "two-servers"])
def test_a_run_with_real_reports_sums_everybody_with_the_noise_of_every_batch(trust):
    server = LinearServer(plan(users=1_200, first=200, trust=trust, noise="skellam"))
    rules = []
    true = played(server, seeded(1), look=lambda: rules.append(server.rule))
    assert server.summed == 1_200
    findings = server.findings
    assert findings.noise.batches == len(findings.batches) == len(list(server.plan.ends()))
    assert rules[0].blank
    assert not any(rule.blank for rule in rules[1:])
    assert len({rule.to_json() for rule in rules}) == len(rules), "a new rule with every batch"
    error = np.sum([batch.sum for batch in findings.batches], axis=0) - true
    # Twelve numbers within eight deviations: false alarms below 1e-13.
    assert np.abs(error).max() < 8.0 * math.sqrt(findings.noise.variance)
    assert np.abs(error).max() > 0.1 * math.sqrt(findings.noise.variance), "and noise is there"


def test_the_rule_is_that_of_the_sums_and_it_travels():
    server = LinearServer(plan(users=1_200, first=200))
    played(server, secure())
    findings = server.findings
    total = np.sum([batch.sum for batch in findings.batches], axis=0)
    pulled, matrices = server.plan.moments.moments(total)
    expected = server.plan.sets.belief(pulled[0], matrices[0], server.plan.noise_bounds(findings.noise))
    assert server.rule.beliefs[0][0] == expected
    assert Rule.from_json(server.rule.to_json()) == server.rule


def test_a_batch_may_end_early_and_the_next_follows_what_was_summed():
    server = LinearServer(plan(users=3_000, first=400, trust="two-servers", ratio=1.5))
    source = seeded(2)
    x, rewards, _, _ = crowd(server.rule, 150, source)
    server.arrive(150)
    server.close()
    batch = server.due[0]
    assert batch.mechanism.users == 150
    server.release(batch.number, batch.mechanism.simulate(server.plan.moments.of(x, rewards), source).decoded)
    assert server.summed == 150
    assert server.room == 400, "no batch is smaller than the first"
    with pytest.raises(CroupierError):
        LinearServer(plan(users=3_000, first=400, trust="devices")).close()


def test_a_batch_that_cannot_be_read_is_left_out_and_its_users_are_in_no_sum():
    server = LinearServer(plan(users=1_000, first=200))
    server.arrive(200)
    server.leave_out(server.due[0].number)
    assert (server.summed, server.rule.blank) == (0, True)
    assert server.open[0].number == 1
    with pytest.raises(InvalidParameter, match="^batch = 0 "):
        server.leave_out(0)


def test_trees_run_in_the_same_loop_and_tell_no_findings():
    server = LinearServer(linear_bandit(400, 2, 1, epsilon=4.0, smallest=100))
    source, rounds = seeded(1), 0
    while server.room:
        users, opened = server.room, server.open
        server.arrive(users)
        for batch in opened:
            server.release(batch.number, batch.mechanism.simulate(np.zeros((users, 5)), source).decoded)
        rounds += 1
    assert (rounds, server.summed) == (4, 400)
    for ask in (lambda: server.findings, server.close):
        with pytest.raises(InvalidParameter, match="^plan = "):
            ask()


BAD = {
    "no epsilon": ("epsilon", {"epsilon": 0.0}),
    "delta of one": ("delta", {"delta": 1.0}),
    "too few users": ("users", {"users": 20}),
    "unknown trust": ("trust", {"trust": "nobody"}),
    "unknown noise": ("noise", {"noise": "gaussian"}),
    "no places": ("places", {"places": 0}),
    "no features": ("features", {"dimension": 0}),
    "a ratio of one": ("ratio", {"ratio": 1.0}),
    "an infinite ratio": ("ratio", {"ratio": math.inf}),
    "a first batch of all and more": ("first", {"first": 3_001}),
    "no cap": ("largest", {"largest": 0}),
    "no exploration": ("exploration", {"exploration": 0.0}),
    "no optimists": ("optimists", {"optimists": 0.0}),
    "all in control": ("control", {"control": 1.0}),
    "a control share that plays nothing": ("single", {"control": 0.1}),
    "no failure": ("failure", {"failure": 0.0}),
    "too much weight": ("weight", {"weight": 3.0}),
    "honest users where none is counted on": ("honest_fraction", {"honest_fraction": 0.5}),
    "a front's noise between two servers": ("front_noise", {"front_noise": True}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_plans_are_refused_by_name(case):
    name, change = BAD[case]
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        growing_bandit(**{"users": 3_000, "dimension": 3, "epsilon": 2.0} | change)


BAD_STEPS = {
    "too many at once": ("users", lambda server: server.arrive(201)),
    "nobody": ("users", lambda server: server.arrive(0)),
    "a batch that is not full": ("batch", lambda server: server.release(0, (0,) * 9)),
    "closing an empty batch": ("batch", lambda server: server.close()),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_bad_steps_are_refused_by_name(case):
    name, step = BAD_STEPS[case]
    server = LinearServer(plan(users=1_000, first=200, trust="two-servers"))
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        step(server)


@pytest.mark.parametrize("decoded", [(0,) * 8, (0.5,) * 9, ("a",) * 9], ids=["too few", "halves", "words"])
def test_what_no_batch_decodes_to_is_refused(decoded):
    server = LinearServer(plan(users=1_000, first=200))
    server.arrive(200)
    with pytest.raises(InvalidParameter, match="^decoded = "):
        server.release(0, decoded)
