"""Google's dp-accounting as a second opinion: its optimistic and pessimistic answers must enclose ours."""

from __future__ import annotations

import math
from functools import reduce

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from cases.exact_losses import law, mp
from croupier.noise import Binomial, DiscreteGaussian, DiscreteLaplace, Poisson, Polya, Skellam
from croupier.privacy import Loss, privacy_loss

GRID = 2e-4
DELTAS = (1e-8, 1e-6, 1e-3)


def named(noise, sensitivity: int, pessimistic: bool):
    """A mechanism that dp-accounting knows by name."""
    if isinstance(noise, DiscreteLaplace):
        return pld.from_discrete_laplace_mechanism(
            1 / float(noise.scale), sensitivity, pessimistic, value_discretization_interval=GRID
        )
    return pld.from_discrete_gaussian_mechanism(
        math.sqrt(noise.sigma2), sensitivity, pessimistic_estimate=pessimistic, value_discretization_interval=GRID
    )


def listed(noise, shift: int, pessimistic: bool):
    """Any mechanism, as two lists of probabilities from the reference: X against X + shift."""
    own = {x: float(mp.log(mass)) for x, mass in law(noise).masses.items() if mass > mp.mpf(10) ** -40}
    moved = {x + shift: mass for x, mass in own.items()}
    return pld.from_two_probability_mass_functions(
        moved, own, pessimistic, value_discretization_interval=GRID, symmetric=True
    )


NAMED = [(DiscreteLaplace(2), 1), (DiscreteLaplace(10), 4), (DiscreteGaussian(9), 1), (DiscreteGaussian(100), 3)]
LISTED = [(Binomial(100, 0.5), 1), (Skellam(12), 1), (Skellam(60), 4)]


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize(("noise", "sensitivity"), NAMED + LISTED, ids=str)
def test_epsilon_agrees_with_dp_accounting(noise, sensitivity, count):
    build = named if (noise, sensitivity) in NAMED else listed
    high, low = (build(noise, sensitivity, side).self_compose(count) for side in (True, False))
    loss = count * privacy_loss(noise, sensitivity)
    for delta in DELTAS:
        above, below = high.get_epsilon_for_delta(delta), low.get_epsilon_for_delta(delta)
        lower, upper = loss.bounds(delta)
        assert lower <= above + 1e-9
        assert upper >= below - 1e-9
        # Its rounding adds up to a grid step a release; ours stays within 0.01.
        if math.isfinite(above):
            assert upper <= above + 0.01
        if below > 0.0:
            assert upper >= above - count * GRID - 0.01


@pytest.mark.parametrize(
    ("noise", "shift"), [(Poisson(20), 1), (Poisson(20), -1), (Polya(30, 0.5), 2), (Binomial(200, 0.2), -1)], ids=str
)
def test_one_direction_of_uneven_noise_agrees_with_dp_accounting(noise, shift):
    loss = privacy_loss(noise, abs(shift), direction="up" if shift > 0 else "down")
    for count in (1, 10):
        high, low = (listed(noise, shift, side).self_compose(count) for side in (True, False))
        for epsilon in (0.2, 1.0, 2.0):
            found = (count * loss).delta(epsilon)
            assert low.get_delta_for_epsilon(epsilon + 0.005) * (1 - 1e-9) - 1e-12 <= found
            assert found <= high.get_delta_for_epsilon(epsilon - 0.005) * (1 + 1e-9) + 1e-12


def test_a_sequence_of_distinct_releases_agrees_with_dp_accounting():
    releases = NAMED[:1] + NAMED[2:] + NAMED[1:2]
    loss = Loss.total(5 * privacy_loss(*release) for release in releases)
    sides = []
    for pessimistic in (True, False):
        each = [named(*release, pessimistic).self_compose(5) for release in releases]
        sides.append(reduce(lambda left, right: left.compose(right), each))
    for delta in DELTAS:
        above, below = (side.get_epsilon_for_delta(delta) for side in sides)
        lower, upper = loss.bounds(delta)
        assert below - 1e-9 <= upper <= above + 0.01
        assert lower <= above + 1e-9
