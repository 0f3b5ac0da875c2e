"""The server of a linear bandit with real reports: their law, the rule that follows, replay, and what a user pays.

Laws are compared by the Dvoretzky-Kiefer-Wolfowitz inequality: an empirical distribution of N draws is further than
√(log(2/p)/2N) from its law with probability p = 1e-12 at most, so false alarms of the module stay below 1e-10, also
where the cryptographic source, which has no seed, draws.
"""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import skellam

from croupier.checks import InvalidParameter
from croupier.continual import ConcurrentShufflers, counter
from croupier.linear import DIAMETER, SCALE, LinearServer, linear_bandit, statistics
from croupier.noise import Skellam, secure, seeded
from croupier.privacy import BudgetExceeded, Loss, vector_loss
from croupier.protocols.sums.values import encode
from croupier.simulation.counting import TreeSum
from croupier.simulation.linear_runner import simulate_linear
from croupier.simulation.linear_worlds import Sphere

EPSILON, DELTA, LOW, USERS = 2.0, 1e-6, 32, 128


@lru_cache
def plan(shufflers=2):
    return linear_bandit(USERS, 2, shufflers, epsilon=EPSILON, delta=DELTA, smallest=LOW)


def crowd(seed=1, users=LOW):
    """The statistics of some users with fixed features and rewards."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(users, 2))
    x *= generator.random((users, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    return statistics(x, generator.random(users))


def law_of(values, mechanism):
    """The exact law of each decoded coordinate: whole levels, a coin a user, and Skellam noise; from `start` on."""
    levels = (values + 1.0) / 2.0 * mechanism.precision
    laws = []
    for column in levels.T:
        coins = np.ones(1)
        for fraction in column - np.floor(column):
            coins = np.convolve(coins, [1.0 - fraction, fraction])
        sigma2 = float(mechanism.noise.sigma2)
        reach = math.ceil(12.0 * math.sqrt(sigma2))
        noise = skellam.pmf(np.arange(-reach, reach + 1), sigma2 / 2.0, sigma2 / 2.0)
        laws.append((int(np.floor(column).sum()) - reach, np.cumsum(np.convolve(coins, noise))))
    return laws


def uniforms(decoded, laws, generator):
    """Draws of these laws made uniform: F(x-) plus a random part of the jump at x."""
    found = []
    for column, (start, cdf) in zip(decoded.T, laws, strict=True):
        cdf = np.concatenate((np.zeros(1), cdf))
        place = np.clip(column - start, 0, len(cdf) - 2)
        found.append(cdf[place] + generator.random(len(column)) * (cdf[place + 1] - cdf[place]))
    return np.concatenate(found)


def distance(sample):
    """How far an empirical distribution is from uniform, over what chance allows at 1e-12."""
    ordered, steps = np.sort(sample), np.arange(len(sample) + 1) / len(sample)
    gap = max((ordered - steps[:-1]).max(), (steps[1:] - ordered).max())
    return gap / math.sqrt(math.log(2.0 / 1e-12) / (2.0 * len(sample)))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("source", [seeded(5), secure()], ids=repr)
def test_real_reports_decode_to_the_exact_law(level, source):
    mechanism = plan().counter.mechanisms[level]
    values = crowd(users=mechanism.users)
    runs = 1600 // mechanism.users * LOW // 2
    reports = mechanism.randomize(np.broadcast_to(values, (runs, *values.shape)), source)
    decoded = mechanism.analyze_many(mechanism.collect(reports))
    assert decoded.shape == (runs, 5)
    assert distance(uniforms(decoded, law_of(values, mechanism), np.random.default_rng(1))) < 1.0


@pytest.mark.slow
def test_simulated_sums_have_the_same_law(monkeypatch):
    # Many blocks of the same users; a node of the second level holds eight of them.
    long = linear_bandit(64 * LOW, 2, 2, epsilon=EPSILON, delta=DELTA, smallest=LOW).counter
    assert long.tree.nodes == (64, 8)
    values, found = crowd(), ([], [])
    release = ConcurrentShufflers.release

    def listen(shufflers, batch, decoded):
        (level,) = (full.shuffler for full in shufflers.full if full.number == batch)
        found[level].append(decoded)
        return release(shufflers, batch, decoded)

    monkeypatch.setattr(ConcurrentShufflers, "release", listen)
    for seed in range(5):
        running = TreeSum(long, seeded(seed))
        for _ in range(64):
            running.extend(values)
    for level, mechanism in enumerate(long.mechanisms):
        laws = law_of(np.tile(values, (8**level, 1)), mechanism)
        assert distance(uniforms(np.asarray(found[level]), laws, np.random.default_rng(2))) < 1.0


def test_noise_of_half_the_variance_would_not_pass_for_that_law():
    mechanism = plan().counter.mechanisms[0]
    values, source = crowd(), seeded(3)
    encoded = encode((np.broadcast_to(values, (800, *values.shape)) + 1.0) / 2.0, mechanism.precision, source)
    decoded = encoded.sum(axis=1) + Skellam(0.5 * float(mechanism.noise.sigma2)).sample((800, 5), source)
    assert distance(uniforms(decoded, law_of(values, mechanism), np.random.default_rng(1))) > 1.0


def play(server, source, blocks, look=lambda: None):
    """Users choose, report to every open batch, and full batches are released; what was released, in order."""
    waiting, told = {}, []
    for block in range(blocks):
        for batch in server.open:
            waiting.setdefault(batch.number, (batch.mechanism, []))
        generator = np.random.default_rng(block)
        offers = generator.normal(size=(LOW, 3, 2))
        offers /= np.linalg.norm(offers, axis=-1, keepdims=True)
        chosen = offers[np.arange(LOW), server.rule.choose(offers)]
        for x, y in zip(chosen, generator.random(LOW), strict=True):
            sent = statistics(x, y)
            for batch in server.open:
                mechanism, reports = waiting[batch.number]
                reports.append(mechanism.randomize(sent, source))
            server.arrive()
            look()
        for batch in server.due:
            mechanism, reports = waiting.pop(batch.number)
            decoded = mechanism.analyze(mechanism.collect(reports)).decoded
            told.append((batch.shuffler, decoded))
            server.release(batch.number, decoded)
    return told


def test_the_rule_is_that_of_the_weighted_sums_of_real_batches():
    server = LinearServer(plan())
    told = play(server, secure(), 3)
    assert [level for level, _ in told] == [0, 0, 1, 0]
    low, high = plan().counter.mechanisms
    own = plan().counter.weights.own[1]
    first, second, both, third = (
        mechanism.estimate(decoded) for mechanism, (_, decoded) in zip((low, low, high, low), told, strict=True)
    )
    sums = own * both + (1.0 - own) * (first + second) + third
    expected = plan().confidence.rule(sums, 3 * LOW)
    np.testing.assert_allclose(server.rule.theta, expected.theta, rtol=1e-9)
    assert math.isclose(server.rule.radius, expected.radius)
    assert server.summed == 3 * LOW


def test_the_simulation_is_this_server_with_its_users_drawn_in_law():
    world, source = Sphere(2, 4, seed=1), seeded(11)
    run = simulate_linear("concurrent", world, USERS, seed=11, shufflers=2, epsilon=EPSILON, failure=1 / USERS)
    setting = linear_bandit(USERS, 2, 2, epsilon=EPSILON)
    assert setting.counter.tree.smallest == LOW
    server = LinearServer(setting)
    sums, regret = np.zeros((2, 5), dtype=np.int64), 0.0
    for _ in range(USERS // LOW):
        offers, rows = world.offer(LOW, source.generator), np.arange(LOW)
        chosen = server.rule.choose(offers.features)
        means = offers.means[rows, chosen]
        regret += float((offers.means.max(axis=1) - means).sum())
        rewards = (source.generator.random(LOW) < means).astype(np.float64)
        sent = statistics(offers.features[rows, chosen], rewards)
        for level, mechanism in enumerate(setting.counter.mechanisms):
            sums[level] += encode(mechanism.values.unit(sent), mechanism.precision, source).sum(axis=0)
        server.arrive(LOW)
        for batch in server.due:
            decoded = batch.mechanism.noisy(sums[batch.shuffler], source)
            sums[batch.shuffler] = 0
            server.release(batch.number, tuple(decoded.tolist()))
    assert server.rule == run.rule
    assert regret == run.regret[-1]


def test_everyone_of_a_block_chooses_by_the_same_rule():
    server = LinearServer(plan())
    seen = []
    told = play(server, seeded(1), 1, look=lambda: seen.append(None if server.room == 0 else server.rule))
    assert len(seen) == LOW
    assert len({id(rule) for rule in seen[:-1]}) == 1
    assert server.rule != seen[0]
    assert len(told) == 1


def test_the_rule_changes_only_when_a_batch_is_released_and_always_then():
    watched, quiet = LinearServer(plan()), LinearServer(plan())
    before = watched.rule
    looks = []
    play(watched, seeded(4), 1, look=lambda: looks.append(watched.rule))
    play(quiet, seeded(4), 1)
    assert all(rule == before for rule in looks), "a rule moved although nothing was released"
    # Looking at the rule between the last arrival and the release must not keep the release out of it.
    assert watched.rule == quiet.rule
    assert watched.rule != before


def test_more_users_than_planned_are_refused():
    server = LinearServer(plan(1))
    with pytest.raises(InvalidParameter, match="^users = "):
        server.arrive(USERS + 1)


@pytest.mark.parametrize("shufflers", [1, 2, None])
def test_a_user_pays_no_more_than_promised(shufflers):
    found = plan(shufflers)
    assert found.counter.loss.delta(EPSILON) <= DELTA
    assert found.counter.loss.delta(EPSILON) > 0.5 * DELTA, "and hardly less"
    assert all(mechanism.values.diameter == DIAMETER for mechanism in found.counter.mechanisms)
    server = LinearServer(found)
    server.arrive(LOW)
    assert server.sums.counter.shufflers.loss().delta(EPSILON) <= DELTA


def honest_loss(mechanisms):
    """What users whose vectors differ by the true diameter pay."""
    reach = [m.precision / 2.0 * 1.5 + math.sqrt(m.dimension) for m in mechanisms]
    return Loss.total(
        vector_loss(m.guard, l2=l2, l1=math.sqrt(m.dimension) * l2) for m, l2 in zip(mechanisms, reach, strict=True)
    )


def farthest():
    """Two users at the diameter."""
    angle = -math.pi / 12
    x, other = [math.cos(angle), math.sin(angle)], [math.sin(angle), math.cos(angle)]
    return statistics(x, 1.0), statistics(other, 1.0)


def summed_delta(mechanisms, epsilon, grid=4e-4):
    """δ for the two farthest users by direct summation: exact laws of every coordinate, losses rounded up to a grid."""
    total, offset = np.ones(1), 0
    for mechanism in mechanisms:
        pair = [law_of(user[None], mechanism) for user in farthest()]
        for (start, left), (other, right) in zip(*pair, strict=True):
            first, last = min(start, other), max(start + len(left), other + len(right))
            p, q = np.zeros(last - first), np.zeros(last - first)
            p[start - first : start - first + len(left)] = np.diff(left, prepend=0.0)
            q[other - first : other - first + len(right)] = np.diff(right, prepend=0.0)
            held = (p > 1e-15) & (q > 1e-15)
            steps = np.ceil(np.log(p[held] / q[held]) / grid).astype(np.int64)
            own = np.bincount(steps - steps.min(), weights=p[held])
            total, offset = fftconvolve(total, own), offset + int(steps.min())
    losses = (np.arange(len(total)) + offset) * grid
    return float(np.maximum(total * -np.expm1(epsilon - losses), 0.0)[losses > epsilon].sum())


def test_the_farthest_users_are_hidden_by_direct_summation():
    found = summed_delta(plan().counter.mechanisms, EPSILON)
    assert DELTA / 100.0 < found < DELTA


@pytest.mark.slow
def test_noise_for_the_feature_times_reward_alone_does_not_hide_both_parts():
    # ‖xy - x'y'‖ <= 2 alone would be a diameter of √2 as sent; the joint one is 1.5.
    careless = counter(USERS, 2, epsilon=EPSILON, delta=DELTA, smallest=LOW, dimension=5, diameter=2.0 / SCALE)
    assert careless.loss.delta(EPSILON) <= DELTA, "it believes itself"
    assert honest_loss(careless.mechanisms).delta(EPSILON) > 2.0 * DELTA
    assert honest_loss(plan().counter.mechanisms).delta(EPSILON) <= DELTA
    assert summed_delta(careless.mechanisms, EPSILON) > 2.0 * summed_delta(plan().counter.mechanisms, EPSILON)


def test_two_counters_at_full_budget_are_refused():
    # The statistics as two vectors, each with all of the budget, would cost twice.
    twice = plan(1).counter.mechanisms[0].loss + plan(1).counter.mechanisms[0].loss
    assert twice.delta(EPSILON) > 10.0 * DELTA
    server = LinearServer(plan(1))
    server.sums.counter.shufflers.count = 2
    server.sums.counter.shufflers.activate(1, plan(1).counter.mechanisms[0])
    with pytest.raises(BudgetExceeded):
        server.arrive()
