"""From named numbers to a vector, on the device: what is missing, unknown or out of range is refused by its name."""

import math

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.personal import Context, Feature

CONTEXT = Context((Feature("age", 18, 80), Feature("visits", 0, 20), Feature("share", -1, 1)))


def test_ends_of_ranges_are_ends_of_the_vector():
    low, high = ({"age": a, "visits": v, "share": s} for a, v, s in ((18, 0, -1), (80, 20, 1)))
    edge = 1.0 / math.sqrt(6.0)
    np.testing.assert_allclose(CONTEXT.vector(low), [-edge, -edge, -edge, math.sqrt(0.5)])
    np.testing.assert_allclose(CONTEXT.vector(high), [edge, edge, edge, math.sqrt(0.5)])
    assert math.isclose(np.linalg.norm(CONTEXT.vector(high)), 1.0)
    assert math.isclose(float(CONTEXT.intercept @ CONTEXT.vector(low)), 1.0)


def test_many_users_are_the_users_one_by_one():
    generator = np.random.default_rng(1)
    table = generator.uniform((18, 0, -1), (80, 20, 1), (30, 3))
    together = CONTEXT.rows(table)
    for row, vector in zip(table.tolist(), together, strict=True):
        np.testing.assert_allclose(CONTEXT.vector(dict(zip(CONTEXT.names, row, strict=True))), vector)
    np.testing.assert_allclose(CONTEXT.values(together[:, :-1]), table)


def test_effects_are_changes_of_the_mean_in_the_features_own_units():
    theta = np.asarray([0.2, -0.1, 0.05, 0.3])
    effects = CONTEXT.unit_effects(theta)
    here, older = ({"age": age, "visits": 5, "share": 0.5} for age in (40, 41))
    assert math.isclose(effects[0], float((CONTEXT.vector(older) - CONTEXT.vector(here)) @ theta), abs_tol=1e-12)
    middle = {"age": 49, "visits": 10, "share": 0}
    assert math.isclose(effects[-1], float(CONTEXT.vector(middle) @ theta), abs_tol=1e-12)


def test_without_features_everybody_is_alike():
    np.testing.assert_allclose(Context(()).vector({}), [math.sqrt(0.5)])


def test_a_value_outside_is_moved_to_its_end_where_that_was_asked_for():
    clipping = Context(CONTEXT.features, clip=True)
    far = {"age": 200, "visits": -3, "share": 0.0}
    near = {"age": 80, "visits": 0, "share": 0.0}
    np.testing.assert_array_equal(clipping.vector(far), CONTEXT.vector(near))
    assert CONTEXT.vector({"age": np.float32(30.0), "visits": np.int64(3), "share": 0.0}).shape == (4,)


SOUND = {"age": 40, "visits": 3, "share": 0.0}
BAD = {
    "out of range": ({"age": 17}, r"^age = 17 is not allowed: it must be a number in \[18, 80\]$"),
    "not a number": ({"visits": math.nan}, r"^visits = nan is not allowed: it must be a number in \[0, 20\]$"),
    "infinite": ({"visits": -math.inf}, r"^visits = -inf "),
    "a word": ({"share": "many"}, r"^share = 'many' "),
    "a truth": ({"share": True}, r"^share = True "),
    "missing": ({"visits": None}, r"^visits = None "),
    "misspelt": ({"vists": 3}, r"^context = 'vists' .* did you mean visits\?$"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_context_that_cannot_be_described_is_one_clear_line(case):
    change, words = BAD[case]
    context = {key: value for key, value in (SOUND | change).items() if value is not None}
    with pytest.raises(InvalidParameter, match=words):
        CONTEXT.vector(context)


def test_a_table_s_first_bad_entry_is_named():
    with pytest.raises(InvalidParameter, match="^visits = 21.0 "):
        CONTEXT.rows([[40, 3, 0], [40, 21, 0]])
    with pytest.raises(InvalidParameter, match="^visits = nan "):
        CONTEXT.rows([[40, math.nan, 0]])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("features", lambda: Context((Feature("a"), Feature("a")))),
        ("name", lambda: Feature("")),
        ("a.high", lambda: Feature("a", 1.0, 1.0)),
        ("a.low", lambda: Feature("a", math.nan, 1.0)),
    ],
)
def test_senseless_features_are_refused_by_name(name, call):
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        call()
