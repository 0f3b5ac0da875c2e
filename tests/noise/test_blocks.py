"""Wide laws drawn by blocks: the exact law of a try, word by word, and draws at scales that no table holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from cases.noise_checks import ALARM, chi_square, misfits
from cases.noise_laws import BITS, exact_pmf
from cases.noise_words import ONES, Script, Stream
from cases.noises import THIRD
from croupier.noise import (
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    secure,
    seeded,
)
from croupier.noise.blocks import FIRST_WIDE, Blocks, blocks, span, steady_log_gamma
from croupier.noise.inversion import Inverter, inverter
from croupier.noise.ratio import LARGEST_TABLED, RatioNoise
from croupier.noise.window import TooWide

KNOWN: tuple[RatioNoise, ...] = (
    Poisson(300.5),
    Poisson(10_000),
    Binomial(1000, 0.5),
    Binomial(3000, 0.01),
    DiscreteGaussian(10_000),
    Polya(THIRD, scale=60),
    Polya(2.5, scale=40),
    Polya(1, beta=Fraction(99, 100)),
    BoundedLaplace(50, 300),
)
"""Laws that have a table too, so that what blocks give can be compared with it."""

every_known = pytest.mark.parametrize("noise", KNOWN, ids=repr)


def test_blocks_lie_side_by_side_and_sixteen_double_the_distance() -> None:
    starts, doublings = span(np.arange(401))
    assert (np.diff(starts) == 1 << doublings[:-1]).all()
    assert starts[[16, 32, 48, 160]].tolist() == [16, 32, 64, 2**13]
    assert doublings[[16, FIRST_WIDE - 1, FIRST_WIDE, 48, 160]].tolist() == [0, 0, 1, 2, 9]


def first_places(sampler: Blocks) -> list[tuple[int, int]]:
    """The value of each block that is nearest to the mode, and how many values it holds."""
    return [(near, width) for _, near, width in islice(sampler._places(), 1024)]


@every_known
def test_every_value_is_kept_in_proportion_to_its_probability(noise: RatioNoise) -> None:
    """P(block)/width · P(x)/P(nearest) over P(x) is one constant for all x: the law of a try that passes."""
    envelope = Blocks(noise)
    places = first_places(envelope)
    with ctx.workprec(BITS):
        first, share = None, arb(0)
        for block, mass in envelope.cells():
            if mass < arb(2) ** -100:
                continue
            near, width = places[block]
            for step in {0, width // 2, width - 1}:
                x = near - step if block & 1 else near + step
                if not envelope._possible(x):
                    continue
                passes = (noise._log_mass(x, arb.lgamma) - noise._log_mass(near, arb.lgamma)).exp()
                assert passes < 1 + arb(2) ** -100
                ratio = mass / width * passes / exact_pmf(noise, x)
                first = ratio if first is None else first
                assert abs(ratio / first - 1) < arb(2) ** -100
            share += mass
        assert abs(share - 1) < arb(2) ** -80
        assert 0.85 < float(first) <= 1.0  # the share of tries that pass


@every_known
@pytest.mark.parametrize("draws", [2000, pytest.param(5000, marks=pytest.mark.evidence)])
def test_blocks_give_the_law_that_a_table_gives(noise: RatioNoise, draws: int) -> None:
    assert not misfits(noise, blocks(noise).sample(draws, Stream(31)))


@pytest.mark.parametrize("noise", [DiscreteGaussian(10_000)], ids=repr)
def test_a_trial_left_out_is_caught(noise: RatioNoise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the trial the envelope itself is drawn."""
    monkeypatch.setattr(Blocks, "_passes", lambda *_: True)
    draws = blocks(noise).sample(150_000, Stream(32))
    assert misfits(noise, draws)


@every_known
def test_what_is_tried_where_a_value_is_sure_has_the_law_of_the_others(
    noise: RatioNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some values take longer, and those whose logarithm's tables were not read lately do."""
    tried = []
    monkeypatch.setattr(Blocks, "_passes", lambda _, x, near, *__: tried.append((x, near)) or False)
    sampler = Blocks(noise)
    places, coins = Stream(34).words(6000).reshape(2, 3000)
    values, kept = sampler._try(np.zeros(3000, dtype=np.int64), places, coins, Script([]))
    assert (values == noise.mode).all()
    assert kept.all()
    assert all(sampler._possible(x) and abs(near - noise.mode) >= FIRST_WIDE for x, near in tried)
    others, upto = sampler._others
    places = first_places(sampler)
    nearest = [places[block][0] for block in others]
    with ctx.workprec(BITS):
        masses = {block: float(mass) for block, mass in Blocks(noise).cells()}
    wide = sum(masses[block] for block in others)
    counts = Counter(near for _, near in tried)
    for block, near in zip(others, nearest, strict=True):
        share = masses[block] / wide
        # Six standard deviations and three more: false alarms below 1e-8 for each.
        assert abs(counts[near] - 3000 * share) <= 6 * math.sqrt(3000 * share) + 3
    assert upto[-1] == 1.0
    likeliest, width = places[max(others, key=masses.__getitem__)]
    steps = {abs(x - near) for x, near in tried if near == likeliest}
    assert min(steps) < width // 2 <= max(steps) < width


@every_known
def test_a_coin_on_the_boundary_is_decided_by_further_words(noise: RatioNoise) -> None:
    sampler = Blocks(noise)
    others, _ = sampler._others
    (near,), (x,), _ = sampler._values(others[[len(others) // 2]], np.asarray([2**63], dtype=np.uint64))
    near, x = int(near), int(x)
    with ctx.workprec(BITS):
        exact = exact_pmf(noise, x) / exact_pmf(noise, near) * arb(2) ** 128
        whole = int(exact.floor().unique_fmpz())
    word, following = divmod(whole, 2**64)
    assert sampler._passes(x, near, word - 1, Script([]))
    assert not sampler._passes(x, near, word + 1, Script([]))
    for more, passes in ((following - 1, True), (following + 1, False)):
        script = Script([more])
        assert sampler._passes(x, near, word, script) == passes
        assert script.used == 1


@pytest.mark.parametrize("bits", [128, 224, 500, 2000])
def test_steady_log_gamma_encloses_the_logarithm_of_gamma(bits: int) -> None:
    for z in (32, 32.01, 100.5, 5000, 10**6, 10**12 + 0.5, 2**60, 2**95, 2**400):
        with ctx.workprec(4 * bits + 2000):
            truth = arb(z).lgamma()
        with ctx.workprec(bits):
            found = steady_log_gamma(arb(z))
            assert found.contains(truth)
            assert bits != 224 or z > 2**60 or found.rad() < arb(2) ** -72
    assert steady_log_gamma(arb(3)).overlaps(arb(2).log())


@pytest.mark.parametrize(
    "noise", [PolyaDifference(5 * 10**6, 10**12), PolyaDifference(Fraction(1, 10**4), 8 * 10**18)], ids=repr
)
def test_parts_too_large_for_a_word_are_refused_however_small_their_difference(noise: Noise) -> None:
    assert abs(noise.mean) + 8 * noise.std < 2**61 or noise.part.std > 2**54
    for refused in (lambda: noise.sample(1, secure()), lambda: blocks(noise.part)):
        with pytest.raises(TooWide, match=r"too wide"):
            refused()


def test_a_law_whose_wide_blocks_hold_next_to_nothing_is_drawn() -> None:
    assert not Polya(1e-25, scale=10**6).sample(50, secure()).any()


def test_blocks_beyond_a_word_have_weights_and_no_values() -> None:
    """Their place is a whole number of any length, and their values are never possible."""
    sampler = Blocks(DiscreteGaussian(1e30))
    places = list(islice(sampler._places(), 2400))
    assert places[-1][1] < -(2**70)
    _, values, _ = sampler._values(np.arange(1888, 2400), Stream(36).words(512))
    low, high = sampler._ends
    assert ((values < low) | (values > high)).all()


def test_log_gamma_is_a_series_of_so_many_terms_from_the_first_wide_block_on() -> None:
    """However many bits are asked for, there it keeps an error; below, where nothing is tried, it has none."""
    with ctx.workprec(500):
        assert all(steady_log_gamma(arb(z)).rad() > arb(2) ** -160 for z in (FIRST_WIDE, 100, 10**9))
        assert steady_log_gamma(arb(FIRST_WIDE - 1)).rad() < arb(2) ** -400


@pytest.mark.parametrize("noise", [Poisson(4), Poisson(10**6), DiscreteGaussian(10**6), Binomial(10**6, 0.5)], ids=repr)
def test_laws_that_fit_are_drawn_from_their_table(noise: RatioNoise) -> None:
    assert noise.extent(2.0**-64) <= LARGEST_TABLED
    words = Stream(33).words(40)
    assert noise.sample(40, Script(words)).tolist() == Inverter(noise).sample(40, Script(words)).tolist()


WIDE: tuple[tuple[Noise, Callable[[np.ndarray], np.ndarray]], ...] = (
    (Poisson(10**12), stats.poisson(10**12).cdf),
    (Poisson(1e17), stats.norm(1e17, math.sqrt(1e17)).cdf),
    (Skellam(2 * 10**12), stats.norm(0, math.sqrt(2e12)).cdf),
    (DiscreteGaussian(10**12), stats.norm(-0.5, 1e6).cdf),
    (DiscreteGaussian(1e30), stats.norm(0, 1e15).cdf),
    (DiscreteGaussianSum(10**12, 4), stats.norm(-0.5, 2e6).cdf),
    (Binomial(10**13, 0.3), stats.norm(3e12 - 0.5, math.sqrt(2.1e12)).cdf),
    (Polya(0.2, scale=10**6), stats.nbinom(0.2, -math.expm1(-1e-6)).cdf),
    (Polya(40, scale=10**6), stats.nbinom(40, -math.expm1(-1e-6)).cdf),
    (PolyaDifference(1, 10**6), lambda x: np.where(x < 0, 0.5 * np.exp(x / 1e6), 1 - 0.5 * np.exp(-x / 1e6))),
)


@pytest.mark.parametrize(("noise", "cdf"), WIDE, ids=[repr(noise) for noise, _ in WIDE])
@pytest.mark.parametrize("size", [3500, pytest.param(6000, marks=pytest.mark.evidence)])
def test_noise_too_wide_for_a_table_has_its_law(
    noise: Noise, cdf: Callable[[np.ndarray], np.ndarray], size: int
) -> None:
    """Thirty bins of equal share: a false alarm once in 1e14. The closed forms are within 1e-5 of each bin's share."""
    draws = noise.sample(size, Stream(34))
    guide = np.sort(noise.sample(40_000, seeded(35)))
    edges = guide[np.linspace(0, len(guide) - 1, 31).astype(int)[1:-1]].astype(float)
    expected = size * np.diff(np.concatenate(([0.0], cdf(edges), [1.0])))
    seen = np.bincount(np.searchsorted(edges, draws.astype(float), side="left"), minlength=len(edges) + 1)
    assert chi_square(seen, expected) > ALARM
    # Any place in a block of many values is as good as its neighbours, so the last digits are fair.
    for modulus in (2, 3):
        counts = np.bincount(draws % modulus, minlength=modulus)
        if not isinstance(noise, Polya) or noise.r > 1:
            assert chi_square(counts, np.full(modulus, size / modulus)) > ALARM


def test_the_widest_draws_fit_sixty_four_bits() -> None:
    for noise in (Poisson(2.0**60), DiscreteGaussian(1e32), Binomial(2**60, 0.5)):
        draws = noise.sample(3, secure())
        assert (np.abs(draws - noise.mean) < 40 * noise.std).all()
        assert len(set(draws.tolist())) > 1


def test_a_wide_gaussian_knows_its_variance() -> None:
    assert DiscreteGaussian(10**14).variance == 10**14
    draws = DiscreteGaussian(10**14).sample(4000, seeded(36))
    assert abs(draws.var() / 10**14 - 1) < 10 * math.sqrt(2 / 4000)


def test_the_mode_of_a_wide_law_is_exact() -> None:
    for noise in (Polya(1 + Fraction(1, 3), scale=10**15), Polya(5, beta=Fraction(10**9, 10**9 + 1))):
        with ctx.workprec(256):
            top = noise._log_mass(noise.mode, arb.lgamma)
            for step in (-2, -1, 1, 2):
                assert not noise._log_mass(noise.mode + step, arb.lgamma) > top


def test_blocks_are_found_in_the_same_order_at_any_precision() -> None:
    for noise in (Poisson(10**12), Polya(0.5, scale=10**6)):
        orders = []
        for bits in (160, 400):
            with ctx.workprec(bits):
                orders.append([block for block, _ in Blocks(noise).cells()])
        assert orders[0] == orders[1][: len(orders[0])]
        assert len(orders[1]) > len(orders[0])


def test_a_block_drawn_at_the_end_of_all_words_is_refined() -> None:
    noise = Poisson(10**12)
    table = inverter(Blocks(noise))._table()
    assert int(table.upper[-1]) == ONES
    assert len(table.values) < 2000
