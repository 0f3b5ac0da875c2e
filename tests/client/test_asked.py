"""What a device reads without NumPy is what the library reads: the same refusals, recipes, numbers and promises."""

import contextlib
import json
import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.client import Server, both_signed, configuration, offer
from croupier.bandits import Metrics
from croupier.checks import CroupierError, InvalidParameter
from croupier.client import NotCovered
from croupier.messages.asked import LaplaceNumber, LaplaceNumbers, bits, coin
from croupier.messages.offer import Batch
from croupier.noise import DiscreteLaplace, secure, seeded
from croupier.protocols import Mechanism, discrete_gaussian, laplace, shared_vectors, shuffled_laplace, skellam

KINDS = {
    "binary": laplace(epsilon=1.0, binary=True, trust="two-servers").plan(users=40),
    "real": laplace(epsilon=0.3, trust="two-servers").plan(users=40),
    "range": laplace(epsilon=2.0, low=-1.5, high=7, trust="two-servers").plan(users=1000),
    "clipped": laplace(epsilon=1.0, low=0, high=5, clip=True, trust="two-servers").plan(users=40),
    "levels": laplace(epsilon=1.0, precision=3, trust="two-servers").plan(users=40),
}
SOURCE = secure()


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_a_number_is_read_as_the_library_reads_it(kind):
    light = LaplaceNumber.read(json.loads(kind.to_json()))
    for name in ("trust", "users", "honest", "guarantee", "recipe", "checkable", "shape", "outputs", "ring"):
        assert getattr(light, name) == getattr(kind, name), name
    assert light.fits_any_batch
    assert float(light.epsilon) == pytest.approx(kind.loss.pure)
    assert kind.sent_loss.delta(float(light.epsilon) * (1 + 1e-12)) == 0.0
    assert isinstance(Batch.of(1, bytes(32), kind).asked, LaplaceNumber)


VALUES = [0, 1, 0.0, 0.25, 1 / 3, 1.0, 5, 7, -1.5, 1e308, math.nan, math.inf, True, np.float32(0.5), np.bool_(True)]
VALUES += [Fraction(1, 3), Decimal("0.5"), "1", None, [1], 1j, b"1", {}, 10**400]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_same_values_are_refused_with_the_same_words(kind, value):
    light = LaplaceNumber.read(kind.to_dict())

    def said(one):
        try:
            one.check_value(value)
        except InvalidParameter as error:
            return str(error)
        except (OverflowError, TypeError):
            return "refused"
        return None

    found, expected = said(light), said(kind)
    assert (found is None) == (expected is None)
    if expected not in (None, "refused") and not isinstance(value, complex | int) and value is not None:
        assert found == expected


@given(st.floats(-1.5, 7.0))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_encoding_is_the_librarys_one_with_an_exact_coin(value):
    kind = KINDS["range"]
    light = LaplaceNumber.read(kind.to_dict())
    scaled = float(kind.values.unit(value)) * kind.precision
    whole, fraction = math.floor(scaled), Fraction(scaled - math.floor(scaled))
    drawn = []

    class Scripted:
        def __init__(self, number):
            self.number = number

        def words(self, count):
            drawn.append(count)
            return [(self.number >> 64 * (count - 1 - place)) % 2**64 for place in range(count)]

    size = fraction.denominator.bit_length() - 1
    shift = 64 * -(-size // 64) - size
    if size:
        # The last number below the chance, and the first that is not.
        assert light.secret(value, Scripted(fraction.numerator - 1 << shift)) == [whole + 1]
        assert light.secret(value, Scripted(fraction.numerator << shift)) == [whole]
    else:
        assert light.secret(value, SOURCE) == [whole]
    assert light.secret(value, None)[0] in (whole, math.ceil(scaled))


def test_a_coin_falls_as_often_as_it_should():
    counts = Counter(coin(Fraction(3, 8), lambda count, n=n: n) for n in range(8))
    assert counts == {1: 3, 0: 5}
    assert coin(Fraction(0), bits(None)) == 0
    assert bits(seeded(1))(64) == int(seeded(1).words(1)[0])
    assert bits(seeded(1))(3) == int(seeded(1).words(1)[0]) >> 61


ODD = [
    {"version": 2},
    {"kind": "SumMechanism"},
    {"carrier": {"kind": "shared"}},
    {"carrier": {"kind": "modular", "modulus": 100}},
    {"noise_from": "batch"},
    {"noise_from": "analyzer"},
    {"side": "over"},
    {"honest": 1},
    {"users": 0},
    {"users": "many"},
    {"precision": 0},
    {"precision": 2**62},
    {"precision": 1.5},
    {"constants": "loose"},
    {"protocol": 3},
    {"front_shares": 1},
    {"share": {"family": "DiscreteLaplace", "scale": 0}},
    {"share": {"family": "DiscreteLaplace", "scale": "1/1000"}},
    {"share": {"family": "DiscreteLaplace", "scale": "1e9"}},
    {"share": {"family": "DiscreteLaplace", "scale": 2**30}},
    {"share": {"family": "DiscreteLaplace", "scale": "1/0"}},
    {"share": {"family": "DiscreteLaplace"}},
    {"share": {"family": "DiscreteLaplace", "scale": 1, "r": 2}},
    {"share": {"family": "Polya", "r": 1, "scale": 1}},
    {"values": {"kind": "range", "low": 1, "high": 0, "binary": False, "clip": False}},
    {"values": {"kind": "range", "low": 0, "high": 1, "binary": 1, "clip": False}},
    {"values": {"kind": "range", "low": 0, "high": 1}},
    {"values": {"kind": "range", "low": -1.7e308, "high": 1.7e308, "binary": False, "clip": False}},
    {"values": {"kind": "ball", "dimension": 2, "clip": False, "diameter": 2.0}},
    {"guarantee": {"notion": "pure", "epsilon": 1.0}},
    {"guarantee": KINDS["real"].guarantee.to_dict() | {"notion": "approximate", "delta": 1e-6}},
    {"guarantee": KINDS["real"].guarantee.to_dict() | {"unit": "user", "participations": 3}},
    {"more": 1},
]


@pytest.mark.parametrize("change", ODD, ids=str)
def test_whatever_is_odd_about_a_number_is_left_to_the_library(change):
    body = KINDS["real"].to_dict() | change
    assert LaplaceNumber.read(body) is None
    batch = Batch(1, bytes(32), json.dumps(body))
    with contextlib.suppress(CroupierError):
        assert isinstance(batch.asked, Mechanism)


@pytest.mark.parametrize(
    "mechanism",
    [
        skellam(epsilon=1.0, delta=1e-6, trust="two-servers").plan(users=40),
        discrete_gaussian(epsilon=1.0, delta=1e-6, trust="two-servers").plan(users=40),
        shared_vectors(epsilon=1.0, delta=1e-6, dimension=2).plan(users=40),
        laplace(epsilon=1.0).plan(users=40),
        shuffled_laplace(epsilon=1.0, binary=True).plan(users=40),
    ],
    ids=lambda one: one.protocol,
)
def test_other_mechanisms_are_the_librarys(mechanism):
    assert LaplaceNumber.read(mechanism.to_dict()) is None


ANALYZER, FRONT = Server.make(), Server.make()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("too little noise", {"share": DiscreteLaplace(Fraction(999, 1000))}),
        ("another precision", {"precision": 2, "share": DiscreteLaplace(2)}),
        ("a smaller batch", {"users": 39}),
    ],
)
def test_an_offer_beyond_the_promise_is_refused_in_fractions(name, change):
    found = configuration(ANALYZER, FRONT, KINDS["binary"])
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    found.check(offer(signed, KINDS["binary"]))
    with pytest.raises(NotCovered):
        found.check(offer(signed, replace(KINDS["binary"], **change)))


def test_several_batches_cost_the_sum_of_what_each_costs():
    half = laplace(epsilon=0.5, binary=True, trust="two-servers").plan(users=40)
    quarter = laplace(epsilon=0.25, binary=True, trust="two-servers").plan(users=40)
    found = configuration(ANALYZER, FRONT, KINDS["binary"])
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    found.check(offer(signed, half, half))
    assert offer(signed, half, quarter).pure == Fraction(3, 4)
    with pytest.raises(NotCovered, match="would cost"):
        found.check(offer(signed, half, half, quarter))
    assert offer(signed, KINDS["binary"], laplace(epsilon=1.0).plan(users=40)).pure is None


SEVERAL = {
    "three": {"a": {"role": "primary"}, "b": {"high": 5, "cap": True}, "c": {"low": -1.5, "high": 7, "share": 0.2}},
    "binary": {"a": {"role": "primary", "share": 0.9}, "b": {}},
}


@pytest.fixture(params=SEVERAL)
def several(request):
    return Metrics.of(SEVERAL[request.param], 1.0).plan(users=40)


def test_several_numbers_are_read_as_the_library_reads_them(several):
    light = LaplaceNumbers.read(json.loads(several.to_json()))
    for name in ("trust", "users", "honest", "guarantee", "recipe", "checkable", "shape", "outputs", "ring", "names"):
        assert getattr(light, name) == getattr(several, name), name
    assert repr(light.prio3) == repr(several.prio3)
    assert light.fits_any_batch
    assert 1 - 1e-12 < light.epsilon <= 1
    assert isinstance(Batch.of(1, bytes(32), several).asked, LaplaceNumbers)
    highest = several.extremes[1]
    assert light.secret(highest, None) == several.secret(highest, SOURCE) == [several.precision] * several.outputs


@pytest.mark.parametrize("value", [1, None, {}, {"a": 1}, {"a": 1, "b": 1, "c": 0, "d": 1}, {"a": 0.5, "b": 1, "c": 1}])
def test_several_numbers_are_refused_with_the_same_words(value):
    library = Metrics.of(SEVERAL["three"], 1.0).plan(users=40)
    light = LaplaceNumbers.read(library.to_dict())
    said = []
    for one in (light, library):
        with pytest.raises(InvalidParameter) as refused:
            one.check_value(value)
        said.append(str(refused.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(more=1),
        lambda body: body.update(version=2),
        lambda body: body.update(kind="SumMechanism"),
        lambda body: body["names"].append("x"),
        lambda body: body["names"].__setitem__(0, "b"),
        lambda body: body["sums"].pop(),
        lambda body: body["sums"][0].update(users=41),
        lambda body: body["sums"][0].update(precision=3),
        lambda body: body["sums"][0]["share"].update(family="Skellam"),
        lambda body: body["guarantee"].update(delta=0.1),
        lambda body: body.update(names=["a"], sums=body["sums"][:1]),
    ],
)
def test_anything_odd_about_several_numbers_is_left_to_the_library(change):
    body = json.loads(Metrics.of(SEVERAL["three"], 1.0).plan(users=40).to_json())
    assert LaplaceNumbers.read(body) is not None
    change(body)
    assert LaplaceNumbers.read(body) is None
