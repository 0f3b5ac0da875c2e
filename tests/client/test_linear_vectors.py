"""The vectors of personalised experiments: what a device computes is what they say, in Python."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from cases import linear_vectors as making
from croupier.checks import CroupierError
from croupier.client.choosing import Choice
from croupier.noise import seeded
from croupier.personal import Personal, Rule, blocks, with_constant
from croupier.protocols import Moments

VECTORS = json.loads(making.PATH.read_text(encoding="utf-8"))
FIXED = ["contexts", "bad-contexts", "moments", "bad-moments", "maps", "deltas", "choices"]


@pytest.mark.parametrize("name", FIXED)
def test_what_needs_no_rule_is_made_again_number_for_number(name):
    assert VECTORS[name] == json.loads(json.dumps(making.GROUPS[name]()))


@pytest.mark.parametrize("entry", VECTORS["rules"], ids=lambda entry: f"{len(entry['rule'])} characters")
def test_a_rule_scores_and_chooses_as_the_vectors_say(entry):
    """A part in 10¹² is left open: products may be added up in any order."""
    rule = Rule.from_json(entry["rule"])
    assert rule.to_json() == entry["rule"]
    for user in entry["users"]:
        found = making.scored(rule, np.asarray(user["x"]))
        assert found["choices"] == user["choices"]
        for key in ("estimates", "scores", "lowest"):
            assert found[key] == pytest.approx(user[key], rel=1e-12, abs=1e-12)


def test_the_rules_have_all_that_a_rule_can_have():
    """Several sets of a parameter, own parameters and a shared one, a control share, optimists among pessimists."""
    rules = [Rule.from_json(entry["rule"]) for entry in VECTORS["rules"]]
    assert {rule.shared for rule in rules} == {True, False}
    assert max(len(own) for rule in rules for own in rule.beliefs) > 1
    assert any(rule.control for rule in rules)
    assert any(rule.optimists < 1.0 for rule in rules)
    users = [user for entry in VECTORS["rules"] for user in entry["users"]]
    assert any(hopeful != fearful for hopeful, fearful in (user["choices"] for user in users))
    assert len({choice for user in users for choice in user["choices"]}) > 2


@pytest.mark.parametrize("text", VECTORS["bad-rules"])
def test_a_text_that_is_no_rule_is_refused(text):
    with pytest.raises(CroupierError):
        Rule.from_json(text)


def test_features_of_actions_are_those_of_the_library():
    (entry,) = VECTORS["maps"]
    assert with_constant(entry["x"]).tolist() == entry["with_constant"]
    assert blocks(entry["x"][1], actions=3).tolist() == entry["blocks"]


def test_every_vector_is_one_that_a_device_reports():
    for entry in VECTORS["moments"]:
        values = Moments(**entry["values"])
        assert asdict(values) == entry["values"]
        assert values.unit(entry["vector"]).shape == (values.dimension,)


@pytest.mark.parametrize("entry", VECTORS["bad-choices"])
def test_what_is_about_something_else_than_was_signed_is_refused(entry):
    def played():
        personal, reward = Personal.read(entry["program"]), entry["reward"]
        rule = Rule.from_json(json.dumps(entry["rule"]))
        choice = Choice(*personal.choose(rule, {"age": 30, "visits": 2}, seeded(1)))
        return personal.report(choice, float(reward) if reward == "nan" else reward, Moments(**entry["values"]))

    if entry["refused"]:
        with pytest.raises(CroupierError):
            played()
    else:
        assert len(played()) == Moments(**entry["values"]).dimension
