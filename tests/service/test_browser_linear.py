"""A linear bandit's device in a real Chromium: the numbers of `croupier.personal`, `Moments`, draws and refusals."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cases.linear_vectors import PROGRAM
from cases.service.browser_pages import SEEDED, Asked, browsing
from cases.service.staged import RULE, personal_stage, stage, value_of
from croupier.client.choosing import Choice
from croupier.personal import Belief, Personal, Rule, with_constant
from croupier.protocols import Moments, protocol

pytestmark = pytest.mark.slow

VECTORS = json.loads((Path(__file__).parents[1] / "client" / "linear_vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser-linear") / "site") as found:
        yield found


@pytest.fixture(scope="module")
def ask(browser):
    return Asked(*browser)


def test_contexts_become_the_same_vectors_to_the_last_bit(ask):
    cases = VECTORS["contexts"]
    assert [one["found"] for one in ask("contextVectors", cases)] == [one["vector"] for one in cases]


def test_a_users_moments_are_the_same_to_the_last_bit_and_as_far_apart(ask):
    cases, precisions = VECTORS["moments"], VECTORS["precisions"]
    for one, answer in zip(cases, ask("momentVectors", {"cases": cases, "precisions": precisions}), strict=True):
        found = answer["found"]
        assert found["vector"] == one["vector"]
        assert found["scaled"] == one["scaled"]
        assert found["dimension"] == len(one["vector"])
        assert found["diameter"] == pytest.approx(one["diameter"], rel=1e-15)
        assert found["taxicab"] == pytest.approx(one["taxicab"], rel=1e-15)
        np.testing.assert_allclose(found["reach"], one["reach"], rtol=1e-15)


def test_rules_score_and_choose_as_in_python(ask):
    """Products may be added up in another order: a part in 10¹² is left open."""
    for one, found in zip(VECTORS["rules"], ask("ruleVectors", VECTORS["rules"]), strict=True):
        for user, ours in zip(one["users"], found, strict=True):
            assert ours["choices"] == user["choices"]
            for key in ("estimates", "scores", "lowest"):
                assert ours[key] == pytest.approx(user[key], rel=1e-12, abs=1e-12)


def test_a_report_costs_what_it_does_in_python(ask):
    costs = [delta for one in VECTORS["deltas"] for _, delta in one["costs"]]
    assert any(delta == 0.0 for delta in costs)
    assert ask("vectorDeltas", VECTORS["deltas"]) == pytest.approx(costs, rel=1e-9, abs=0.0)


def test_numbers_are_rounded_to_either_side_with_the_right_chance(browser):
    """Every entry's mean over 4,000 roundings of a fixed source is within 5.5 deviations: one source in 10⁶ fails."""
    context, origin = browser
    seeded = context.browser.new_context()
    seeded.add_init_script(SEEDED)
    values = Moments(3, places=2, weight=1.3, control=0.4)
    vector = values.of([0.1234, 0.5, 0.5**0.5], 0.3, 1, control=True)
    asked = protocol("laplace-vectors", epsilon=1.0, dimension=values.dimension, precision=16).about(values)
    given = {"mechanism": asked.plan(100).to_json(), "vector": vector.tolist(), "times": 4_000}
    drawn = np.array(Asked(seeded, origin)("vectorRoundings", given))
    seeded.close()
    scaled = values.unit(vector) * 16
    chance = scaled - np.floor(scaled)
    assert ((drawn == np.floor(scaled)) | (drawn == np.floor(scaled) + 1)).all()
    assert (np.abs((drawn - scaled).mean(axis=0)) <= 5.5 * np.sqrt(chance * (1 - chance) / 4_000)).all()


def test_features_of_actions_are_the_same_to_the_last_bit(ask):
    (one,) = VECTORS["maps"]
    found = ask("featureMaps", one)
    assert found == {key: one[key] for key in found}


def test_bad_contexts_and_vectors_are_refused_by_the_same_names(ask):
    found = ask("contextVectors", VECTORS["bad-contexts"])
    found += ask("momentVectors", {"cases": VECTORS["bad-moments"], "precisions": VECTORS["precisions"]})
    for one, answer in zip(VECTORS["bad-contexts"] + VECTORS["bad-moments"], found, strict=True):
        assert answer.get("kind") == "RangeError", (one, answer)
        assert answer["refused"].startswith(f"{one['names']} = "), (one, answer)
        assert " is not allowed: it must be " in answer["refused"]


def test_programs_choices_and_what_is_reported_of_them_are_the_same_to_the_last_bit(ask):
    for one, found in zip(VECTORS["choices"], ask("personalVectors", VECTORS["choices"]), strict=True):
        assert found["vectors"] == one["vectors"]
        assert found["report"] == one["report"]
        assert found["dimension"] == one["values"]["features"]


def test_what_is_about_something_else_than_was_signed_is_refused(ask):
    found = ask("personalRefusals", VECTORS["bad-choices"])
    assert [kind is not None for kind in found] == [one["refused"] for one in VECTORS["bad-choices"]]


def test_texts_that_are_no_rules_are_refused(ask):
    assert {*ask("ruleTexts", VECTORS["bad-rules"])} == {"malformed", "unsupported"}


def changes(vector, values):
    """A user's vector, changed so that no user has it: further out, in two places, off its own line."""
    own = values["features"] * (values["features"] + 3) // 2
    yield [3.0 * number for number in vector]
    yield [-number for number in vector]
    yield [*vector[:-1]]
    yield [*vector[:-1], None]
    if values["places"] > 1:
        yield [*vector[own : 2 * own], *vector[own : 2 * own], *vector[2 * own :]]
        yield [*vector[:own], *vector[:own], *vector[2 * own :]]
    if values["control"]:
        yield [*vector[:-1], vector[-1] + 0.1]
        yield [*vector[:-2], 0.9, vector[-1]]


def test_no_vector_is_sent_that_is_no_users(ask):
    """It could lie further from others than two users can."""
    cases = [
        {"values": one["values"], "vector": changed}
        for one in VECTORS["moments"]
        for changed in changes(one["vector"], one["values"])
        if changed != one["vector"] and any(changed[:-2] if one["values"]["control"] else changed)
    ]
    assert len(cases) > 30
    assert {*ask("strangers", cases)} == {"RangeError"}
    assert {*ask("strangers", VECTORS["moments"])} == {None}


FAR = Belief((0.3, 0.0), ((1.0, 0.0), (0.0, 1.0)), (400.0, 400.0), radius=0.5)
UNSURE = Belief((0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), (1.0, 1.0), radius=2.0)
DRAWN = Rule(((FAR,), (UNSURE,), (UNSURE,)), optimists=0.3, control=0.2, single=2)
"""An optimist tries the second action, a pessimist plays the first; the control share plays the third."""
SHARES = {"0": 0.8 * 0.7, "1": 0.8 * 0.3, "control 2": 0.2}
BLANK = Rule(((UNSURE,), (UNSURE,), (UNSURE,)), blank=True)
WATCHED = replace(BLANK, control=0.2)
"""While nothing is known the control share is drawn, and plays like the others."""
EITHER = {f"{kind}{k}": share / 3 for k in range(3) for kind, share in (("", 0.8), ("control ", 0.2))}


@pytest.mark.parametrize(
    ("rule", "shares"), [(DRAWN, SHARES), (BLANK, {str(k): 1 / 3 for k in range(3)}), (WATCHED, EITHER)]
)
def test_draws_have_the_shares_of_the_rule(browser, rule, shares):
    """Pearson's test on 20,000 draws of a fixed source; each of the three would fail once in 10⁶ sources."""
    context, origin = browser
    seeded = context.browser.new_context()
    seeded.add_init_script(SEEDED)
    found = Asked(seeded, origin)("plays", {"rule": rule.to_json(), "x": [0.6, 0.5], "times": 20_000})
    assert found.keys() == shares.keys()
    expected = [20_000 * shares[name] for name in found]
    assert stats.chisquare(list(found.values()), expected).pvalue > 1e-6
    seeded.close()


def test_a_device_chooses_among_a_hundred_actions_within_a_millisecond(ask):
    """20 features, either way; the bound is for an idle machine, so ten times as long is allowed here."""
    generator = np.random.default_rng(1)
    axes = np.linalg.qr(generator.normal(size=(20, 20)))[0].tolist()
    belief = Belief(tuple(generator.normal(size=20) / 9), tuple(map(tuple, axes)), tuple(range(1, 21)), 1.0, 0.5, 0.1)
    raw = generator.normal(size=(100, 19))
    x = with_constant(raw / np.linalg.norm(raw, axis=1, keepdims=True))
    shared = {"rule": Rule(((belief, belief),), optimists=0.5).to_json(), "x": x.tolist()}
    own = {"rule": Rule(((belief, belief),) * 100, optimists=0.5).to_json(), "x": x[0].tolist()}
    for given in (shared, own):
        took = ask("choosing", given | {"times": 30})
        assert took["median"] < 10.0, took
        print(f"{took['median']:.3f} ms, at first {took['first']:.2f} ms")


YOUNG, OLD = {"age": 13.25, "visits": 7}, {"age": 87.5, "visits": 7}


def test_a_personalised_turn_is_played_by_the_rule_and_reported_as_one_vector(ask):
    """Nothing that is sent holds the context; all reports are as long, whatever was played and whatever came of it."""
    given, personal = personal_stage(), Personal.read(PROGRAM)
    people = [(OLD, 5.0), (YOUNG, 0.0), (OLD, 2.5), (YOUNG, None)]
    found = ask("personalTurns", given | {"people": people})
    assert [one["arm"] for one in found] == [0, 1, 0, 1]
    assert [one["armName"] for one in found] == ["video", "mail", "video", "mail"]
    for (context, reward), one in zip(people, found, strict=True):
        assert one["same"]
        assert one["sent"] == ["GET configuration", "POST assignments", "GET rules", "POST reports"]
        assert not any(str(context["age"]) in said or "age" in said for said in one["said"])
        choice = Choice(one["arm"], False, tuple(personal.vectors(context).tolist()))
        assert one["choice"] == {"action": choice.action, "control": False, "vector": [*choice.vector]}
        report, numbers = value_of(given, one["upload"])
        assert report == one["id"]
        values = Moments(3, places=3, weight=0.8, control=0.5)
        vector = np.array(personal.report(choice, 0.0 if reward is None else reward, values))
        assert np.abs(np.array(numbers) - (vector + 1) * 512).max() < 1
        assert one["bytes"] == len(one["upload"]) // 2
    assert len({len(one["upload"]) for one in found}) == 1


BAD = {
    "visits = undefined": {"age": 30},
    "age = NaN": {"age": "nan", "visits": 2},
    "age = 101": {"age": 101, "visits": 2},
    "visits = 2": {"age": 30, "visits": "2"},
    "visits = 1,2": {"age": 30, "visits": [1, 2]},
    "context = height": {"age": 30, "visits": 2, "height": 1},
    "context = undefined": None,
}


def test_a_bad_context_is_one_clear_line_and_nothing_is_sent(ask):
    found = ask("personalRefused", personal_stage() | {"contexts": [*BAD.values()]})
    for said, one in zip(BAD, found, strict=True):
        assert one["message"].startswith(f"unusable: {said} is not allowed: it must be "), one
    odd = ask("oddRefused", personal_stage())
    assert len(odd) == 19
    for one in found + odd:
        assert one["isNoTurn"]
        assert re.match("unusable: (context|age) = .* is not allowed: it must be |unusable: visits = ", one["message"])
        assert "\n" not in one["message"]
        assert len(one["message"]) < 400
        assert one["sent"] == ["GET configuration"]
        assert one["left"] == 4.0


def test_rules_that_were_not_signed_or_are_about_something_else_are_refused_before_anything_is_reported(ask):
    small = Belief((0.0,), ((1.0,),), (1.0,), radius=1.0)
    wrong = {
        "not the one that both servers signed": personal_stage(told=replace(RULE, optimists=0.5)),
        "not about 3 parameters of 3 numbers": personal_stage(Rule(((small,),) * 3)),
        "a control share of 0.5": personal_stage(replace(RULE, control=0.5)),
    }
    for said, given in wrong.items():
        (one,) = ask("personalRefused", given | {"contexts": [OLD]})
        assert one["message"].startswith("not-covered: ")
        assert said in one["message"]
        assert one["sent"] == ["GET configuration", "POST assignments", "GET rules"]
        assert one["left"] == 4.0


def test_offers_have_a_rule_if_and_only_if_devices_choose(ask):
    plain = stage("vectors-proved")
    (one,) = ask("personalRefused", plain | {"contexts": [OLD]})
    assert one["message"] == "unusable: context = given is not allowed: it must be left out: nobody chooses in colours"
    assert one["sent"] == ["GET configuration"]
    without = personal_stage(rule=None)
    (one,) = ask("personalRefused", without | {"contexts": [OLD]})
    assert (one["message"].split(":")[0], one["sent"][-1]) == ("not-covered", "POST assignments")
    assert one["left"] == 4.0
