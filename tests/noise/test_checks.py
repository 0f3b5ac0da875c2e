"""Every refusal names the parameter, shows its value and says what is allowed."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import CroupierError, InvalidParameter, between, finite, integer, one_of, positive

NO_NUMBERS = [None, "1", True, False, 1j, [1], (1,), Decimal(1), np.array([1.0]), np.bool_(True), object]


def test_a_refusal_names_shows_and_says() -> None:
    refusal = InvalidParameter("epsilon", -1, "a finite number > 0")
    assert str(refusal) == "epsilon = -1 is not allowed: it must be a finite number > 0"
    assert (refusal.name, refusal.value, refusal.allowed) == ("epsilon", -1, "a finite number > 0")


def test_a_refusal_is_a_value_error_and_croupiers_own() -> None:
    assert issubclass(InvalidParameter, ValueError)
    assert issubclass(InvalidParameter, CroupierError)
    assert not issubclass(CroupierError, ValueError)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_everywhere(value: object) -> None:
    for check in (
        lambda: finite("x", value),
        lambda: positive("x", value),
        lambda: integer("x", value, 0),
        lambda: between("x", value, 0, 2),
    ):
        with pytest.raises(InvalidParameter, match=r"^x = .* is not allowed: it must be a "):
            check()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_what_is_not_finite_is_refused_everywhere(value: float) -> None:
    for check in (
        lambda: finite("x", value),
        lambda: positive("x", value),
        lambda: integer("x", value, 0),
        lambda: between("x", value, 0, 2),
    ):
        with pytest.raises(InvalidParameter):
            check()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (3, 3),
        (-2.5, -2.5),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.int64(7), 7),
        (np.uint8(7), 7),
        (np.float64(0.25), 0.25),
        (np.float32(0.5), 0.5),
        (10**400, 10**400),
    ],
)
def test_a_finite_number_comes_back_exact_and_plain(value: object, plain: object) -> None:
    found = finite("x", value)
    assert found == plain
    assert type(found) is type(plain)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.fractions()))
def test_positive_lets_through_what_is_above_zero(value: float | Fraction) -> None:
    if value > 0:
        assert positive("x", value) == value
    else:
        with pytest.raises(InvalidParameter, match=r"must be a finite number > 0$"):
            positive("x", value)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(value=st.integers(-20, 20), least=st.integers(-10, 10), most=st.none() | st.integers(-10, 10))
def test_integer_lets_through_what_lies_within(value: int, least: int, most: int | None) -> None:
    if value >= least and (most is None or value <= most):
        assert integer("n", value, least, most) == value
        assert integer("n", np.int64(value), least, most) == value
    else:
        with pytest.raises(InvalidParameter) as refusal:
            integer("n", value, least, most)
        allowed = f"a whole number >= {least}" if most is None else f"a whole number in [{least}, {most}]"
        assert refusal.value.allowed == allowed


def test_integer_comes_back_as_an_int() -> None:
    assert type(integer("n", np.int32(5), 0)) is int


@pytest.mark.parametrize("value", [2.0, Fraction(4, 2), np.float64(3)])
def test_a_whole_value_of_another_type_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidParameter):
        integer("n", value, 0)


@pytest.mark.parametrize(
    ("ends", "inside", "outside"),
    [
        ("()", [0.5, 1e-300], [0, 1, 0.0, 1.0]),
        ("[]", [0, 1, 0.5, Fraction(1, 3)], [-1e-300, Fraction(10**20 + 1, 10**20)]),
        ("(]", [1, 1.0], [0, 0.0]),
        ("[)", [0, 0.0], [1, 1.0]),
    ],
)
def test_an_interval_has_the_ends_it_shows(ends: str, inside: list[float], outside: list[float]) -> None:
    for value in inside:
        assert between("p", value, 0, 1, ends) == value
    for value in outside:
        with pytest.raises(InvalidParameter) as refusal:
            between("p", value, 0, 1, ends)
        assert refusal.value.allowed == f"a number in {ends[0]}0, 1{ends[1]}"
        assert refusal.value.name == "p"


def test_intervals_may_be_unbounded() -> None:
    assert between("x", 10**9, 0.25, math.inf, "[)") == 10**9
    with pytest.raises(InvalidParameter, match=r"a number in \[0.25, inf\)"):
        between("x", 0.2, 0.25, math.inf, "[)")


def test_one_of_lists_its_choices() -> None:
    assert one_of("mode", "tight", ("tight", "published")) == "tight"
    for value in ("loose", "", None, 3, ["tight"]):
        with pytest.raises(InvalidParameter, match="one of tight, published"):
            one_of("mode", value, ("tight", "published"))
