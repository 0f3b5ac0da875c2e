"""A personalised experiment as a program: the library's decisions, a rule that follows, a file that is checked."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from cases.linear_users import summed, vectors_of
from cases.program_logs import Log
from cases.programs import ARMS, LINEAR, LINEARS
from croupier.checks import CroupierError, InvalidParameter
from croupier.linear import LinearServer
from croupier.messages.signing import to_text
from croupier.noise import seeded
from croupier.personal import Belief, Context, Feature, Personal, Rule
from croupier.programs import program, replay
from croupier.service.experiment import plan

FILE = {
    "name": "tips",
    "arms": ["video", "mail"],
    "program": {"kind": "linear", "users": 4000, "features": {"age": [18, 80], "visits": [0, 30]}},
}


@pytest.mark.parametrize("case", LINEARS, ids=["own", "shared"])
def test_it_makes_the_decisions_of_the_library_s_server_told_the_same(case):
    """Full batches, such as close early, and such as never fill."""
    running = program(case[0])
    server, steps = LinearServer(running.plan), 0
    while not running.finished:
        [turn], [batch] = running.wanted, server.open
        assert turn.arm is None
        assert turn.batches[0][1] == batch.mechanism
        assert Rule.from_json(turn.rule) == server.rule
        steps += 1
        if steps % 4 == 0:
            running.expired(turn.number, 3)
            continue
        users = batch.mechanism.users if steps % 3 else max(1, batch.mechanism.users // 2)
        decoded = summed(running, batch.mechanism.for_users(users), steps)
        running.released(turn.number, decoded, users)
        server.arrive(users)
        if server.room:
            server.close()
        server.release(batch.number, tuple(decoded))
    assert server.room < running.smallest, "so few are not asked any more"
    assert running.show()["users"] == server.summed > running.plan.users - running.smallest
    assert steps > 6


def test_what_was_searched_for_is_signed_and_need_not_be_found_again():
    found = plan(FILE)
    again = program(found.parameters)
    assert {"noise", "weight", "first"} <= found.parameters.keys()
    assert again.plan == found.program().plan
    assert json.loads(json.dumps(found.parameters)) == found.parameters
    assert found.recipe["smallest"] == 32


def test_laplace_noise_is_pure():
    found = plan(FILE | {"program": FILE["program"] | {"noise": "laplace"}})
    assert (found.privacy.epsilon, found.privacy.delta) == (1.0, 0.0)
    assert found.recipe["protocol"] == "laplace-vectors"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": ["video"]}, "at least two"),
        ({"program": {"features": None}}, "program.features is missing: it must be given"),
        ({"program": {"features": {"age": [80, 18]}}}, "age.high = 18 is not allowed: it must be above"),
        ({"program": {"features": {"age": [18]}}}, "program.features.age = .* two numbers"),
        ({"program": {"described": {"video": [1.0]}}}, "program.described"),
        ({"program": {"described": {"video": [1.0], "mail": [2.0]}}}, "described.mail = 2.0"),
        ({"program": {"described": {"video": [1.0], "mail": 1}}}, "described.mail = 1 .* a list of numbers"),
        ({"program": {"described": {"video": [1.0], "mail": "one"}}}, "described.mail = 'one' .* a list of numbers"),
        ({"program": {"described": {"video": [1.0], "mail": ["1"]}}}, "described.mail = '1' .* a number in"),
        ({"program": {"described": {"video": [1.0], "mail": [[1]]}}}, r"described.mail = \[1\] .* a number in"),
        ({"program": {"described": {"video": [1.0], "mail": []}}}, r"described.mail = \[\] .* a list of numbers"),
        ({"program": {"described": {"video": [1.0], "mail": [1.0, 0.0]}}}, "described = 2 .* as many numbers"),
        ({"program": {"described": 3}}, "program.described = 3 .* a table of numbers"),
        ({"program": {"features": {f"f{i}": [0, 1] for i in range(1000)}}}, "features = 1001 .* 100,000 are most"),
        ({"program": {"described": {"video": [1.0], "mail": [0.0]}, "control": 0.1}}, "single"),
        ({"program": {"single": "letter"}}, "program.single = 'letter'"),
        ({"program": {"exploration": 0.0}}, "program.exploration"),
        ({"program": {"users": 10}}, "program.users"),
        (
            {"program": {"first": 50}, "batches": {"smallest": 60}},
            "batches.smallest = 60 .* at most 50",
        ),
        ({"privacy": {"trust": "shuffler"}}, "privacy.trust"),
        ({"privacy": {"honest_fraction": 0.5}}, "privacy.honest_fraction"),
        ({"reward": {"protocol": "laplace"}}, "reward.protocol"),
        ({"reports": {"default": 2.0}}, "value = 2.0"),
        ({"reports": {"default": "yes"}}, "value = 'yes'"),
    ],
)
def test_a_file_that_says_something_else_is_refused_by_name(change, words):
    body = FILE | change
    if "program" in change:
        body["program"] = {
            key: value for key, value in (FILE["program"] | change["program"]).items() if value is not None
        }
    with pytest.raises(CroupierError, match=words):
        plan(body)


def forged(records, change):
    """A log whose last rule says something else, with a hash that fits."""
    at = max(place for place, record in enumerate(records) if record["event"] == "opened")
    record = json.loads(json.dumps(records[at]))
    record["rule"] = change(record["rule"])
    text = json.loads(record["offer"]["body"])
    text["rule"] = to_text(hashlib.sha256(record["rule"].encode()).digest())
    record["offer"]["body"] = json.dumps(text)
    return [*records[:at], record]


def turned(text):
    """The same rule as another machine may write it: axes turned around, last digits off."""
    rule = Rule.from_json(text)

    def other(belief):
        axes = tuple(tuple(-x for x in row) for row in belief.axes)
        return Belief(
            tuple(t * (1 + 1e-13) for t in belief.theta), axes, belief.values, belief.radius, belief.push, belief.lift
        )

    return replace(rule, beliefs=tuple(tuple(map(other, own)) for own in rule.beliefs)).to_json()


def bolder(text):
    rule = Rule.from_json(text)
    beliefs = tuple(
        (replace(own[0], theta=(own[0].theta[0] + 1e-3, *own[0].theta[1:])), *own[1:]) for own in rule.beliefs
    )
    return replace(rule, beliefs=beliefs).to_json()


def released(steps):
    log = Log(LINEAR, ARMS)
    for step in range(steps):
        [turn] = log.open()
        log.release(turn.number, summed(log.program, turn.batches[0][1], step))
    log.open()
    return log.records


OTHERS = {
    "bolder": bolder,
    "more control": lambda text: replace(Rule.from_json(text), control=0.4).to_json(),
    "another single action": lambda text: replace(Rule.from_json(text), single=0, control=0.0).to_json(),
    "fewer sets": lambda text: replace(Rule.from_json(text), beliefs=Rule.from_json(text).beliefs[:2]).to_json(),
    "no rule": lambda text: "{}",
}


def test_a_rule_is_compared_as_numbers():
    assert [*replay(forged(released(3), turned))][-1].latest.number == 3


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_another_rule_than_the_sums_lead_to_is_refused_whoever_signed_it(change):
    other = forged(released(3), change)
    with pytest.raises(CroupierError, match="rule|version"):
        [*replay(other)]


def test_a_rule_that_is_not_the_signed_one_or_missing_is_refused():
    records = released(1)
    other = [*records[:-1], records[-1] | {"rule": turned(records[-1]["rule"])}]
    with pytest.raises(CroupierError, match="not the one that was signed"):
        [*replay(other)]
    without = [*records[:-1], {key: value for key, value in records[-1].items() if key != "rule"}]
    with pytest.raises(CroupierError, match="has a rule, or none"):
        [*replay(without)]


def test_before_anything_is_known_nothing_is_claimed():
    shown = program(LINEAR).show()
    assert (shown["coefficients"], shown["choices"], shown["gain"]) == ([], [], None)


def test_what_is_shown_is_what_the_findings_say():
    running = program(LINEAR)
    for step in range(20):
        if not running.finished:
            [turn] = running.wanted
            running.released(turn.number, summed(running, turn.batches[0][1], step))
    shown, findings = running.show(), running.server.findings
    gain = findings.gain()
    assert shown["gain"]["gain"] == gain.gain
    assert shown["gain"]["measured"]
    assert shown["gain"]["verdict"] == ("gains" if gain.lower > 0 else "loses" if gain.upper < 0 else "open")
    assert [row["action"] for row in shown["choices"]] == [*ARMS]
    assert {row["coefficient"] for row in shown["coefficients"]} == {"age", "(level)"}
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


def test_described_actions_have_vectors_of_norm_at_most_one():
    personal = Personal(("a", "b"), Context((Feature("age", 0, 1),)), ((1.0, -1.0, 1.0), (-1.0, 1.0, 1.0)))
    for age in (0.0, 0.3, 1.0):
        vectors = personal.vectors({"age": age})
        assert vectors.shape == (2, personal.dimension)
        assert (np.linalg.norm(vectors, axis=1) <= 1.0 + 1e-12).all()
        assert np.allclose(vectors[:, -1], np.sqrt(0.5))


def test_users_of_the_cases_report_vectors_of_users():
    running = program(LINEAR)
    values = vectors_of(running, 50, seeded(1))
    running.plan.moments.unit(values)
    with pytest.raises(InvalidParameter):
        running.plan.moments.unit(2.0 * values)


def shown_after(batches, **changes):
    """What is shown after so many full batches."""
    running = program(LINEAR | {"users": 200_000, "first": 2_000} | changes)
    for step in range(batches):
        [turn] = running.wanted
        running.released(turn.number, summed(running, turn.batches[0][1], step))
    return running.show()


def test_no_coefficient_is_beyond_what_a_mean_can_be_and_none_is_known_whose_interval_is_all_of_that():
    reward = {"low": -2.0, "high": 3.0, "binary": False, "clip": False}
    early, late = shown_after(1, epsilon=0.5, first=100, reward=reward), shown_after(7, epsilon=8.0, reward=reward)
    assert not any(row["known"] for row in early["coefficients"])
    assert any(row["known"] for row in late["coefficients"])
    allowed = {"age": (-5.0 / 62.0, 5.0 / 62.0), "(level)": (-2.0, 3.0)}
    for row in early["coefficients"] + late["coefficients"]:
        least, most = allowed[row["coefficient"]]
        assert least <= row["lower"] <= row["value"] <= row["upper"] <= most
        assert row["known"] == ((row["lower"], row["upper"]) != (least, most))


def test_a_rule_that_explores_less_than_is_proven_says_so():
    assert shown_after(1)["caveat"] == ""
    assert "less than is proven" in shown_after(1, exploration=0.15)["caveat"]
