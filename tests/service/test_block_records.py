"""The log of an experiment in blocks: `verify` replays odds, blocks, turns and the decision, and refuses other ones."""

import json
import random
from dataclasses import replace

import pytest

from cases.service.blocks import PLAN
from cases.service.forgery import parsed, resigned
from cases.service.machine import ANALYZER
from cases.service.shares import opened
from croupier.cli.verify import print_verdict
from croupier.client import AsyncClient, Limits
from croupier.messages.configuration import Configuration
from croupier.messages.signing import Statement
from croupier.programs.interpreter import seconds
from croupier.service.verifying import BadTranscript, verify

pytestmark = pytest.mark.slow

MEANS = (0.15, 0.85)
MINIMUM_RUN = 300
EXPERIMENT = PLAN | {
    "batches": {"smallest": 8, "deadline": 600},
    "control": "green",
    "decision": {"minimum_run": MINIMUM_RUN, "smallest_effect": 0.3},
}


def run(service, blocks=20):
    """Users come until it has ended, of whom one in eight stays silent; an hour passes within a few blocks."""
    chance = random.Random(1)
    for _ in range(blocks * 16):
        if service.live.program.finished:
            break
        for _ in range(8):
            person = service.comes(value=0.0)
            if person is not None and chance.random() < 0.875:
                service.says(person, float(chance.random() < MEANS[person.arm]))
                service.reports(person)
        service.servers.clock.now += 20
        service.step()
    for _ in range(4):
        service.step()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A transcript that ends with a decision, who signed it, and what the dashboard shows."""
    service = opened(tmp_path_factory.mktemp("blocks"), experiment=EXPERIMENT, validity="none")
    run(service)
    text = service.servers.ask("GET", f"{ANALYZER}/experiments/{service.name}/transcript").text
    state = service.servers.ask("GET", f"{ANALYZER}/experiments/{service.name}/state").json()
    keys = {server: service.servers.keys[server] for server in ("analyzer", "front")}
    service.close()
    return text, keys, state


def test_a_true_transcript_has_its_blocks_and_its_decision(told, capsys):
    text, keys, state = told
    verdict = verify(text, {server: key.verify for server, key in keys.items()})
    assert verdict.finished
    assert verdict.blocks == verdict.released / 2 >= 2
    assert verdict.decision["kind"] == "better"
    # The control leads: it is compared with the other arm.
    assert (verdict.decision["leader"], verdict.decision["reference"]) == (1, 0)
    (decided,) = (record for record in parsed(text) if record["event"] == "decided")
    assert verdict.decision == decided["decision"]
    assert state["decision"]["sentence"].startswith("green scores more than red by ")
    assert len(state["curve"]) == verdict.blocks
    print_verdict(verdict)
    printed = capsys.readouterr().out
    assert f"{verdict.blocks} whole ones" in printed
    assert "decided      green scores more than red by " in printed
    assert state["odds"] == [0.5, 0.5]
    assert state["program"]["turns"][0] >= state["program"]["arms"][0]["users"]


def test_nothing_is_decided_before_the_minimum_run_is_over(told):
    records = parsed(told[0])
    first = next(record for record in records if record["event"] == "opened")
    last = next(record for record in records if record["event"] == "decided")
    assert seconds(last["at"]) - seconds(first["at"]) >= MINIMUM_RUN
    early = [record for record in records if seconds(record["at"]) - seconds(first["at"]) < MINIMUM_RUN / 2]
    assert sum(record["event"] == "released" for record in early) >= 4, "some blocks would have sufficed"


def test_with_exploit_everybody_is_shown_the_winner_when_it_has_ended(tmp_path):
    """Without a turn and without a report: also who has seen another arm. Another winner is no revision of its own."""
    plan = EXPERIMENT | {"decision": EXPERIMENT["decision"] | {"then": "exploit"}}
    service = opened(tmp_path, experiment=plan, validity="none")
    servers, keys = service.servers, {name: key.verify for name, key in service.servers.keys.items()}

    def client():
        limits = Limits(epsilon=10.0, epsilon_per_period=100.0, plain_http=True)
        return AsyncClient(ANALYZER, http=servers.http, keys=keys, limits=limits, background=False)

    early = client()
    first = servers.run(early.play(service.name))
    run(service)
    newest = Configuration.from_text(service.live.configured.text)
    assert (newest.chosen, newest.revision) == (1, 1)
    early.device.joined.clear()  # As when the app is opened again.
    for one in (early, client()):
        shown = servers.run(one.play(service.name))
        assert (shown.arm_name, shown.is_default, shown.id) == ("green", False, "")
    assert first.id
    text = servers.ask("GET", f"{ANALYZER}/experiments/{service.name}/transcript").text
    assert verify(text).configurations == 2
    last = parsed(text)[-1]
    other = replace(newest, chosen=0).statement()
    for server in ("analyzer", "front"):
        other = other.signed(server, servers.keys[server].sign)
    forged = [*parsed(text)[:-1], last | {"configuration": other.to_dict()}]
    with pytest.raises(BadTranscript, match="everybody is to be shown arm 0, and it has ended with 1"):
        verify(resigned(forged, servers.keys["analyzer"].sign))
    service.close()


def offered(record, keys, **changes):
    """An offer with other words, signed by the analyzer again."""
    body = json.loads(record["offer"]["body"])
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = body
        for key in outer:
            place = place[key]
        place[last] = value
    return record | {"offer": Statement.of("offer", body).signed("analyzer", keys["analyzer"].sign).to_dict()}


def forgeries(records, keys):
    """What an analyzer might sign instead, each with the place of the record and what is said of it."""
    opened_at = [at for at, record in enumerate(records) if record["event"] == "opened"]
    released_at = [at for at, record in enumerate(records) if record["event"] == "released"]
    first, later = opened_at[0], opened_at[2]
    for at, changes, why in (
        (first, {"odds": 0.6}, "has odds 0.6, and the program gives it 0.5"),
        (first, {"block__users": 65}, "and the program has it in"),
        (first, {"block__epoch": 1}, "and the program has it in"),
        (first, {"block__batches": [0]}, "and the program has it in"),
        (later, {"block__number": 0}, "and the program has it in"),
        (later, {"block__left": 10}, "and the program has it in"),
    ):
        yield at, offered(records[at], keys, **changes), why
    at = released_at[1]
    yield at, records[at] | {"turns": records[at]["turns"] + 1}, "and the front signed for"
    yield at, records[at] | {"over": True}, "and the front signed for"
    yield at, records[at] | {"silent": [[0, 1]]}, "and the front signed for"
    for wrong in (1, [1], [[0]], [[0, -1]], [[0, True]]):
        told = json.loads(records[at]["receipt"]["body"]) | {"silent": wrong}
        by_front = Statement.of("release", told).signed("front", keys["front"].sign).to_dict()
        yield at, records[at] | {"receipt": by_front, "silent": wrong}, "the receipt says silent"
    yield at, {key: value for key, value in records[at].items() if key != "turns"}, "and the front signed for"
    receipt = json.loads(records[at]["receipt"]["body"]) | {"turns": 10**6}
    forged = Statement.of("release", receipt).signed("front", keys["analyzer"].sign).to_dict()
    yield at, records[at] | {"receipt": forged, "turns": 10**6}, "signature"
    few = json.loads(records[at]["receipt"]["body"]) | {"turns": records[at]["users"] - 1}
    by_front = Statement.of("release", few).signed("front", keys["front"].sign).to_dict()
    yield at, records[at] | {"receipt": by_front, "turns": few["turns"]}, "the receipt says turns"
    other = json.loads(records[at]["receipt"]["body"]) | {"block": 7}
    by_front = Statement.of("release", other).signed("front", keys["front"].sign).to_dict()
    yield at, records[at] | {"receipt": by_front}, "the receipt says block"
    decided = next(at for at, record in enumerate(records) if record["event"] == "decided")
    for change in ({"leader": 0}, {"kind": "no difference"}, {"lower": 0.9}, {"silent": True}, {"confidence": 0.99}):
        decision = records[decided]["decision"] | change
        yield decided, records[decided] | {"decision": decision}, "what was released before leads to"
    early = max(at for at in released_at if at < decided)
    yield early, records[decided], "what was released before leads to"


def test_other_odds_blocks_turns_and_decisions_are_refused(told):
    """All records up to it are signed again by the analyzer itself, in their right places."""
    text, keys, _ = told
    records = parsed(text)
    for at, forged, why in forgeries(records, keys):
        with pytest.raises(BadTranscript, match=f"line {at + 1} ") as refusal:
            verify(resigned([*records[:at], forged], keys["analyzer"].sign))
        assert why in str(refusal.value), (forged["event"], str(refusal.value))


def test_an_analyzer_cannot_pretend_that_time_has_passed(told):
    """With other times a decision would have come earlier, and what follows in the log would not follow."""
    text, keys, _ = told
    records = parsed(text)
    released = [at for at, record in enumerate(records) if record["event"] == "released"]
    future = {"at": "2030-01-01T00:00:00+00:00"}
    later = [record | future if at >= released[3] else record for at, record in enumerate(records)]
    with pytest.raises(BadTranscript):
        verify(resigned(later, keys["analyzer"].sign))
