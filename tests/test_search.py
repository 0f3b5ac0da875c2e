"""Every search returns the side that its name says, next to the crossing, for crossings anywhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.search import (
    bracket,
    just_above_minimiser,
    least_passing_between,
    least_passing_integer,
    least_passing_positive,
    least_passing_ratio,
    minimiser,
)

CALM = settings(derandomize=True, deadline=None, max_examples=200)
positive = st.floats(1e-6, 1e9)


@pytest.mark.slow
@CALM
@given(st.integers(-5, 5), st.integers(1, 10**9), st.integers(1, 10**6))
def test_the_least_integer_passes_and_the_one_before_fails(failing: int, above: int, guess: int) -> None:
    crossing, tested = failing + above, []

    def passes(n: int) -> bool:
        tested.append(n)
        return n >= crossing

    found = least_passing_integer(passes, failing, max(guess, failing + 1))
    assert found == crossing
    # Doubling and halving: no more tests than twice the digits.
    assert len(tested) <= 2 * (max(crossing, guess).bit_length() + 4)
    assert least_passing_between(passes, failing, crossing + 7) == crossing


@CALM
@given(positive, positive, st.sampled_from([1e-5, 1e-3, 0.1]), st.sampled_from([1.5, 2.0]))
def test_the_least_positive_number_is_rounded_up(crossing: float, guess: float, resolution: float, factor: float):
    found = least_passing_positive(lambda x: x >= crossing, guess, resolution=resolution, factor=factor)
    assert crossing <= found <= crossing * (1.0 + resolution) * (1.0 + 1e-12)


def test_a_condition_that_always_passes_ends_near_the_least_that_is_looked_at():
    assert least_passing_positive(lambda x: True, 1.0, resolution=1e-3, least=1e-9) <= 4e-9


@CALM
@given(st.floats(1e-12, 1.0))
def test_ratios_are_rounded_up(crossing: float) -> None:
    found = least_passing_ratio(lambda x: x >= crossing, 1e-12, 2.0, resolution=1e-3)
    assert crossing <= found <= crossing * 1.001 * (1.0 + 1e-12)


@CALM
@given(st.floats(0.0, 1e6), st.booleans())
def test_a_bracket_holds_the_crossing_whichever_end_passes(crossing: float, rising: bool) -> None:
    ends = (-1.0, 2e6) if rising else (2e6, -1.0)
    failing, passing = bracket(lambda x: (x >= crossing) == rising or x == crossing, *ends, absolute=1e-6)
    low, high = sorted((failing, passing))
    assert low <= crossing <= high
    assert high - low <= 1e-6
    assert (passing >= failing) == rising


def test_a_bracket_of_neighbouring_doubles_ends():
    failing, passing = bracket(lambda x: x * x >= 2.0, 1.0, 2.0)
    assert failing < passing == math.nextafter(failing, 2.0)
    assert failing**2 < 2.0 <= passing**2


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 1.0])
def test_the_least_value_is_found(at: float) -> None:
    assert minimiser(lambda x: abs(x - at) ** 1.5, 0.0, 1.0, absolute=1e-4) == pytest.approx(at, abs=1e-4)
    above = just_above_minimiser(lambda x: max(1e9 * (at - x), x - at), 0.0, 1.0, resolution=1e-4)
    assert at <= above <= at + 2e-4
