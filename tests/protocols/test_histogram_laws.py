"""The laws behind the histograms, each by an independent road: direct sums, enumeration, scripted coins."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cases.histograms import make, some_items
from croupier.noise import Binomial, BoundedLaplace, DiscreteLaplace, Poisson, Polya, secure, seeded
from croupier.noise.base import to_arb
from croupier.noise.chances import chance
from croupier.noise.precision import precise
from croupier.noise.source import SeededSource
from croupier.protocols.histograms.central import BoundedStable, ThresholdStable
from croupier.protocols.histograms.coins import Coins, shortfall
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.histograms.local import FIELDS, ProjectiveResponse, best_responses
from croupier.protocols.histograms.projective import Space


def divergence(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Σ max(0, P - e^ε Q), the definition."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The probability of a worse fit, over cells of at least ten."""
    large = expected >= 10
    cells = np.append(observed[large], observed[~large].sum()), np.append(expected[large], expected[~large].sum())
    keep = cells[1] > 0
    statistic = float(((cells[0] - cells[1])[keep] ** 2 / cells[1][keep]).sum())
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("name", ["over", "under", "over, few messages", "over, published", "coins"])
def test_the_loss_of_a_move_is_the_direct_sum_over_two_buckets(name: str, epsilon: float) -> None:
    epsilon = min(epsilon, 0.99)
    tally = make(name, users=1000, size=5, epsilon=epsilon, delta=1e-3).oracle
    noise = tally.noise
    x = np.arange(int(noise.mean + 40 * noise.std) + 5)
    if isinstance(noise, Poisson):
        law = stats.poisson(float(noise.rate)).pmf(x)
    elif isinstance(noise, Polya):
        law = stats.nbinom(float(noise.r), 1.0 - noise._beta(float)).pmf(x)
    else:
        law = stats.binom(noise.trials, float(noise.p)).pmf(x)
    still, moved = np.append(law, 0.0), np.append(0.0, law)
    # The user leaves the first bucket for the second.
    before, after = np.outer(moved, still), np.outer(still, moved)
    direct = max(divergence(before, after, epsilon), divergence(after, before, epsilon))
    proven = tally.loss.delta(epsilon)
    assert direct <= proven * (1 + 1e-9) + 1e-13
    assert proven <= 1.02 * direct + 1e-9, "exact, not merely safe"


def test_half_the_noise_is_not_private_by_the_same_sum() -> None:
    tally = make("over", users=1000, size=5, epsilon=1.0, delta=1e-3).oracle
    broken = LabelledMessages(5, 1000, 1000, tally.share.share(2))
    assert broken.loss.delta(1.0) > 10 * tally.loss.delta(1.0)


@pytest.mark.parametrize("share", [Poisson(Fraction(3, 2)), Polya(Fraction(2, 3), beta=0.6), Polya(3.7, scale=1)])
@pytest.mark.parametrize("source", [seeded(8), secure()], ids=["seeded", "secure"])
def test_one_draw_spread_over_the_buckets_has_the_law_of_independent_draws(share, source) -> None:  # type: ignore[no-untyped-def]
    tally, users = LabelledMessages(3, 10, 10, share), 60_000
    labels, lengths = tally._noise(users, source)
    tallies = np.bincount(np.repeat(np.arange(users), lengths) * 3 + labels, minlength=3 * users).reshape(users, 3)
    most = 12
    pmf = share.pmf(np.arange(most))
    pmf = np.append(pmf, 1.0 - pmf.sum())
    clipped = np.minimum(tallies, most)
    expected = users * np.multiply.outer(np.multiply.outer(pmf, pmf), pmf)
    seen = np.bincount(clipped @ np.array([(most + 1) ** 2, most + 1, 1]), minlength=(most + 1) ** 3)
    # Six tests at 1e-11 each.
    assert chi_square(seen, expected.ravel()) > 1e-11


def test_the_inverted_negative_binomial_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def inverted(self: Polya, count: int, generator: np.random.Generator) -> np.ndarray:
        return generator.poisson(generator.gamma(float(self.r), 1.0 / self.odds, count))

    share = Polya(Fraction(2, 3), beta=0.9)
    monkeypatch.setattr(Polya, "_simulate", inverted)
    _, lengths = LabelledMessages(3, 10, 10, share)._noise(20_000, seeded(1))
    assert abs(lengths.mean() / (3 * share.mean) - 1.0) > 0.5


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.fractions(min_value=0, max_value=1))
def test_a_coin_has_exactly_its_rational_probability(probability: Fraction) -> None:
    class Scripted:
        """Words that fall on the threshold itself: the rest of the fraction must decide."""

        def __init__(self, words: list[int]) -> None:
            self.left = words

        def words(self, count: int) -> np.ndarray:
            return np.asarray([self.left.pop(0) for _ in range(count)], dtype=np.uint64)

    if 256 % probability.denominator == 0:
        assert chance(probability, 256, seeded(3)).mean() == pytest.approx(float(probability), abs=0.25)
        return
    # Read the binary digits of the probability, 64 at a time: a number just below is a head, the next one a tail.
    digits = (probability.numerator << 128) // probability.denominator
    first, second = digits >> 64, digits % 2**64
    for offset, head in ((-1, True), (1, False)):
        if 0 <= second + offset < 2**64:
            assert chance(probability, 1, Scripted([first, second + offset]))[0] == head
    assert not chance(probability, 1, Scripted([first + 1]))[0]


def inner(space: Space, size: int) -> np.ndarray:
    """Whether each point lies on each of the first hyperplanes, by definition."""
    every = space.vectors(np.arange(space.size))
    return (every.T @ every[:, :size]) % space.field == 0


@pytest.mark.parametrize(("field", "size"), [(2, 2), (2, 7), (2, 60), (3, 4), (3, 40), (5, 31), (7, 8), (7, 57)])
def test_any_two_hyperplanes_of_a_space_meet_in_equally_many_points(field: int, size: int) -> None:
    space = Space.holding(size, field)
    vectors = space.vectors(np.arange(space.size))
    assert len(np.unique(vectors, axis=1).T) == space.size >= size
    for scalar in range(1, field):
        assert np.array_equal(space.labels(vectors * scalar % field), np.arange(space.size)), "a point is a line"
    on = inner(space, space.size).astype(int)
    meets = on.T @ on
    assert np.all(np.diag(meets) == space.hyperplane)
    assert np.all(meets[~np.eye(space.size, dtype=bool)] == space.common)
    if space.dimension > 2:
        three = {int((on[:, 0] * on[:, 1] * on[:, k]).sum()) for k in range(2, space.size)}
        assert min(three) == space.common_to_three


@pytest.mark.parametrize(("field", "size"), [(2, 2), (2, 60), (3, 40), (5, 31), (7, 57)])
def test_one_transform_counts_the_points_on_every_hyperplane(field: int, size: int) -> None:
    space = Space.holding(size, field)
    counts = np.random.default_rng(1).multinomial(5000, np.full(space.size, 1 / space.size))
    assert np.array_equal(space.on_hyperplanes(counts, size), counts @ inner(space, size))


@pytest.mark.parametrize(("epsilon", "size"), [(0.3, 5), (1.0, 3), (1.0, 30), (2.0, 50), (4.0, 9)])
def test_a_local_response_has_its_law_and_its_likelihoods_differ_by_at_most_epsilon(epsilon: float, size: int) -> None:
    tally = make("local", users=100, size=size, epsilon=epsilon).oracle
    on = inner(tally.space, size)
    inside, outside = tally._likelihoods
    with precise(200):
        assert to_arb(inside / outside).log() <= to_arb(epsilon), "certified: the whole ball lies below"
    assert math.log(inside / outside) > 0.9999999 * epsilon, "all of ε is used"
    assert inside * on[:, 0].sum() + outside * (~on[:, 0]).sum() == 1
    trials = 40_000
    for item in (0, size - 1):
        seen = tally.report(np.full(trials, item), secure(), np.zeros(trials)).labels
        expected = trials * np.where(on[:, item], float(inside), float(outside))
        # Ten tests at 1e-11 each.
        assert chi_square(np.bincount(seen, minlength=tally.labels), expected) > 1e-11


def test_the_best_field_is_near_the_least_variance_that_any_local_report_can_have() -> None:
    for epsilon in (0.2, 1.0, 2.0, 4.0):
        field, keep = best_responses(epsilon, 10_000)[0]
        assert field in FIELDS
        # The variance of an empty item's count, per user, cannot be below 4e^ε/(e^ε - 1)² for large universes.
        floor = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
        assert ProjectiveResponse(10_000, 1, field, keep).std ** 2 < 1.03 * floor


class Constant(SeededSource):
    """The same word for ever: all heads, or all tails."""

    def __init__(self, word: int) -> None:
        super().__init__(0)
        self.word = word

    def words(self, count: int) -> np.ndarray:
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize(("word", "heads"), [(0, 1), (2**64 - 1, 0)])
@pytest.mark.parametrize(("users", "size", "coins"), [(10, 3, 10), (17, 5, 7), (40, 2, 13)])
def test_every_bucket_gets_exactly_its_coins_each_from_another_user(
    word: int, heads: int, users: int, size: int, coins: int
) -> None:
    tally = Coins(size, users, users, coins, coins)
    items = some_items(users, size)
    truth = np.bincount(items, minlength=size)
    reports = tally.report(items, Constant(word), np.arange(users))
    assert np.array_equal(np.bincount(reports.labels, minlength=size), truth + heads * coins)
    assert np.array_equal(tally.gather(items, Constant(word)), truth + heads * coins)
    for item, report in zip(items, reports, strict=True):
        own = np.bincount(report, minlength=size)
        own[item] -= 1
        assert own.max() <= 1, "no user tosses two coins of one bucket"


@pytest.mark.parametrize(("coins", "sure", "honest", "users"), [(30, 20, 40, 50), (200, 100, 600, 1000), (9, 2, 5, 10)])
def test_the_shortfall_of_honest_coins_is_bounded_from_above(coins: int, sure: int, honest: int, users: int) -> None:
    exact = stats.hypergeom(users, honest, coins).cdf(sure - 1)
    assert exact <= shortfall(coins, sure, honest, users)
    assert shortfall(coins, coins, users, users) == 0
    assert shortfall(coins, coins, honest, users) == 1, "no promise that all are honest"


def released(tally, count: int) -> dict[int, float]:  # type: ignore[no-untyped-def]
    """The law of one released count of a stable histogram, from its definition."""
    if count == 0:
        return {0: 1.0}
    reach = tally.noise.bound if isinstance(tally.noise, BoundedLaplace) else 150
    law: dict[int, float] = {}
    scale = float(tally.noise.scale)
    weights = {x: math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)}
    for x, weight in weights.items():
        shown = count + x if count + x >= tally.threshold else 0
        law[shown] = law.get(shown, 0.0) + weight / sum(weights.values())
    return law


@pytest.mark.parametrize(
    "tally",
    [
        BoundedStable(5, 100, BoundedLaplace(2, 9)),
        BoundedStable(5, 100, BoundedLaplace(Fraction(7, 2), 12)),
        ThresholdStable(5, 100, DiscreteLaplace(2), 9),
        ThresholdStable(5, 100, DiscreteLaplace(4), 14),
    ],
)
@pytest.mark.parametrize("factor", [0.3, 1.0, 1.2])
def test_stable_counts_are_private_when_a_count_appears_or_vanishes(tally, factor: float) -> None:  # type: ignore[no-untyped-def]
    epsilon = factor * 2 / float(tally.noise.scale) * (1 + 1e-9)
    proven, worst = tally.loss.delta(epsilon), 0.0
    # One user moves: some count rises by one and another falls by one.
    for rising, falling in itertools.product((0, 1, 2, 8, 9, 10, 25), (1, 2, 9, 10, 11, 25)):
        laws = [
            (released(tally, rising), released(tally, falling)),
            (released(tally, rising + 1), released(tally, falling - 1)),
        ]
        keys = [sorted(set(laws[0][i]) | set(laws[1][i])) for i in (0, 1)]
        p, q = (np.outer(*([law[i].get(k, 0.0) for k in keys[i]] for i in (0, 1))) for law in laws)
        worst = max(worst, divergence(p, q, epsilon), divergence(q, p, epsilon))
    assert worst <= proven * (1 + 1e-9) + 1e-13
    if isinstance(tally, BoundedStable):
        assert proven <= 1.001 * worst + 1e-9, "exact, not merely safe"


def test_a_threshold_that_an_empty_count_could_pass_would_be_caught() -> None:
    tally = BoundedStable(5, 100, BoundedLaplace(2, 9))

    class Bolder(BoundedStable):
        threshold = 4

    bolder = Bolder(5, 100, tally.noise)
    epsilon = 1 + 1e-9
    empty, single = released(bolder, 0), released(bolder, 1)
    shown = sum(weight for key, weight in single.items() if key not in empty)
    assert shown > 10 * tally.loss.delta(epsilon)


def loses(tally, best: int, worse: int) -> float:  # type: ignore[no-untyped-def]
    """The chance that an item of the second count is chosen before one of the first, where ties go to it."""
    first, second = released(tally, best), released(tally, worse)
    return sum(p * q for x, p in first.items() for y, q in second.items() if x <= y)


@pytest.mark.parametrize(
    "tally",
    [
        BoundedStable(2, 60, BoundedLaplace(2, 9)),
        BoundedStable(2, 30, BoundedLaplace(Fraction(7, 2), 12)),
        ThresholdStable(2, 60, DiscreteLaplace(2), 9),
    ],
)
@pytest.mark.parametrize("failure", [0.3, 1e-2, 1e-6])
def test_a_winner_of_stable_counts_is_no_further_behind_than_is_said(tally, failure: float) -> None:  # type: ignore[no-untyped-def]
    error = tally.winner_error(failure)
    assert error <= tally.users
    for worse in range((tally.users - int(error)) // 2):
        assert loses(tally, worse + int(error) + 1, worse) <= failure


@pytest.mark.parametrize("noise", [BoundedLaplace(2, 9), BoundedLaplace(1, 3)])
def test_a_winner_under_bounded_noise_is_as_far_behind_as_is_said_for_certain(noise: BoundedLaplace) -> None:
    tally = BoundedStable(2, 60, noise)
    error = int(tally.winner_error(0.0))
    assert loses(tally, error, 0) > 0.0
    assert loses(tally, error + 1, 0) == 0.0


@pytest.mark.parametrize("noise", [BoundedLaplace(2, 9), BoundedLaplace(0.5, 3)])
def test_bounded_noise_has_its_law(noise: BoundedLaplace) -> None:
    x = np.arange(-noise.bound, noise.bound + 1)
    weights = np.exp(-np.abs(x) / float(noise.scale))
    assert noise.pmf(x) == pytest.approx(weights / weights.sum(), rel=1e-12)
    assert noise.pmf(noise.bound + 1) == 0
    assert noise.variance == pytest.approx(float(np.dot(weights / weights.sum(), x * x)))
    for source in (secure(), seeded(4)):
        seen = noise.sample(50_000, source)
        expected = 50_000 * weights / weights.sum()
        # Four tests at 1e-11 each.
        assert chi_square(np.bincount(seen + noise.bound, minlength=len(x)), expected) > 1e-11


def test_the_binomial_of_the_coins_is_the_noise_of_the_law() -> None:
    tally = make("coins", users=1000, size=3).oracle
    assert tally.noise == Binomial(tally.coins, Fraction(3, 4))
    view = tally.law(np.array([1000, 0, 0]), seeded(1))
    assert np.all(view >= [1000, 0, 0])
