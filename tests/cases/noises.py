"""Noises of every registered family: small and large, skewed and flat, with whole, broken and floating parameters."""

from fractions import Fraction

from hypothesis import strategies as st

from croupier.noise import (
    FAMILIES,
    Binomial,
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteGaussianSum,
    DiscreteLaplace,
    Noise,
    Poisson,
    Polya,
    PolyaDifference,
    Skellam,
    SparseBits,
    Table,
)

THIRD = Fraction(1, 3)

BY_FAMILY: dict[str, tuple[Noise, ...]] = {
    "Binomial": (
        Binomial(1, 0.5),
        Binomial(12, THIRD),
        Binomial(1000, 0.5),
        Binomial(3000, 0.01),
    ),
    "SparseBits": (
        SparseBits(1),
        SparseBits(63),
        SparseBits(10, 0.3),
        SparseBits(400, Fraction(1, 4)),
    ),
    "DiscreteLaplace": (
        DiscreteLaplace(0.5),
        DiscreteLaplace(20),
        DiscreteLaplace(Fraction(100, 3)),
    ),
    "Polya": (
        Polya(Fraction(1, 1000), scale=20),
        Polya(THIRD, beta=0.75),
        Polya(2.5, beta=Fraction(3, 5)),
        Polya(30, scale=3),
    ),
    "PolyaDifference": (
        PolyaDifference(Fraction(1, 1000), 20),
        PolyaDifference(THIRD, 2),
        PolyaDifference(1.5, 3),
        PolyaDifference(9, 2),
        PolyaDifference(16, 1),
        PolyaDifference(40, Fraction(5, 2)),
    ),
    "Poisson": (
        Poisson(0.01),
        Poisson(THIRD),
        Poisson(4),
        Poisson(10_000),
    ),
    "Skellam": (
        Skellam(THIRD),
        Skellam(400),
        Skellam(1_000_000),
    ),
    "DiscreteGaussian": (
        DiscreteGaussian(0.3),
        DiscreteGaussian(4),
        DiscreteGaussian(10_000),
    ),
    "DiscreteGaussianSum": (
        DiscreteGaussianSum(0.3, 5),
        DiscreteGaussianSum(1, 7),
        DiscreteGaussianSum(4, 25),
    ),
    "BoundedLaplace": (
        BoundedLaplace(2, 9),
        BoundedLaplace(Fraction(7, 3), 40),
    ),
    "Table": (
        Table([Fraction(1, 7), Fraction(4, 7), Fraction(2, 7)], start=-1),
        Table([0.25, 0, 0, 0.5, 0, 0.25], start=-2),
        Table.proportional([1, 8, 28, 56, 70, 56, 28, 8, 1], start=-4),
    ),
}
"""A new family needs a line here, or `tests/test_cases.py` fails: no contract knows what its parameters may be."""

MEMBERS = tuple(noise for family in FAMILIES.own for noise in BY_FAMILY.get(family, ()))
ONE_OF_EACH = tuple(members[0] for members in BY_FAMILY.values())

_PARAMETER = st.fractions(Fraction(1, 10), 30, max_denominator=12)
DRAWN: dict[str, st.SearchStrategy[Noise]] = {
    "fair bits": st.builds(Binomial, st.integers(1, 400), st.just(0.5)),
    "biased bits": st.builds(Binomial, st.integers(1, 400), st.floats(0.01, 0.99)),
    "Poisson": st.builds(Poisson, _PARAMETER),
    "Polya": st.builds(Polya, _PARAMETER, st.floats(0.05, 0.9)),
    "Skellam": st.builds(Skellam, _PARAMETER),
    "Gaussian": st.builds(DiscreteGaussian, _PARAMETER),
    "Gaussian sum": st.builds(
        DiscreteGaussianSum, st.fractions(Fraction(1, 4), 4, max_denominator=4), st.integers(1, 20)
    ),
    "Laplace": st.builds(DiscreteLaplace, _PARAMETER),
    "Polya difference": st.builds(
        PolyaDifference, st.fractions(Fraction(1, 4), 4, max_denominator=4), st.floats(0.5, 5)
    ),
    "sparse bits": st.builds(SparseBits, st.integers(1, 200), st.floats(0.05, 1.0)),
    "bounded Laplace": st.builds(BoundedLaplace, _PARAMETER, st.integers(1, 60)),
    "table": st.builds(
        Table.proportional, st.lists(st.integers(0, 50), min_size=2, max_size=30).filter(any), st.integers(-9, 9)
    ),
}
"""Noises with parameters drawn anew, of every family."""
