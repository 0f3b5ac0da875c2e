"""[TKMS21]'s regret bounds: the constants of its proofs, and measured regret below them."""

import math
from typing import Any

import numpy as np
import pytest

from croupier.bandits import (
    SubGaussianRadius,
    policy,
    sdp_ae_batch,
    sdp_ae_minimax,
    sdp_ae_regret,
    shuffled_bits_sigma,
    vb_sdp_ae_minimax,
    vb_sdp_ae_regret,
)
from croupier.checks import InvalidParameter
from croupier.simulation import Bernoulli, simulate

GAPS = [0.05 * arm for arm in range(10)]
BOUNDS = {"sdp-ae": (sdp_ae_regret, sdp_ae_minimax), "vb-sdp-ae": (vb_sdp_ae_regret, vb_sdp_ae_minimax)}


def published(name: str, epsilon: float, horizon: int, runs: int = 1) -> Any:
    options: dict[str, Any] = {"constants": "published", "binary": True, "delta": 1e-6}
    return policy(name, arms=10, horizon=horizon, epsilon=epsilon, runs=runs, **options)


def regret(name: str, epsilon: float, horizon: int, runs: int = 20) -> float:
    """Mean regret with the arms in another order in every run."""
    means = np.random.default_rng(3).permuted(np.tile(0.75 - np.asarray(GAPS), (runs, 1)), axis=1)
    played = simulate(published(name, epsilon, horizon, runs), Bernoulli(means), seed=4, checkpoints=1)
    return float(played.regret.mean())


def test_the_bounds_have_the_constants_of_the_proofs() -> None:
    # T = e^10, rounded; σ = 100, m = 10,000: each term by hand.
    horizon, gaps = round(math.exp(10.0)), [0.0, 0.1, 0.5]
    fixed = (1280 + 5120 * 100**2 / 10_000) / 0.1 + 1000 + (1280 + 5120) / 0.5 + 5000
    assert sdp_ae_regret(gaps, horizon, 100.0) == pytest.approx(fixed, rel=1e-5)
    doubling = 5120 / 0.1 + 5120 / 0.5 + 2 * 64 * math.sqrt(2) * 100 * 10
    assert vb_sdp_ae_regret(gaps, horizon, 100.0) == pytest.approx(doubling, rel=1e-5)
    assert sdp_ae_minimax(3, horizon, 100.0) == pytest.approx(2 * math.sqrt(640 * 3 * horizon * 10) + 30_000, rel=1e-5)
    whatever = math.sqrt(2048 * 3 * horizon * 10) + 64 * math.sqrt(2) * 3 * 100 * 10
    assert vb_sdp_ae_minimax(3, horizon, 100.0) == pytest.approx(whatever, rel=1e-5)
    # A batch of one's own: the noise counts less, the first phase more.
    assert sdp_ae_regret([0.1], horizon, 100.0, batch=20_000) == pytest.approx(12_800 + 25_600 + 2_000, rel=1e-5)


def test_sigma_and_the_batch_are_those_the_policies_have() -> None:
    for epsilon in (0.05, 0.5, 0.9):
        sigma = shuffled_bits_sigma(epsilon, 1e-6)
        assert sigma**2 == pytest.approx(1.5 * 96 * math.log(2e6) / epsilon**2)
        assert published("vb-sdp-ae", epsilon, 10**6).radius == SubGaussianRadius(sigma)
        assert published("sdp-ae", epsilon, 10**6).ladder.first == sdp_ae_batch(sigma) == math.ceil(sigma**2)


def test_the_constants_of_doubling_hold_although_log_means_log2_there() -> None:
    for last in range(1, 60):
        users, pulled = 2 ** (last + 1) - 2, 2 ** (last + 2) - 2
        # What the proof charges four times N is three times N at most, and √log₂T is 1.2 times √log T.
        assert pulled <= 3 * users or last == 0
        assert 3 * math.sqrt(1 / math.log(2)) < 4


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize(
    ("epsilon", "horizon"), [(0.9, 10**6), (0.5, 10**6), (0.5, 10**9), (0.1, 10**8), (0.01, 10**10)]
)
def test_measured_regret_lies_below_both_bounds(name: str, epsilon: float, horizon: int) -> None:
    sigma = shuffled_bits_sigma(epsilon, 1e-6)
    by_gaps, whatever = BOUNDS[name]
    found = regret(name, epsilon, horizon)
    assert found <= by_gaps(GAPS, horizon, sigma)
    assert found <= whatever(10, horizon, sigma)


def test_the_bound_of_fixed_batches_is_nearly_met_where_noise_rules() -> None:
    # One batch of each arm is nearly all there is to pay, and all of it must be paid: no smaller term would do.
    sigma = shuffled_bits_sigma(0.01, 1e-6)
    bound = sdp_ae_regret(GAPS, 10**10, sigma)
    assert 0.95 * bound < regret("sdp-ae", 0.01, 10**10) <= bound


@pytest.mark.slow
def test_the_order_turns_where_the_figure_says() -> None:
    assert regret("sdp-ae", 0.5, 10**6) < 0.7 * regret("vb-sdp-ae", 0.5, 10**6)
    assert regret("sdp-ae", 0.15, 10**9) < regret("vb-sdp-ae", 0.15, 10**9)
    assert regret("vb-sdp-ae", 0.03, 10**9) < regret("sdp-ae", 0.03, 10**9)
    for epsilon, doubling_wins in ((0.0065, False), (0.0058, True)):
        sigma = shuffled_bits_sigma(epsilon, 1e-6)
        assert (vb_sdp_ae_regret(GAPS, 10**9, sigma) < sdp_ae_regret(GAPS, 10**9, sigma)) is doubling_wins


def test_what_no_bandit_has_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="gaps = 1.5"):
        vb_sdp_ae_regret([1.5], 1000, 10.0)
    with pytest.raises(InvalidParameter, match="horizon"):
        sdp_ae_regret([0.5], 1, 10.0)
    with pytest.raises(InvalidParameter, match="arms"):
        sdp_ae_minimax(1, 1000, 10.0)
    with pytest.raises(InvalidParameter, match="delta"):
        shuffled_bits_sigma(0.5, 0.0)
