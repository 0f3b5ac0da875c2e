"""What is no value, no report and no view is refused in words, at every door of every mechanism."""

import pytest

from cases.protocols import SENDABLE, make
from croupier.checks import CroupierError
from croupier.noise import seeded
from croupier.protocols import histogram, selection
from croupier.protocols.histograms.target import MODELS

NEITHER = ["seven", b"x", None, {}, 1j, [[1, 2], [3]], [[[1, 2], [3]]], object(), 10**400, [10**400] * 32]
"""Nothing that anyone could report, nor the reports of anyone."""
PLANS = (
    [("sum", *case) for case in SENDABLE]
    + [("histogram", model, "") for model in MODELS]
    + [("selection", model, "") for model in MODELS if model != "two-servers"]
)


def planned(kind, name, setting):
    if kind == "sum":
        return make(name, setting).plan(32)
    if kind == "histogram":
        return histogram(universe=["a", "b", "c"], model=name, epsilon=5.0).plan(32)
    return selection(size=3, model=name, epsilon=5.0).plan(32)


@pytest.mark.parametrize(("kind", "name", "setting"), PLANS)
def test_every_door_refuses_what_is_none_in_words(kind, name, setting):
    mechanism = planned(kind, name, setting)
    doors = [
        mechanism.collect,
        mechanism.check_value,
        *(
            lambda thing, door=door: door(thing, seeded(1))
            for door in (mechanism.randomize, mechanism.analyze, mechanism.run, mechanism.simulate)
        ),
    ]
    for thing in NEITHER:
        for door in doors:
            with pytest.raises(CroupierError):
                door(thing)


def beyond(mechanism):
    """A value just past the last that a user may report."""
    last = mechanism.extremes[1]
    if isinstance(last, str):
        return last + "!"
    return [1.0, 1e-5, 0.0] if mechanism.outputs else last + 1


@pytest.mark.parametrize(("kind", "name", "setting"), PLANS)
def test_a_value_past_the_last_is_refused_and_the_last_is_not(kind, name, setting):
    mechanism = planned(kind, name, setting)
    for end in mechanism.extremes:
        mechanism.check_value(end)
    with pytest.raises(CroupierError):
        mechanism.check_value(beyond(mechanism))
