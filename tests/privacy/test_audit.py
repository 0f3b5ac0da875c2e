"""The empirical lower bound: never above a true ε, close to it where it can be, and above the claim of a broken one.

Seeds are fixed. Were they free, a bound would exceed the truth with at most its stated failure, 1e-12 here, per audit;
fewer than 500 audits below make a false alarm of at most 5e-10.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from croupier.checks import InvalidParameter
from croupier.noise import DiscreteLaplace, seeded
from croupier.privacy import epsilon_lower_bound, privacy_loss

NEVER = 1e-12


def randomized_response(epsilon: float, trials: int, seed: int):
    generator = np.random.default_rng(seed)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    keeps = generator.random((2, trials)) < truth
    return np.where(keeps[0], 0, 1), np.where(keeps[1], 1, 0)


def laplace(scale: float, trials: int, seed: int):
    source = seeded(seed)
    return DiscreteLaplace(scale).sample(trials, source), 1 + DiscreteLaplace(scale).sample(trials, source)


@pytest.mark.parametrize("sample", [randomized_response, lambda e, n, s: laplace(1 / e, n, s)], ids=["bits", "Laplace"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bound_stays_below_the_true_epsilon(sample, epsilon):
    for seed in range(60):
        assert epsilon_lower_bound(*sample(epsilon, 2000, seed), delta=0.0, failure=NEVER).epsilon <= epsilon


@pytest.mark.parametrize("sample", [randomized_response, lambda e, n, s: laplace(1 / e, n, s)], ids=["bits", "Laplace"])
@pytest.mark.parametrize(("epsilon", "reach"), [(0.5, 0.4), (1.0, 0.85), (2.0, 1.8)])
def test_the_bound_comes_close_to_the_true_epsilon(sample, epsilon, reach):
    # With 100,000 trials it falls short by about 8 standard errors of 0.005 at failure 1e-6; the margin is twice that.
    found = epsilon_lower_bound(*sample(epsilon, 100_000, 7), delta=0.0)
    assert reach < found.epsilon <= epsilon
    assert (found.delta, found.failure, found.trials) == (0.0, 1e-6, 100_000)


def test_the_order_of_the_inputs_does_not_matter_much():
    first, second = laplace(1.0, 20_000, 3)
    forth, back = (epsilon_lower_bound(*pair, delta=0.0).epsilon for pair in ((first, second), (second, first)))
    assert forth == back > 0.5


@pytest.mark.parametrize("claimed", [0.5, 1.0])
def test_a_mechanism_with_half_its_noise_is_found_out(claimed):
    found = epsilon_lower_bound(*laplace(0.5 / claimed, 50_000, 11), delta=0.0, failure=NEVER)
    assert claimed < found.epsilon <= 2 * claimed


def test_events_are_not_chosen_and_counted_on_the_same_samples():
    # The same law twice: every positive bound is an error. With 500 outcomes a bound that counted the event on the
    # samples that chose it would be wrong nearly always.
    failure, audits = 0.05, 150
    wrong = 0
    for seed in range(audits):
        first, second = np.random.default_rng(seed).integers(0, 500, (2, 2000))
        wrong += epsilon_lower_bound(first, second, delta=0.0, failure=failure).epsilon > 0.0
    # More than this many, at the stated failure, has probability 1e-10.
    assert wrong <= binom.isf(1e-10, audits, failure)


def test_delta_forgives_what_it_allows_and_no_more():
    # With probability 1/50 the input is shown: (0, 0.02)-DP, and not ε-DP for any ε.
    trials = 50_000
    generator = np.random.default_rng(5)
    first, second = (generator.random(trials) < 0.02).astype(np.int64), np.zeros(trials, dtype=np.int64)
    assert epsilon_lower_bound(first, second, delta=0.02, failure=NEVER).epsilon == 0.0
    assert epsilon_lower_bound(first, second, delta=0.01, failure=NEVER).epsilon > 1.0
    assert epsilon_lower_bound(first, second, delta=0.0, failure=NEVER).epsilon > 2.5


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_the_bound_stays_below_the_exact_epsilon_at_delta(delta):
    exact = privacy_loss(DiscreteLaplace(1)).epsilon(delta)
    for seed in range(60):
        found = epsilon_lower_bound(*laplace(1.0, 5000, seed), delta=delta, failure=NEVER).epsilon
        assert found <= exact
    assert epsilon_lower_bound(*laplace(1.0, 100_000, 1), delta=delta).epsilon > 0.75 * exact


def test_views_that_never_overlap_give_a_large_bound():
    first, second = np.zeros(10_000, dtype=np.int64), np.ones(10_000, dtype=np.int64)
    # Clopper-Pearson: 5,000 of 5,000 against 0 of 5,000, each limit at a quarter of the failure.
    limit = 1.0 - (1e-6 / 4) ** (1 / 5000)
    assert epsilon_lower_bound(first, second, delta=0.0).epsilon == pytest.approx(
        math.log((1 - limit) / limit), rel=1e-9
    )


@pytest.mark.parametrize(
    ("first", "second", "arguments", "name"),
    [
        (np.zeros(9, dtype=int), np.zeros(8, dtype=int), {"delta": 0.0}, "trials"),
        (np.zeros(2, dtype=int), np.zeros(2, dtype=int), {"delta": 0.0}, "trials"),
        (np.zeros(9, dtype=int), np.zeros(9, dtype=int), {"delta": 1.0}, "delta"),
        (np.zeros(9, dtype=int), np.zeros(9, dtype=int), {"delta": -0.1}, "delta"),
        (np.zeros(9, dtype=int), np.zeros(9, dtype=int), {"delta": 0.0, "failure": 0}, "failure"),
        (np.zeros(9, dtype=int), np.zeros(9, dtype=int), {"delta": 0.0, "failure": 1}, "failure"),
    ],
)
def test_bad_samples_are_refused_by_name(first, second, arguments, name):
    with pytest.raises(InvalidParameter) as refusal:
        epsilon_lower_bound(first, second, **arguments)
    assert refusal.value.name == name


def brute_force(first, second, delta, failure):
    """The audit once more, event by event: each direction, in choosing as in counting, has half of the failure."""

    def promised(p, q, trials):
        hits, misses = int(p), int(q)
        low = beta.ppf(failure / 4, hits, trials - hits + 1) if hits else 0.0
        high = beta.ppf(1 - failure / 4, misses + 1, trials - misses) if misses < trials else 1.0
        return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0

    values, half = sorted({*first.tolist(), *second.tolist()}), len(first) // 2
    best = 0.0
    for one, other in ((first, second), (second, first)):
        chosen = [[int((half_of == v).sum()) for v in values] for half_of in (one[:half], other[:half])]
        counted = [[int((half_of == v).sum()) for v in values] for half_of in (one[half:], other[half:])]
        ratios = sorted(range(len(values)), key=lambda i: -(chosen[0][i] + 0.5) / (chosen[1][i] + 0.5))
        orders = list(range(len(values))), list(range(len(values)))[::-1], ratios
        events = [order[: i + 1] for order in orders for i in range(len(values))]
        event = max(events, key=lambda event: promised(*(sum(c[i] for i in event) for c in chosen), half))
        best = max(best, promised(*(sum(c[i] for i in event) for c in counted), len(first) - half))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_is_that_of_the_event_that_promises_most(seed):
    first, second = laplace(1.0, 120, seed)
    found = epsilon_lower_bound(first, second, delta=0.01, failure=0.6)
    assert found.epsilon == pytest.approx(brute_force(first, second, 0.01, 0.6), abs=1e-9)
