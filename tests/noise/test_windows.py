"""A window's promises: its relative error, and its bounds on what it leaves out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.noise_laws import BITS, exact_cdf, exact_floats, exact_pmf, exact_tail
from cases.noises import MEMBERS
from croupier.noise import (
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    Window,
)
from croupier.noise.sparse import fair_rows
from croupier.noise.window import DEEP, SHALLOW

FAR = (
    Binomial(40, 1 - Fraction(1, 10**10)),
    Binomial(1000, Fraction(1, 10**7)),
    DiscreteLaplace(0.02),
    DiscreteGaussian(0.01),
    DiscreteGaussian(Fraction(1, 10)),
    Polya(2, scale=Fraction(1, 30)),
    Polya(Fraction(1, 10**6), scale=2),
    PolyaDifference(2, 0.1),
    Skellam(Fraction(1, 1000)),
    SparseBits(2000, Fraction(1, 50)),
)
"""Parameters near the edges of their ranges, where roundings weigh most."""

every_member = pytest.mark.parametrize("noise", MEMBERS + FAR, ids=repr)


def relative_error(noise: Noise, window: Window, index: int) -> float:
    exact = exact_pmf(noise, window.start + index)
    with ctx.workprec(BITS):
        return float((abs(arb(float(window.pmf[index])) - exact) / exact).upper())


@every_member
@pytest.mark.parametrize("floor", [1e-12, SHALLOW, DEEP])
def test_every_entry_is_within_the_stated_error(noise: Noise, floor: float) -> None:
    window = noise.window(floor)
    size = len(window.pmf)
    some = {*np.linspace(0, size - 1, 60).astype(int).tolist(), *range(min(6, size)), *range(max(0, size - 6), size)}
    # Zeros are those of a parity, and entries too small for a normal double have no relative error to keep.
    some = {i for i in some if exact_pmf(noise, window.start + i) > 1e-306}
    wrong = [(window.start + i, found) for i in some if (found := relative_error(noise, window, i)) > window.error]
    assert not wrong, f"{len(wrong)} entries err by more than {window.error:g}, e.g. {max(wrong, key=lambda w: w[1])}"


@every_member
@pytest.mark.parametrize("floor", [1e-12, SHALLOW])
def test_what_lies_outside_is_bounded(noise: Noise, floor: float) -> None:
    window = noise.window(floor)
    with ctx.workprec(BITS):
        below, above = exact_cdf(noise, window.start - 1), exact_tail(noise, window.stop - 1)
        assert below <= arb(window.below), float(below - arb(window.below))
        assert above <= arb(window.above), float(above - arb(window.above))


@pytest.mark.parametrize("noise", MEMBERS, ids=repr)
@pytest.mark.parametrize("floor", [1e-12, SHALLOW])
def test_what_lies_outside_is_bounded_closely(noise: Noise, floor: float) -> None:
    """A geometric series from the last ratio on: no family but the narrowest loses a third of it."""
    window, most = noise.window(floor), 30.0 if noise == DiscreteGaussian(0.3) else 1.4
    with ctx.workprec(BITS):
        assert arb(window.below) <= most * exact_cdf(noise, window.start - 1)
        assert arb(window.above) <= most * exact_tail(noise, window.stop - 1)


@every_member
@pytest.mark.parametrize("floor", [1e-12, SHALLOW])
def test_a_window_holds_all_that_is_above_its_floor(noise: Noise, floor: float) -> None:
    window = noise.window(floor)
    assert exact_pmf(noise, window.start - 1) < floor
    assert exact_pmf(noise, window.stop) < floor
    assert window.stop - window.start == len(window.pmf)
    # The bounds stay of the order of the floor, so that a window says something.
    assert window.below + window.above < floor * 1e6
    assert window.error < 1e-6


@every_member
def test_mass_inside_and_bounds_outside_add_up_to_one(noise: Noise) -> None:
    window = noise.window(1e-12)
    inside = float(window.pmf.sum())
    assert (
        inside * (1 - window.error) - 1e-13 <= 1.0 <= inside * (1 + window.error) + window.below + window.above + 1e-13
    )


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    noise=st.one_of(
        st.builds(Binomial, st.integers(1, 300), st.fractions(0, 1, max_denominator=50).filter(lambda p: 0 < p < 1)),
        st.builds(Poisson, st.floats(1e-3, 200)),
        st.builds(Polya, st.floats(1e-3, 20), beta=st.floats(0.01, 0.9)),
        st.builds(DiscreteGaussian, st.floats(0.2, 300)),
        st.builds(Skellam, st.floats(1e-3, 200)),
        st.builds(PolyaDifference, st.floats(1e-3, 20), st.floats(0.2, 3)),
    )
)
def test_windows_keep_their_promises_at_any_parameter(noise: Noise) -> None:
    window = noise.window()
    for index in {0, len(window.pmf) // 3, len(window.pmf) // 2, len(window.pmf) - 1}:
        assert relative_error(noise, window, index) <= window.error
    with ctx.workprec(BITS):
        assert exact_cdf(noise, window.start - 1) <= arb(window.below) * (1 + 1e-12)
        assert exact_tail(noise, window.stop - 1) <= arb(window.above) * (1 + 1e-12)


@pytest.mark.parametrize("floor", [0.0, 1e-20])
@pytest.mark.parametrize(("first", "stop"), [(0, 8), (1, 4), (60, 70)])
def test_rows_of_fair_bits_are_binomial(first: int, stop: int, floor: float) -> None:
    rows = list(fair_rows(first, stop, max(floor, 1e-300)))
    assert len(rows) == stop - first
    for bits, (start, row) in zip(range(first, stop), rows, strict=True):
        exact = exact_floats(Binomial(bits, 0.5), start, start + len(row)) if bits else np.ones(1)
        assert row == pytest.approx(exact, rel=1e-13)
        assert row.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("noise", [DiscreteGaussianSum(4, 25), DiscreteGaussianSum(1, 7)], ids=repr)
def test_a_sum_of_gaussians_close_to_one_says_how_close(noise: DiscreteGaussianSum) -> None:
    window = noise.window()
    # Only a distance that doubles would not show is taken into the error; a larger one is convolved away.
    assert window.error >= noise.distance if noise.sigma2 == 4 else window.error < noise.distance
