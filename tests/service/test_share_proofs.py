"""Reports with proofs between two servers: one that lies in the exchange gains nothing, and what it does is seen."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from cases.service.machine import ANALYZER, FRONT
from cases.service.reporters import experiment, honest, lies
from cases.service.shares import NAME, opened
from croupier.checks import CroupierError
from croupier.messages.signing import Statement, to_text
from croupier.service import keys as key_files
from croupier.service import verifying
from croupier.service.front_shares import FrontShares
from croupier.service.groups import Answer, Group, Reason
from croupier.service.problems import Problem
from croupier.service.receipts import check_share


@pytest.fixture
def service(tmp_path, noiseless):
    found = opened(tmp_path, experiment=experiment("count"))
    yield found
    found.close()


# A server that lies in the exchange


def waiting(service, count):
    for _ in range(count):
        honest(service)
    return service.servers.front.front.group(NAME)


def settle(service, group):
    settling = service.servers.analyzer.analyzer.settling
    digest = hashlib.sha256(group.to_bytes()).digest()
    return service.servers.run(settling._settle(service.live, group, digest))


def test_a_front_that_shows_wrong_verifiers_only_has_reports_refused(service):
    group = waiting(service, 6)
    shown = [report.verifier for report in group.reports]
    wrong = [shown[0], bytes(32), shown[2][:-1], shown[3] + b"\0", b"", b"\xff" * 32]
    lying = replace(group, reports=tuple(replace(r, verifier=v) for r, v in zip(group.reports, wrong, strict=True)))
    answer = settle(service, lying)
    assert answer.reasons == (None, *[Reason.INVALID] * 5)
    assert [len(verifier) for verifier in answer.verifiers] == [32, 0, 0, 0, 0, 0]
    again = settle(service, replace(group, number=group.number + 1))
    assert again.reasons == (Reason.REPEATED,) * 6, "what was looked at once is not looked at again"


def test_an_analyzer_that_shows_wrong_verifiers_only_has_reports_refused(service):
    group = waiting(service, 6)
    answer = settle(service, group)
    assert answer.reasons == (None,) * 6
    true, front = answer.verifiers, service.servers.front.front
    for bad in (b"", bytes(6), bytes(6) + b"".join(true)[:-1], bytes(6) + b"".join(true) + b"\0", b"\x09" * 6):
        with pytest.raises(Problem, match="answer"):
            front.settle(NAME, group.number, bad)
    lies = (true[0], bytes(32), true[0], b"\xff" * 32, true[4], true[5])
    wrong = Answer((None,) * 4 + (Reason.MALFORMED, None), (*lies[:4], b"", lies[5])).to_bytes()
    assert front.settle(NAME, group.number, wrong) == 2
    assert front.store.refused(NAME) == {"invalid": 3, "malformed": 1}
    # The two servers do not hold the same reports any more, and the batch is refused in public.
    service.settled(3)
    for _ in range(12):
        honest(service)
    service.settled(3)
    assert [record["reason"] for record in service.records("refused")] == [
        "the two servers do not hold the same reports"
    ]
    assert service.records("released") == []


@pytest.mark.slow
def test_both_servers_say_the_same_bytes_again_whoever_was_restarted(service):
    group = waiting(service, 5)
    answer = settle(service, group).to_bytes()
    for server in ("front", "analyzer"):
        service.servers.kill(server)
        again = service.servers.front.front.group(NAME)
        assert again.to_bytes() == group.to_bytes()
        assert settle(service, again).to_bytes() == answer
    assert Group.from_bytes(group.to_bytes()) == group


def test_the_analyzer_keeps_no_verifier_and_the_front_no_seed_and_no_share_in_the_clear(
    tmp_path, noiseless, monkeypatch
):
    kept, shares, prepared = [], [], FrontShares._prepared

    def noted(self, arrivals):
        shares.extend(arrival.own for arrival in arrivals)
        found = prepared(self, arrivals)
        kept.extend(arrival.own for arrival in found)
        return found

    monkeypatch.setattr(FrontShares, "_prepared", noted)
    service = opened(tmp_path, experiment=experiment("count"))
    group = waiting(service, 14)
    answer = settle(service, group)
    service.step()
    key = service.servers.keys["analyzer"].proof_key(NAME)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and "db" in path.name]
    written = b"".join(path.read_bytes() for path in files)
    secret = [*shares, *answer.verifiers, *(own[32:] for own in kept), *(own[:32] for own in kept), key]
    assert len(secret) == 4 * 14 + 1
    assert not any(one in written for one in secret)
    service.close()


# The key of proofs


def test_a_front_signs_no_proofs_whose_key_it_was_not_given(service):
    front, configured = service.servers.front.front, service.live.state.configuration(service.live.configured.hash)
    signed = replace(configured, revision=1).statement().signed("analyzer", service.servers.keys["analyzer"].sign)
    for key in (None, bytes(32), b""):
        with pytest.raises(Problem, match="key of its proofs"):
            front.register(NAME, signed, key)
    front.register(NAME, signed, service.servers.keys["analyzer"].proof_key(NAME))


def test_nobody_else_is_told_the_key_of_proofs(service):
    key, secret = (service.servers.keys["analyzer"].proof_key(NAME), service.servers.keys["analyzer"].proofs)
    waiting(service, 3)
    service.step()
    own = (f"/experiments/{NAME}{path}" for path in ("", "/state", "/batches", "/transcript", "/participation"))
    paths = ["/keys", "/metrics", "/openapi.json", *own]
    shown = b"".join(service.servers.ask("GET", base + path).content for base in (FRONT, ANALYZER) for path in paths)
    assert NAME.encode() in shown
    for one in (key, secret):
        assert not any(form in shown for form in (one, one.hex().encode(), to_text(one).encode()))
    assert service.servers.keys["analyzer"].proof_key("other") != key
    assert service.servers.keys["front"].proof_key(NAME) != key


def test_an_analyzer_without_the_key_of_open_turns_says_so_and_goes_on_with_it(service):
    path = Path(service.servers._analyzer.keys) / "proofs"
    waiting(service, 3)
    key = path.read_bytes()
    key_files.renew(path)
    service.servers.kill("analyzer")
    service.step()
    assert "the key for proofs of turn 0 is missing here" in service.live.trouble
    path.write_bytes(key)
    service.servers.kill("analyzer")
    waiting(service, 11)
    service.settled(3)
    assert [record["decoded"] for record in service.records("released")] == [14]
    assert service.servers.front.front.store.refused(NAME) == {}


# In public


@pytest.mark.slow
def test_refusals_are_public_in_receipts_on_the_dashboard_and_to_whoever_verifies(service):
    draw = random.Random(3)
    for name in ("twice as much", "a word beyond the field"):
        lies(service, name, draw)
    for _ in range(12):
        honest(service)
    service.step()
    state = service.servers.ask("GET", f"{ANALYZER}/experiments/{NAME}/state").json()
    assert (state["validity"], state["refused"]) == ("prio3", {})
    for _ in range(2):
        honest(service)
    service.settled(3)
    state = service.servers.ask("GET", f"{ANALYZER}/experiments/{NAME}/state").json()
    assert state["refused"] == {"invalid": 1, "malformed": 1}
    assert [event["refused"] for event in state["events"] if "refused" in event] == [state["refused"]]
    verdict = verifying.verify(service.live.transcript())
    assert (verdict.validity, verdict.refused_reports) == ("prio3", state["refused"])
    # Live counts are in steps, as all of them are: a single one would tell when a report came.
    live = service.servers.ask("GET", f"{FRONT}/experiments/{NAME}/batches").json()
    assert live["refused"] == {"invalid": 0, "malformed": 0}


def test_a_receipt_that_counts_refusals_by_other_names_is_refused(service):
    batch = next(iter(service.live.open.values()))
    waiting(service, 14)
    service.settled(2)
    body = json.loads(service.records("released")[0]["receipt"]["body"])
    pinned, key = service.live.state.configuration(batch.pin), service.servers.keys["front"].sign
    for bad in ({"rude": 1}, {"invalid": 0}, {"invalid": -1}, [], None):
        changed = Statement.of("release", body | {"refused": bad}).signed("front", key)
        with pytest.raises(CroupierError, match="refused"):
            check_share(changed, pinned, batch)
    assert check_share(Statement.of("release", body).signed("front", key), pinned, batch) == body
