"""The noise that references draw by themselves: as much as their ε asks for, and as much as their bounds believe."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom, laplace

from croupier.comparisons.tails import TILTS
from croupier.noise import seeded
from croupier.simulation.baselines import DPSE
from croupier.simulation.linear_players import MODELS, Needs
from croupier.simulation.linear_sums import LocalSums
from croupier.simulation.linear_worlds import Sphere

ARMS = 4
EPSILON, DELTA = 1.5, 1e-5
NEEDS = Needs(Sphere(3, 5, seed=1), 2_000, EPSILON, DELTA, "tight", 0.1, 1.0, None, 32, "devices")


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_dp_se_adds_laplace_noise_of_scale_one_over_epsilon_to_released_sums_alone(epsilon: float) -> None:
    """Noise of half the scale is further off by 0.125; here 0.023 is a false alarm with a probability of 1e-9."""
    runs = 5_000
    chosen = DPSE(ARMS, 10**6, epsilon, runs=runs)
    sums = np.full((runs, ARMS), 7.0)
    everything = np.ones((runs, ARMS), dtype=bool)
    noise = np.sort((chosen.disturb(sums, everything, seeded(1).generator) - sums).ravel())
    # Dvoretzky, Kiefer and Wolfowitz.
    steps = np.arange(noise.size + 1) / noise.size
    cdf = laplace(scale=1.0 / epsilon).cdf(noise)
    furthest = max((cdf - steps[:-1]).max(), (steps[1:] - cdf).max())
    assert furthest < math.sqrt(math.log(2.0 / 1e-9) / (2.0 * noise.size))
    assert np.array_equal(chosen.disturb(sums, ~everything, seeded(1).generator), sums)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_what_dp_se_knows_of_its_noise_is_that_noises_cumulant(epsilon: float) -> None:
    known = DPSE(ARMS, 10**6, epsilon).batch_noise(100)
    finite = epsilon > TILTS
    for tilt, low, high in zip(
        TILTS[finite][::15], known.low_side[finite][::15], known.high_side[finite][::15], strict=True
    ):
        falls, rises = (quad(density, 0, math.inf, (epsilon, side * tilt))[0] for side in (-1, 1))
        assert low == high == pytest.approx(math.log(falls + rises), rel=1e-6, abs=1e-9)
    assert np.isinf(known.low_side[~finite]).all()


def density(x: float, epsilon: float, tilt: float) -> float:
    """Of one side of Laplace noise, tilted."""
    return 0.5 * epsilon * math.exp((tilt - epsilon) * x)


def test_growing_batches_in_trusted_hands_have_the_least_gaussian_noise_for_the_budget() -> None:
    """Every draw is replaced by its deviation; δ is that of a Gaussian in closed form."""
    deviations = SimpleNamespace(normal=lambda mean, deviation, shape: np.full(shape, mean + deviation))
    player = MODELS["central"](NEEDS, SimpleNamespace(generator=deviations))
    nothing = np.zeros(player.moments.dimension)
    player.finish(nothing)
    (std,) = set(player._findings.total.tolist())
    # Two users differ by the diameter at most.
    scale = std / player.moments.diameter
    delta = ndtr(0.5 / scale - EPSILON * scale) - math.exp(EPSILON) * ndtr(-0.5 / scale - EPSILON * scale)
    assert delta == pytest.approx(DELTA, rel=1e-6)
    player.finish(nothing)
    noise = player._findings.noise
    assert noise.variance == pytest.approx(2.0 * std**2)
    # log E e^{lcX} of a Gaussian of variance 2·std², with l = 0.3 and c² = 0.7.
    assert noise.cumulant(np.asarray([0.3]), 1.0, 0.7) == pytest.approx(0.3**2 * 0.7 * std**2)


def test_growing_batches_of_a_simulation_have_the_noise_of_their_mechanism() -> None:
    """1,800 draws: their variance is off by a quarter with a probability below 1e-9."""
    released, variances = [], set()
    for seed in range(200):
        player = MODELS["growing"](NEEDS, seeded(seed))
        variances.add(player.server.open[0].mechanism.variance)
        player.finish(np.zeros(player.moments.dimension))
        released.append(player.server.findings.total)
    assert np.size(released) >= 1_800
    assert np.var(released) == pytest.approx(*variances, rel=0.25)


def test_local_sums_stay_within_the_deviation_that_they_state() -> None:
    """A share of 0.05 may leave it; so many of 1,000 that a false alarm has a probability of 1e-9 mean that more do."""
    failure, runs = 0.05, 1_000
    allowed = LocalSums(12, 4, 1, 3.0, seeded(0)).deviation(failure)
    furthest = []
    for seed in range(runs):
        sums = LocalSums(12, 4, 1, 3.0, seeded(seed))
        furthest.append(max(abs(float(sums.extend(np.zeros((4, 1)))[0])) for _ in range(3)))
    most = binom.isf(1e-9, runs, failure)
    assert np.sum(np.asarray(furthest) > allowed) <= most
    assert np.sum(np.asarray(furthest) > 0.5 * allowed) > most, "half of it would not do"
