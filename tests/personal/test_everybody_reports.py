"""Whether a device reports must not depend on its context: whatever was signed and accepted, every context reports."""

import math
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.noise import seeded
from croupier.personal import Belief, Context, Feature, Personal, Rule
from croupier.protocols import Moments, Values
from croupier.protocols.sums.moments import LEAST

ENDS = st.floats(-1e200, 1e200)
NUMBERS = st.floats(-1.7e308, 1.7e308)
POSITIVE = st.floats(5e-324, 1.7e308)


@st.composite
def ranges(draw):
    low, high = sorted((draw(ENDS), draw(ENDS)))
    if high - low >= 1e-200:
        return low, high
    # Wider towards zero, so that it stays within what a range may be.
    wide = max(1.0, abs(low))
    return (low - wide, low) if low > 0 else (low, low + wide)


@given(
    ends=ranges(),
    value=st.floats(allow_nan=False, allow_infinity=False),
    weight=st.floats(LEAST, 2.0),
    control=st.one_of(st.just(0.0), st.floats(LEAST, 1.0)),
    theta=st.tuples(NUMBERS, NUMBERS),
    values=st.tuples(POSITIVE, POSITIVE),
    widths=st.tuples(*[st.floats(0.0, 1.7e308)] * 3),
    reward=st.floats(0.0, 1.0),
    seed=st.integers(0, 9),
)
@example((0.0, 1e-200), 0.0, LEAST, LEAST, (1.7e308, -1.7e308), (5e-324, 5e-324), (1.7e308,) * 3, 0.0, 0)
def test_every_context_reports_whatever_was_signed(ends, value, weight, control, theta, values, widths, reward, seed):
    context = Context((Feature("age", *ends),), clip=True)
    personal = Personal(("one", "two"), context, (), Values(binary=False), control=0.5)
    belief = Belief(theta, ((1.7e308, 0.0), (0.0, 1.0)), values, *widths)
    other = Belief((0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), (1.0, 1.0), 1.0)
    rule = Rule(((belief,), (other,)), exploration=1e300, optimists=0.5, control=0.5, single=1)
    moments = Moments(features=2, places=2, weight=weight, control=control)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an app may make errors of them
        action, single, vector = personal.choose(rule, {"age": value}, seeded(seed))
        sent = moments.of(vector, reward, action, single)
        assert ((moments.unit(sent) >= 0.0) & (moments.unit(sent) <= 1.0)).all()


@pytest.mark.parametrize("number", [0.0, 5e-324, 1.5e-323, LEAST / 2, -1.0, math.nan])
def test_weights_that_could_silence_some_are_refused(number):
    with pytest.raises(InvalidParameter, match="weight"):
        Moments(features=2, weight=number)
    if number:
        with pytest.raises(InvalidParameter, match="control"):
            Moments(features=2, control=number)


@pytest.mark.parametrize("ends", [(0.0, 5e-324), (1.0, 1.0), (0.0, 1e201), (-1.7e308, 1.7e308), (2.0, 1.0)])
def test_ranges_that_could_silence_some_are_refused(ends):
    with pytest.raises(InvalidParameter, match="age"):
        Feature("age", *ends)


def test_a_vector_beyond_any_report_is_refused_before_anything_is_made_of_it():
    with pytest.raises(InvalidParameter, match="100,000 are most"):
        Moments(features=10**9, places=10**9)
