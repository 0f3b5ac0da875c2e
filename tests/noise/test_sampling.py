"""Samples follow the exact law, on the exact path and on the seeded one, and broken samplers are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from cases.noise_checks import misfits, share_misfits
from cases.noise_words import Stream
from cases.noises import MEMBERS
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    Source,
    SparseBits,
    secure,
    seeded,
)

DRAWS = 30_000

every_member = pytest.mark.parametrize("noise", MEMBERS, ids=repr)
both_paths = pytest.mark.parametrize("make", [Stream, seeded], ids=["exact", "seeded"])

SPLITS: tuple[tuple[Noise, int], ...] = (
    (Binomial(60, 0.5), 20),
    (SparseBits(80, 0.5), 16),
    (DiscreteLaplace(4), 20),
    (Polya(3, beta=0.75), 20),
    (PolyaDifference(5, 2), 10),
    (Poisson(9), 20),
    (Skellam(30), 20),
    (DiscreteGaussian(25), 5),
)
every_split = pytest.mark.parametrize(("total", "users"), SPLITS, ids=[f"{t!r}/{n}" for t, n in SPLITS])


@every_member
@both_paths
def test_samples_follow_the_law(noise: Noise, make: Callable[[int], Source]) -> None:
    assert not misfits(noise, noise.sample(DRAWS, make(11)))


@every_member
@pytest.mark.parametrize("count", [200, pytest.param(400, marks=pytest.mark.evidence)])
def test_single_draws_follow_the_law(noise: Noise, count: int) -> None:
    source = Stream(12)
    draws = np.concatenate([noise.sample(1, source) for _ in range(count)])
    assert not misfits(noise, draws)


@every_split
@both_paths
def test_sums_of_sampled_shares_follow_the_law_of_the_total(
    total: Noise, users: int, make: Callable[[int], Source]
) -> None:
    # Five discrete Gaussians of variance 5 are within 1e-20 of one of variance 25.
    assert not share_misfits(total, users, make(13))


@every_member
def test_a_seed_repeats_its_samples(noise: Noise) -> None:
    assert np.array_equal(noise.sample(50, seeded(3)), noise.sample(50, seeded(3)))
    if noise.variance > 1:
        assert not np.array_equal(noise.sample(50, seeded(3)), noise.sample(50, seeded(4)))


def test_secure_samples_are_spread_as_the_law_says() -> None:
    # An unseeded sample of 10,000 with bounds at ten standard errors: a false alarm once in 1e22.
    noise = Skellam(100)
    draws = noise.sample(10_000, secure())
    assert abs(draws.mean()) < 10 * noise.std / 100
    assert abs(draws.var() / 100 - 1) < 10 * math.sqrt(2.01 / 10_000)


def inverted_polya(self: Polya, count: int, generator: np.random.Generator) -> np.ndarray:
    """The mistake of two published code bases: the Gamma mixture with scale (1-β)/β."""
    return generator.poisson(generator.gamma(float(self.r), 1.0 / self.odds, count))


@pytest.mark.parametrize("noise", [Polya(0.5, beta=0.75), Polya(3, beta=0.25), Polya(Fraction(1, 20), scale=4)])
def test_an_inverted_polya_sampler_is_caught(noise: Polya, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not misfits(noise, noise.sample(DRAWS, seeded(21)))
    monkeypatch.setattr(Polya, "_simulate", inverted_polya)
    assert misfits(noise, noise.sample(DRAWS, seeded(21)))


@pytest.mark.parametrize("total", [DiscreteLaplace(4), Polya(3, beta=0.75), PolyaDifference(5, 2)], ids=repr)
def test_an_inverted_polya_sampler_is_caught_in_sums_of_shares(total: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not share_misfits(total, 10, seeded(22))
    monkeypatch.setattr(Polya, "_simulate", inverted_polya)
    assert share_misfits(total, 10, seeded(22))


def test_an_inverted_polya_sampler_is_caught_at_a_thousand_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """At ε = 1 and 32 levels the sum's noise has standard deviation 1.41; the mistake leaves 0.008 of it."""
    total = DiscreteLaplace(32)

    def spread() -> float:
        return float(total.share(1000).sample((400, 1000), seeded(23)).sum(axis=1).std()) / 32

    assert spread() == pytest.approx(1.41, rel=0.3)
    monkeypatch.setattr(Polya, "_simulate", inverted_polya)
    assert spread() == pytest.approx(0.008, rel=0.3)


def quarter(noise: Noise) -> Noise:
    """A noise of the same family with about a quarter of the variance."""
    narrower: dict[type, Callable[[], Noise]] = {
        Binomial: lambda: Binomial(noise.trials // 4, noise.p),
        SparseBits: lambda: SparseBits(noise.slots // 4, noise.rate),
        DiscreteLaplace: lambda: DiscreteLaplace(Fraction(noise.scale) / 2),
        Polya: lambda: Polya(Fraction(noise.r) / 4, noise.beta, noise.scale),
        PolyaDifference: lambda: PolyaDifference(Fraction(noise.r) / 4, noise.scale),
        Poisson: lambda: Poisson(Fraction(noise.rate) / 4),
        Skellam: lambda: Skellam(Fraction(noise.sigma2) / 4),
        DiscreteGaussian: lambda: DiscreteGaussian(Fraction(noise.sigma2) / 4),
    }
    return narrower[type(noise)]()


@every_split
@both_paths
def test_a_quarter_of_the_variance_is_caught(
    total: Noise, users: int, make: Callable[[int], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_draw, plain_simulate = type(total)._draw, type(total)._simulate
    narrow = quarter(total)
    assert narrow.variance == pytest.approx(total.variance / 4, rel=0.1)
    assert not misfits(total, total.sample(DRAWS, make(24)))
    monkeypatch.setattr(type(total), "_draw", lambda self, count, source: plain_draw(narrow, count, source))
    monkeypatch.setattr(type(total), "_simulate", lambda self, count, source: plain_simulate(narrow, count, source))
    assert misfits(total, total.sample(DRAWS, make(24)))


@every_split
@both_paths
def test_one_draw_shared_by_all_users_is_caught(
    total: Noise, users: int, make: Callable[[int], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Noise.sample

    def shared(self: Noise, size: int | tuple[int, int], source: Source) -> np.ndarray:
        """Each user's share alone has the right law; only together are they wrong."""
        if isinstance(size, int):
            return plain(self, size, source)
        return np.repeat(plain(self, (size[0], 1), source), size[1], axis=1)

    monkeypatch.setattr(Noise, "sample", shared)
    assert share_misfits(total, users, make(25))


def test_one_draw_repeated_is_caught() -> None:
    noise = Skellam(30)
    assert misfits(noise, np.repeat(noise.sample(1, Stream(26)), DRAWS))
