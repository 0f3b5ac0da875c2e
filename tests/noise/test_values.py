"""Noises are frozen values: equal, hashable, readable, storable, and refused when their parameters make no sense."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.noises import MEMBERS, ONE_OF_EACH
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import (
    FAMILIES,
    Binomial,
    DiscreteGaussian,
    DiscreteGaussianSum,
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
from croupier.noise.serial import noise_from_dict, noise_to_dict

every_member = pytest.mark.parametrize("noise", MEMBERS, ids=repr)
one_of_each = pytest.mark.parametrize("noise", ONE_OF_EACH, ids=repr)

POSITIVE: dict[str, Callable[[object], Noise]] = {
    "Poisson.rate": lambda value: Poisson(value),
    "Skellam.sigma2": lambda value: Skellam(value),
    "DiscreteGaussian.sigma2": lambda value: DiscreteGaussian(value),
    "DiscreteGaussianSum.sigma2": lambda value: DiscreteGaussianSum(value, 3),
    "DiscreteLaplace.scale": lambda value: DiscreteLaplace(value),
    "Polya.r": lambda value: Polya(value, beta=0.5),
    "Polya.scale": lambda value: Polya(2, scale=value),
    "PolyaDifference.r": lambda value: PolyaDifference(value, 2),
    "PolyaDifference.scale": lambda value: PolyaDifference(2, value),
}
PROBABILITY: dict[str, Callable[[object], Noise]] = {
    "Binomial.p": lambda value: Binomial(5, value),
    "Polya.beta": lambda value: Polya(2, beta=value),
    "SparseBits.rate": lambda value: SparseBits(5, value),
}
WHOLE: dict[str, Callable[[object], Noise]] = {
    "Binomial.trials": lambda value: Binomial(value, 0.5),
    "SparseBits.slots": lambda value: SparseBits(value, 0.5),
    "DiscreteGaussianSum.count": lambda value: DiscreteGaussianSum(2, value),
}


def refused(build: Callable[[object], object], value: object, name: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        build(value)
    assert refusal.value.name == name
    assert re.match(f"{name} (= .* is not allowed|is missing): it must be ", str(refusal.value))


@pytest.mark.parametrize("parameter", POSITIVE)
@pytest.mark.parametrize("value", [0, 0.0, -1, -1e-9, math.nan, math.inf, -math.inf, True, "1", None, 1j, [2]])
def test_a_parameter_that_is_not_positive_is_refused_by_name(parameter: str, value: object) -> None:
    # A Pólya's scale of None is how its beta is asked for.
    asked = value is None and parameter in ("Polya.scale", "PolyaDifference.scale")
    name = "beta" if asked else parameter.split(".")[1]
    refused(POSITIVE[parameter], value, name)


@pytest.mark.parametrize("parameter", PROBABILITY)
@pytest.mark.parametrize("value", [0, -0.1, 1.0000001, 2, math.nan, math.inf, True, False, "0.5", Fraction(3, 2)])
def test_a_probability_outside_its_range_is_refused_by_name(parameter: str, value: object) -> None:
    refused(PROBABILITY[parameter], value, parameter.split(".")[1])


def test_certainty_is_refused_where_it_is_no_noise() -> None:
    refused(PROBABILITY["Binomial.p"], 1, "p")
    refused(PROBABILITY["Polya.beta"], 1, "beta")
    assert SparseBits(5, 1).variance == 5


@pytest.mark.parametrize("parameter", WHOLE)
@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, Fraction(4, 2), math.nan, True, "3", None])
def test_a_count_that_is_no_whole_number_above_zero_is_refused_by_name(parameter: str, value: object) -> None:
    refused(WHOLE[parameter], value, parameter.split(".")[1])


def test_polya_takes_either_beta_or_scale() -> None:
    refused(lambda value: Polya(2, beta=value, scale=3), 0.5, "beta")
    refused(lambda value: Polya(2, beta=value), None, "beta")


@one_of_each
@pytest.mark.parametrize("users", [0, 1.5, True, "2"])
@pytest.mark.parametrize("split", ["share", "times"])
def test_a_number_of_users_that_is_none_is_refused_by_name(noise: Noise, users: object, split: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        getattr(noise, split)(users)
    assert refusal.value.name == "users"


@every_member
def test_members_are_frozen_equal_and_hashable(noise: Noise) -> None:
    arguments = {f.name: getattr(noise, f.name) for f in dataclasses.fields(noise) if f.init}
    again = type(noise)(**arguments)
    assert again == noise
    assert again is not noise
    assert hash(again) == hash(noise)
    assert len({noise, again}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(noise, next(iter(arguments)), 3)


def test_different_members_differ() -> None:
    assert len(set(MEMBERS)) == len(MEMBERS)
    assert Poisson(4) != Skellam(4)
    assert Polya(2, beta=0.5) != Polya(2, scale=0.5)


def test_equal_parameters_of_another_type_are_the_same_noise() -> None:
    assert Poisson(2) == Poisson(2.0) == Poisson(Fraction(2))
    assert hash(Poisson(2)) == hash(Poisson(2.0)) == hash(Poisson(Fraction(2)))
    assert DiscreteLaplace(0.1) != DiscreteLaplace(Fraction(1, 10))


@pytest.mark.parametrize(
    "noise", [Binomial(np.int64(5), 0.5), Poisson(np.int64(4)), DiscreteGaussian(np.float32(2))], ids=repr
)
def test_numbers_of_numpy_that_are_accepted_work(noise: Noise) -> None:
    plain = noise_from_dict(json.loads(json.dumps(noise_to_dict(noise))))
    assert noise == plain
    assert repr(noise) == repr(plain)
    assert noise.pmf(2) == plain.pmf(2)
    assert noise.sample(3, secure()).shape == (3,)


def test_representations_are_what_a_person_would_write() -> None:
    assert repr(Binomial(1000, 0.5)) == "Binomial(trials=1000, p=0.5)"
    assert repr(SparseBits(5)) == "SparseBits(slots=5, rate=1)"
    assert repr(Polya(2, beta=0.75)) == "Polya(r=2, beta=0.75)"
    assert repr(Polya(1, scale=20).share(3)) == "Polya(r=1/3, scale=20)"
    assert repr(PolyaDifference(Fraction(1, 50), 3)) == "PolyaDifference(r=1/50, scale=3)"
    assert repr(DiscreteGaussianSum(4, 25)) == "DiscreteGaussianSum(sigma2=4, count=25)"
    assert repr(Poisson(6).share(3)) == "Poisson(rate=2)"
    # A long fraction is shown rounded.
    assert repr(Poisson(0.1).share(3)) == "Poisson(rate=0.0333333333333)"


@every_member
def test_a_stored_noise_reads_back_equal(noise: Noise) -> None:
    data = json.loads(json.dumps(noise_to_dict(noise)))
    assert data["family"] == type(noise).__name__
    again = noise_from_dict(data)
    assert again == noise
    assert type(again) is type(noise)
    assert noise_to_dict(again) == noise_to_dict(noise)
    assert FAMILIES[data["family"]] is type(noise)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    rate=st.one_of(
        st.integers(1, 10**30),
        st.floats(1e-300, 1e300, allow_subnormal=False),
        st.fractions(Fraction(1, 10**20), 10**20),
    ),
    users=st.integers(1, 10**6),
)
def test_any_exact_parameter_survives_splitting_and_storing(rate: float | Fraction, users: int) -> None:
    for noise in (Poisson(rate), Skellam(rate), Polya(rate, beta=0.5), PolyaDifference(Fraction(rate) + 2, 3)):
        share = noise.share(users)
        assert share.times(users) == noise
        assert noise_from_dict(json.loads(json.dumps(noise_to_dict(share)))) == share


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"family": None},
        {"family": "Gumbel"},
        {"family": ["Poisson"]},
        {"family": "Poisson"},
        {"family": "Poisson", "rate": 1, "more": 2},
        {"family": "Poisson", "rate": "abc"},
        {"family": "Poisson", "rate": "1/0"},
        {"family": "Poisson", "rate": -1},
        {"family": "Poisson", "rate": None},
        {"family": "Binomial", "trials": "5", "p": 0.5},
        {"family": "Skellam", "sigma2": 1, "part": 2},
    ],
    ids=str,
)
def test_stored_data_that_names_no_noise_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(CroupierError):
        noise_from_dict(data)


@one_of_each
@pytest.mark.parametrize("source", [secure(), seeded(5)], ids=repr)
def test_samples_have_the_shape_asked_for(noise: Noise, source: Source) -> None:
    assert noise.sample(3, source).shape == (3,)
    assert noise.sample((2, 3), source).shape == (2, 3)
    assert noise.sample((), source).shape == ()
    assert noise.sample(2, source).dtype == np.int64


@one_of_each
@pytest.mark.parametrize("source", [secure(), seeded(5)], ids=repr)
def test_no_samples_are_an_empty_array(noise: Noise, source: Source) -> None:
    assert noise.sample(0, source).shape == (0,)
    assert noise.sample((3, 0), source).shape == (3, 0)


def test_a_size_may_be_a_whole_number_of_numpy() -> None:
    assert Poisson(4).sample(np.int64(2), secure()).shape == (2,)
