"""Personalisation deployed: devices choose by themselves, and neither server learns context, action or reward."""

import hashlib
import json
import random
import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from sqlalchemy import update

from cases.service.personal import ARMS, CONTEXT, EXPERIMENT, NAME, begun, client_of
from croupier.client import NoTurn
from croupier.linear import LinearServer
from croupier.messages.offer import Offer
from croupier.personal import Rule
from croupier.programs.linear import LinearProgram
from croupier.service.problems import Problem
from croupier.service.store.schema import OFFERS
from croupier.service.verifying import BadTranscript, verify

SILENT = 0.3


@pytest.fixture
def service(tmp_path):
    found = begun(tmp_path, validity="none")
    yield found
    found.close()


def played(service, users, seed=1):
    """So many devices come one by one, of whom some never report; what each chose."""
    draw, turns = random.Random(seed), []
    for place in range(users):
        client = client_of(service)
        context = {"age": draw.uniform(18, 80), "evening": draw.uniform(0, 100)}
        try:
            turn = client.play(NAME, context=context)
        except NoTurn:
            # Those who never report make room when their time is over.
            service.settled(1)
            if service.live.program.finished:
                break
            continue
        turns.append(turn)
        client.report(turn, float(draw.random() < (0.8 if (turn.arm == 0) == (context["age"] < 50) else 0.3)))
        if draw.random() >= SILENT:
            client.send_due()
        client.close()
        if place % 8 == 0:
            service.step()
    service.settled(2)
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("validity", ["prio3", "none"])
def test_rule_and_decisions_are_those_of_the_library_s_server_and_verify_replays_them(tmp_path, validity):
    users = {"prio3": 48, "none": 80}[validity]
    few = EXPERIMENT["program"] | {"users": users, "first": users // 4}
    service = begun(tmp_path, EXPERIMENT | {"program": few}, validity=validity)
    turns = played(service, 600)
    transcript = service.live.transcript()
    records = [json.loads(line) for line in transcript.splitlines()]
    released = [record for record in records if record["event"] == "released"]
    assert sum(record["users"] for record in released) == users
    assert {turn.arm_name for turn in turns} == {*ARMS}, "the first users choose at random"

    running = service.live.plan.program()
    assert isinstance(running, LinearProgram)
    server = LinearServer(running.plan)
    for record in (record for record in records if record["event"] in ("opened", "released")):
        if record["event"] == "opened":
            offer = Offer.from_text(record["offer"]["body"])
            assert offer.arm is None
            assert Rule.from_json(record["rule"]) == server.rule
            continue
        [batch] = server.open
        server.arrive(record["users"])
        if server.room:
            server.close()
        server.release(batch.number, tuple(record["decoded"]))
    assert not server.room
    verdict = verify(transcript)
    assert verdict.finished
    assert verdict.result == service.live.program.show()
    service.close()


@pytest.mark.slow
def test_a_log_whose_rule_was_changed_is_refused(service):
    played(service, 50)
    lines = service.live.transcript().splitlines()
    at = next(place for place, line in enumerate(lines) if '"rule"' in line and place > 2)
    record = json.loads(lines[at])
    record["rule"] = record["rule"].replace('"optimists":0.5', '"optimists":0.4')
    lines[at] = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    with pytest.raises(BadTranscript, match=f"line {at + 1} does not follow"):
        verify("\n".join(lines) + "\n")


def test_nothing_that_is_sent_tells_context_action_or_reward(service):
    seen = []
    for context, reward in (({"age": 18, "evening": 0}, 1.0), ({"age": 80, "evening": 100}, 0.0), (CONTEXT, None)):
        client = client_of(service)
        turn = client.play(NAME, context=context)
        assert turn.offer.arm is None
        if reward is not None:
            assert client.report(turn, reward)
        sent = len(client._http.sent)
        client.send_due()
        assert len(client._http.sent) == sent + 1, "whatever came of it, one report is sent"
        seen.append([(path, len(one.content)) for path, one in zip(client._http.paths, client._http.sent, strict=True)])
        text = b"".join(one.url.encode() + one.content for one in client._http.sent)
        assert not any(name.encode() in text for name in (*ARMS, "age", "evening"))
    assert seen[0] == seen[1] == seen[2]


def test_a_turn_that_was_kept_is_reported_days_later_by_another_process(service, tmp_path):
    path = tmp_path / "account.json"
    client = client_of(service, path)
    turn = client.play(NAME, context=CONTEXT)
    client.close()
    later = client_of(service, path)
    [kept] = later.turns
    assert (kept.id, kept.arm, kept.choice) == (turn.id, turn.arm, turn.choice)
    assert later.report(kept, 1)
    later.send_due()
    assert later.turns == []
    again = later.play(NAME, context=CONTEXT)
    assert (again.arm, again.id) == (turn.arm, ""), "who returns sees the same action, and takes no turn"
    later.close()


def test_the_rule_is_fetched_once(service):
    client = client_of(service)
    for _ in range(2):
        client.play(NAME, context=CONTEXT, sticky=False)
    assert client._http.paths.count(f"GET /experiments/{NAME}") == 2  # the analyzer's configuration, the front's rule


BAD = {
    "out of range": ({"age": 81, "evening": 1}, r"age = 81 is not allowed: it must be a number in \[18, 80\]"),
    "missing": ({"age": 30}, "evening = None is not allowed: it must be a number in"),
    "not a number": ({"age": float("nan"), "evening": 1}, "age = nan is not allowed"),
    "infinite": ({"age": float("inf"), "evening": 1}, "age = inf is not allowed"),
    "a text": ({"age": "30", "evening": 1}, "age = '30' is not allowed"),
    "unknown": (CONTEXT | {"height": 1}, "context = 'height' is not allowed: it must be one of age, evening"),
    "a list": ([30, 80], r"context = \[30, 80\] is not allowed: it must be a value for each of age, evening"),
    "a huge number": ({"age": 10**400, "evening": 1}, "age = 10* is|age = 10*… is not allowed: it must be a number in"),
    "digits that no text holds": ({"age": 10**9000, "evening": 1}, "age = a int is not allowed"),
    "a decimal": ({"age": Decimal(30), "evening": 1}, r"age = Decimal\('30'\) is not allowed"),
    "a table": ({"age": np.zeros((3, 3)), "evening": 1}, r"age = array\(\[\[0., 0., 0.\], \[0., "),
    "a long text": ({"age": "x" * 9000, "evening": 1}, "age = 'x{239}… is not allowed"),
    "another key": ({5: 1}, "context = 5 is not allowed: it must be one of age, evening"),
    "pairs": ([("age", 30)], r"context = \[\('age', 30\)\] is not allowed: it must be a value for each of"),
    "none": (None, "context = None is not allowed: it must be a value for each of age, evening"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_context_is_one_clear_line_and_nothing_is_sent_or_charged(service, name):
    context, words = BAD[name]
    client = client_of(service)
    client.join(NAME)
    left, sent = client.left, len(client._http.sent)
    with pytest.raises(NoTurn, match=words) as refused:
        client.play(NAME, context=context)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
    assert (client.left, len(client._http.sent), client.turns) == (left, sent, [])
    shown = client.play(NAME, context=context, default="mail")
    assert (shown.arm_name, shown.is_default) == ("mail", True)
    assert (client.left, len(client._http.sent)) == (left, sent)


def test_a_bad_reward_is_refused_and_the_turn_stays(service):
    client = client_of(service)
    turn = client.play(NAME, context=CONTEXT)
    for bad in (2, -0.5, float("nan"), "1", None, [1], 0.5):  # rewards are 0 or 1 here
        with pytest.raises(ValueError, match="value"):
            client.report(turn, bad)
    assert client.report(turn, True)


def test_a_context_is_refused_where_nobody_chooses(tmp_path):
    from cases.service.shares import NAME as PLAIN
    from cases.service.shares import opened

    service = opened(tmp_path, validity="none")
    client = client_of(service)
    with pytest.raises(NoTurn, match="context = 'given' is not allowed: it must be left out"):
        client.play(PLAIN, context=CONTEXT)
    service.close()


def rewritten(service, change):
    """Another rule at the front, in the place of the one that was signed."""
    with service.servers.front.front.store.database.write() as connection:
        rule = service.live.state.rules[0]
        connection.execute(update(OFFERS).values(rule=change(rule)))


@pytest.mark.parametrize(
    "change",
    [
        lambda rule: rule.replace('"blank":true', '"blank":false'),
        lambda rule: rule.replace('"version":1', '"version":2'),
        lambda rule: "{}",
    ],
    ids=["another", "another version", "none"],
)
def test_a_rule_that_was_not_signed_is_refused_and_nothing_is_charged(service, change):
    rewritten(service, change)
    client = client_of(service)
    left = client.left
    with pytest.raises(NoTurn, match="the front's rule is not the one that both servers signed"):
        client.play(NAME, context=CONTEXT)
    assert (client.left, client.turns) == (left, [])
    assert not any(path.endswith("/reports") for path in client._http.paths)


def test_a_front_signs_no_rule_that_goes_beyond_the_configuration(service):
    """Another than is named, none, and such as would have every device in the control share, or choose otherwise."""
    front, sign = service.servers.front.front, service.servers.keys["analyzer"].sign
    offer, own = service.live.offers[0], service.live.state.rules[0]
    rule = Rule.from_json(own)
    beyond = {
        "missing, or not the one that it names": (own, None),
        "or not the one": (own, own.replace('"blank":true', '"blank":false')),
        "rule.control = 0.4 is not allowed: it must be at most 0.1, as was signed": (
            replace(rule, blank=False, control=0.4, single=0).to_json(),
        ),
        "2 parameters of 3 numbers": (replace(rule, beliefs=rule.beliefs[:2]).to_json(),),
        "version 1": ("{}",),
    }
    for words, (named, *told) in beyond.items():
        other = replace(offer, rule=hashlib.sha256(named.encode()).digest())
        statement = other.statement().signed("analyzer", sign)
        with pytest.raises(Problem, match=re.escape(words)):
            front.open_offer(NAME, offer.number, statement, 60.0, (), None, *(told or [named]))


def test_the_device_pays_what_was_signed(service):
    client = client_of(service)
    before = client.left
    client.play(NAME, context=CONTEXT)
    assert before - client.left == pytest.approx(EXPERIMENT["privacy"]["epsilon"])


@pytest.mark.slow
def test_users_of_each_batch_grow(service):
    played(service, 110)
    sizes = [record["users"] for record in service.records("released")]
    assert all(one <= two for one, two in pairwise(sizes[:-1]))
