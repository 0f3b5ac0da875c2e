"""The audit runs the real path: it passes what is right and catches what is broken."""

from fractions import Fraction

import numpy as np
import pytest

from cases.protocols import make
from croupier.noise import DiscreteGaussian, Noise, Polya, PolyaDifference, Skellam, SparseBits, seeded
from croupier.protocols import Mechanism, audit

TRIALS = 40_000
# Each audit of a right mechanism may raise a false alarm with this probability; all of them stay below 1e-9.
FAILURE = 1e-11
# To catch a mutant a bolder audit will do.
BOLD = 1e-3

RIGHT = [
    ("shuffled-bits", 20),
    ("shuffled-levels", 20),
    ("laplace", 20),
    ("skellam", 20),
    ("discrete-gaussian", 20),
    ("central-laplace", 20),
    ("local-laplace", 3),
    ("shuffled-laplace", 19),
    ("counted-messages", 20),
    ("shuffled-vectors", 19),
    ("shared-vectors", 19),
]


@pytest.mark.parametrize("trials", [TRIALS // 4, pytest.param(TRIALS, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(("name", "users"), RIGHT)
def test_a_right_mechanism_passes(name: str, users: int, trials: int) -> None:
    options = {"dimension": 2} if "vectors" in name else {}
    mechanism = make(name, "tight", epsilon=1.0, **options).plan(users)
    trials = trials // 10 if name in ("shuffled-laplace", "shuffled-vectors") else trials
    found = audit(mechanism, trials, seeded(2), failure=FAILURE)
    assert found.passed
    assert found.lower_bound <= found.exact_epsilon


@pytest.mark.parametrize("name", ["laplace", "local-laplace", "central-laplace"])
def test_it_has_power_where_noise_is_tight(name: str) -> None:
    mechanism = make(name, "tight", epsilon=1.0, binary=True).plan(10)
    found = audit(mechanism, TRIALS, seeded(3), failure=FAILURE)
    assert found.lower_bound > 0.75 * found.exact_epsilon


def with_share(mechanism: Mechanism, share: Noise) -> Mechanism:
    """A mechanism that draws another noise than it claims."""
    mutant = Mechanism.from_json(mechanism.to_json())
    object.__setattr__(mutant, "share", share)
    return mutant


def quarter(noise: Noise) -> Noise:
    """The same family with a quarter of the variance."""
    if isinstance(noise, SparseBits):
        return SparseBits(noise.slots, Fraction(noise.rate) / 4)
    if isinstance(noise, PolyaDifference):
        return PolyaDifference(noise.r, noise.scale / 2)
    if isinstance(noise, Skellam | DiscreteGaussian):
        return type(noise)(Fraction(noise.sigma2) / 4)
    return noise.share(4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trials"),
    [
        ("shuffled-bits", 10 * TRIALS),
        ("laplace", TRIALS // 4),
        ("skellam", 10 * TRIALS),
        ("discrete-gaussian", 10 * TRIALS),
        ("counted-messages", 5 * TRIALS),
    ],
)
def test_a_quarter_of_the_variance_is_caught(name: str, trials: int) -> None:
    mechanism = make(name, "tight", epsilon=1.0).plan(20)
    found = audit(with_share(mechanism, quarter(mechanism.share)), trials, seeded(4), failure=BOLD)
    assert not found.passed, f"claimed {found.claimed_epsilon}, seen only {found.lower_bound}"


@pytest.mark.parametrize("name", ["laplace", "shuffled-laplace"])
def test_the_inverted_polya_parameter_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def inverted(self: Polya, count: int, generator: np.random.Generator) -> np.ndarray:
        return generator.poisson(generator.gamma(float(self.r), 1.0 / self.odds, count))

    mechanism = make(name, "tight", epsilon=1.0).plan(50)
    monkeypatch.setattr(Polya, "_simulate", inverted)
    trials = 5_000 if name == "shuffled-laplace" else TRIALS
    assert not audit(mechanism, trials, seeded(5), failure=BOLD).passed


@pytest.mark.parametrize("name", ["shuffled-bits", "laplace", "skellam", "discrete-gaussian", "counted-messages"])
def test_one_draw_shared_by_all_users_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = make(name, "tight", epsilon=1.0).plan(50)
    sample, drawn = Noise.sample, SparseBits._zeros_and_ones
    if isinstance(mechanism.share, SparseBits):
        monkeypatch.setattr(
            SparseBits, "_zeros_and_ones", lambda self, count, source: _repeat(drawn(self, count // 50, source))
        )
    else:
        monkeypatch.setattr(Noise, "sample", lambda self, size, source: _one_for_all(sample, self, size, source))
    assert not audit(mechanism, TRIALS, seeded(6), failure=BOLD).passed


def _repeat(tallies: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    zeros, ones = tallies
    return np.repeat(zeros, 50), np.repeat(ones, 50)


def _one_for_all(sample, noise, size, source) -> np.ndarray:  # type: ignore[no-untyped-def]
    batches = size // 50 if isinstance(size, int) else size[0]
    return np.repeat(sample(noise, (batches, 1), source), 50, axis=1).reshape(size)


def test_a_mechanism_without_noise_is_caught() -> None:
    mechanism = make("laplace", "tight", epsilon=1.0).plan(20)
    assert not audit(with_share(mechanism, PolyaDifference(Fraction(1, 10**9), 1)), 2_000, seeded(7)).passed
