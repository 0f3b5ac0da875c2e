"""The δ of the stable choice is at most what is said, which one user alone reaches; the stable histogram's is that."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from croupier.noise import DiscreteLaplace
from croupier.privacy import privacy_loss, told_loss
from croupier.protocols import Numbers, histogram, selection
from croupier.protocols.histograms.central import ThresholdStable
from croupier.protocols.histograms.choice import StableChoice


def winner_law(ballot: StableChoice, counts: tuple[int, ...]) -> np.ndarray:
    """The law of the winner by definition: over all orders of the items held and the blank, which reads as item 0."""
    entries = [(item, count) for item, count in enumerate(counts) if count] + [(0, ballot.threshold)]
    top = max(count for _, count in entries)
    law = np.zeros(len(counts))
    orders = list(itertools.permutations(entries))
    for order in orders:
        left = 1.0 / len(orders)
        for item, count in order:
            accepted = math.exp((count - top) / float(ballot.scale))
            law[item] += left * accepted
            left *= 1.0 - accepted
    return law


def neighbours(users: int, size: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every pair of batches in which one user holds something else."""
    batches = [c for c in itertools.product(range(users + 1), repeat=size) if sum(c) == users]
    return [
        (counts, tuple(c - (i == out) + (i == into) for i, c in enumerate(counts)))
        for counts in batches
        for out, into in itertools.permutations(range(size), 2)
        if counts[out]
    ]


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(1, 2), Fraction(7)])
@pytest.mark.parametrize("threshold", [2, 3, 6])
def test_the_stable_choice_has_at_most_its_delta_and_one_user_alone_reaches_it(scale: Fraction, threshold: int) -> None:
    epsilon, worst = 2 / float(scale), []
    for users in (1, 2, 3, 4):
        ballot = StableChoice(3, users, scale, threshold)
        laws = {counts: winner_law(ballot, counts) for pair in neighbours(users, 3) for counts in pair}
        worst.append(
            max(
                float(np.maximum(laws[one] - math.exp(epsilon) * laws[other], 0.0).sum())
                for one, other in neighbours(users, 3)
            )
        )
        assert worst[-1] <= ballot.loss.delta(epsilon) * (1 + 1e-9)
    assert max(worst[1:]) < worst[0], "several users stay below it"
    assert worst[0] == pytest.approx(ballot.loss.delta(epsilon), rel=1e-9), "one user alone reaches it"


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.05])
def test_the_blank_has_the_least_count_that_is_private(epsilon: float, delta: float) -> None:
    choice = selection(epsilon=epsilon, delta=delta, size=9, model="central").plan(50).oracle
    assert isinstance(choice, StableChoice)
    assert choice.loss.delta(epsilon) <= delta
    if choice.threshold > 2:
        fewer = StableChoice(9, 50, choice.scale, choice.threshold - 1)
        assert fewer.loss.delta(epsilon) > delta


def shown_law(oracle: ThresholdStable, count: int, reach: int) -> np.ndarray:
    """The law of what is shown of one count: 0, or a number from the threshold on."""
    law = np.zeros(reach)
    if not count:
        law[0] = 1.0
        return law
    values = np.arange(oracle.threshold, reach)
    law[oracle.threshold :] = stats.dlaplace(1 / float(oracle.noise.scale)).pmf(values - count)
    law[0] = 1.0 - law.sum()
    return law


@pytest.mark.parametrize(("scale", "threshold"), [(2, 4), (4, 7), (Fraction(5, 2), 9)])
def test_the_published_stable_histogram_has_exactly_its_delta(scale: Fraction, threshold: int) -> None:
    oracle, epsilon = ThresholdStable(2, 3, DiscreteLaplace(scale), threshold), 2 / float(scale)
    worst = 0.0
    for (a, b), (c, d) in neighbours(3, 2):
        before, after = (np.outer(shown_law(oracle, x, 120), shown_law(oracle, y, 120)) for x, y in ((a, b), (c, d)))
        worst = max(worst, float(np.maximum(before - math.exp(epsilon) * after, 0.0).sum()))
    assert worst == pytest.approx(oracle.loss.delta(epsilon), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.2, 0.79, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_published_central_histograms_are_planned_wherever_they_are_private(epsilon: float, delta: float) -> None:
    mechanism = histogram(
        epsilon=epsilon, delta=delta, universe=Numbers(20), model="central", constants="published"
    ).plan(200)
    assert mechanism.certificate().holds
    # As published, the threshold is higher than it need be: about a quarter of δ is spent.
    assert 0.15 * delta < mechanism.certificate().delta < 0.3 * delta


def test_a_rare_event_counts_once_and_a_distance_more() -> None:
    noise = privacy_loss(DiscreteLaplace(2))
    for epsilon in (0.5, 1.0, 3.0):
        assert told_loss(noise, 1e-7).delta(epsilon) == pytest.approx(1e-7, rel=1e-9)
    below = told_loss(noise, 1e-7).delta(0.2) - noise.delta(0.2)
    assert below == pytest.approx(1e-7 * (1 - noise.delta(0.2)), rel=1e-3)
    assert told_loss(noise, 1e-7).pure == math.inf
    assert told_loss(noise, 0) == noise
    twice = 2 * told_loss(noise, 1e-7)
    assert 2e-7 * (1 - 1e-6) <= twice.delta(1.1) <= 2e-7 * (1 + 1e-3)
    with pytest.raises(ValueError, match="one tabulated release"):
        told_loss(2 * noise, 1e-7)
