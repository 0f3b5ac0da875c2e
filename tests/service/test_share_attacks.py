"""Attacks on totals in shares: each fails, and each succeeds once its guard is removed.

The attacker is one server with all its keys, its stores and every other client. Values are powers of two without noise
where a test wants to see who is in a sum; noise is real where it is what protects.
"""

import json
from dataclasses import replace

import pytest

from cases.service.share_attacker import held, settle, settled, waiting_group
from cases.service.shares import NAME, PLAN, USERS, one_bit_a_user, opened
from croupier.client import uploads
from croupier.messages import shares as shares_module
from croupier.messages.offer import Batch
from croupier.messages.shares import share_info
from croupier.service import front_shares, settling
from croupier.service.groups import Answer, BadGroup, Group, Reason, Sealed
from croupier.service.keys import Keys
from croupier.service.store import StoreProblem
from croupier.service.store.analyzer import AnalyzerStore
from croupier.service.store.database import Database

# Copies: a victim's share counted m times under one noise tells m times its value


@pytest.fixture
def service(tmp_path, monkeypatch, validity):
    with one_bit_a_user(monkeypatch):
        found = opened(tmp_path, validity=validity)
        yield found
        found.close()


def test_a_copy_within_a_group_does_not_count(service):
    group = waiting_group(service)
    copies = replace(group, reports=(*group.reports, *[group.reports[0]] * 3))
    assert settle(service, copies) == [None] * USERS + [Reason.REPEATED] * 3
    assert held(service, group.batches[0]).reports == USERS


@pytest.fixture
def forgets_names(monkeypatch):
    """Both guards removed: what was counted is not looked up, and the table does not insist on it either."""
    monkeypatch.setattr(AnalyzerStore, "_reasons", lambda self, connection, opened: [None] * len(opened))

    def put(self, connection, table, rows):
        connection.execute(table.insert().prefix_with("OR IGNORE"), rows)

    monkeypatch.setattr(Database, "put", put)


def test_without_the_memory_of_names_a_copy_counts(forgets_names, service):
    group = waiting_group(service)
    settle(service, replace(group, reports=(group.reports[0],) * 5))
    assert held(service, group.batches[0]).reports == 5


def test_a_copy_in_a_later_group_or_after_a_restart_does_not_count(service):
    group = waiting_group(service)
    assert settle(service, group) == [None] * USERS
    assert settle(service, replace(group, number=group.number + 1)) == [Reason.REPEATED] * USERS
    service.servers.kill("analyzer")
    assert settle(service, replace(group, number=group.number + 2)) == [Reason.REPEATED] * USERS
    assert held(service, group.batches[0]).reports == USERS


def copied_to_the_next_batch(service):
    """A group of an arm's batch, shown again for the arm's next one; what became of it, the sum of each batch."""
    group = waiting_group(service)
    settled(service)
    (first,) = group.batches
    sums, arm = [held(service, first)], service.live.state.turns[first].arm
    for _ in range(30):
        service.settled(1)
        later = [n for n in service.live.open if n != first and service.live.state.turns[n].arm == arm]
        if later:
            break
        if (person := service.comes()) is not None:
            service.reports(person)
    assert first in service.live.done
    reasons = settle(service, replace(group, number=group.number + 1000, batches=(later[0],)))
    return reasons, [*sums, held(service, later[0])]


def test_a_copy_in_the_arms_next_batch_does_not_count(service):
    reasons, (_, later) = copied_to_the_next_batch(service)
    assert reasons == [Reason.REPEATED] * USERS
    assert later is None


@pytest.mark.slow
def test_without_the_memory_of_names_the_next_batch_has_the_same_sum_again(forgets_names, service):
    """So the same users' values are told twice, each time under one noise."""
    reasons, (first, later) = copied_to_the_next_batch(service)
    assert reasons == [None] * USERS
    assert later == first


def test_once_names_are_forgotten_under_a_key_that_still_opens_a_copy_counts(service, monkeypatch):
    """So names are forgotten only after their key is destroyed, and it is remembered that it was."""
    group = waiting_group(service)
    settle(service, group)
    key = service.servers.analyzer.analyzer.keys.newest("x25519-aes128gcm")
    service.servers.analyzer.store.forget_names(key.id)
    assert settle(service, replace(group, number=group.number + 1)) == [Reason.UNOPENABLE] * USERS
    monkeypatch.setattr(AnalyzerStore, "_destroyed", lambda self, connection: set())
    assert settle(service, replace(group, number=group.number + 2)) == [None] * USERS
    assert held(service, group.batches[0]).reports == 2 * USERS


# Moves: a report would count where it is alone, or under another promise


def test_a_share_that_was_renamed_cut_padded_or_swapped_does_not_open(service):
    group = waiting_group(service)
    victim = group.reports[0]
    renamed = replace(victim, report=bytes(16))
    other = replace(victim, configuration=bytes(32))
    cut, padded = replace(victim, sealed=victim.sealed[:-1]), replace(victim, sealed=victim.sealed + b"\0")
    swapped = replace(victim, sealed=group.reports[1].sealed)
    bad = (renamed, other, cut, padded, swapped)
    found = settle(service, replace(group, reports=(*bad, group.reports[2])))
    assert found == [Reason.UNOPENABLE] * 5 + [None]


UNBOUND = {
    "name": lambda bound: {"report": b""},
    "arm": lambda bound: {"scope": bound["scope"][4:]},
    "configuration": lambda bound: {"configuration": b""},
    # A configuration names its experiment, so that one is left out too.
    "experiment": lambda bound: {"configuration": b"", "experiment": ""},
}
"""What shares are bound to, with one thing left out."""


@pytest.fixture(params=[True, False], ids=["bound", "not bound"])
def leave_out(request, monkeypatch):
    """The guard; and without it, at devices and servers alike."""

    def leaving(what):
        if request.param:
            return Reason.UNOPENABLE

        def info(*about):
            bound = dict(zip(("experiment", "configuration", "scope", "part", "report"), about, strict=True))
            return share_info(**bound | UNBOUND[what](bound))

        for module in (uploads, settling, front_shares):
            monkeypatch.setattr(module, "share_info", info)
        return None

    return leaving


def test_a_share_under_another_reports_name_does_not_open(leave_out, service, validity):
    """A front that would count a copy as somebody else's."""
    expected = leave_out("name")
    if expected is None and validity == "prio3":
        # A proof is made for one name besides.
        expected = Reason.INVALID
    group = waiting_group(service)
    renamed = tuple(replace(report, report=bytes([place] * 16)) for place, report in enumerate(group.reports))
    assert settle(service, group) == [None] * USERS
    again = settle(service, replace(group, number=group.number + 1, reports=renamed))
    assert again == [expected] * USERS
    assert held(service, group.batches[0]).reports == USERS * (1 if expected else 2)


def test_a_share_of_another_arm_does_not_open(tmp_path, monkeypatch, validity, leave_out):
    """A front that moves a report to another arm's batch: the seal names the arm."""
    expected = leave_out("arm")
    with one_bit_a_user(monkeypatch):
        together = {"program": {"policy": "vb-sdp-ae", "horizon": 100_000}}
        service = opened(tmp_path, experiment=PLAN | together, validity=validity)
        people = {}
        while len(people) < 2:
            person = service.comes()
            people.setdefault(person.arm, person)
            service.reports(person)
        group = service.servers.front.front.group(NAME)
        offers = {offer.arm: offer for offer in service.live.offers.values()}
        own = next(arm for arm, offer in offers.items() if offer.batches[0].number == group.batches[0])
        moved = replace(group, batches=(offers[1 - own].batches[0].number,))
        assert settle(service, moved) == [expected] * len(group.reports)
        service.close()


def test_a_share_under_another_revision_of_its_experiment_does_not_open(leave_out, service):
    """A front that says of a report that it was made under a configuration that the device has never seen."""
    expected = leave_out("configuration")
    group, state = waiting_group(service), service.live.state
    found = replace(state.configuration(service.live.configured.hash), revision=1, title="Another title")
    state.configurations[found.statement().hash] = found.statement()
    moved = [replace(report, configuration=found.statement().hash) for report in group.reports]
    assert settle(service, replace(group, reports=tuple(moved))) == [expected] * USERS


def test_a_share_of_another_experiment_of_the_same_servers_does_not_open(tmp_path, monkeypatch, validity, leave_out):
    """A front that moves reports to where fewer take part; both experiments seal to one key."""
    expected, proof_key = leave_out("experiment"), Keys.proof_key
    if expected is None:
        # The check of proofs has a key of each experiment's own besides.
        monkeypatch.setattr(Keys, "proof_key", lambda self, name: proof_key(self, ""))
    with one_bit_a_user(monkeypatch):
        service = opened(tmp_path, validity=validity, beside=[PLAN | {"name": "shapes"}])
        group, other = waiting_group(service), service.servers.analyzer.analyzer.live["shapes"]
        assert settle(service, group) == [None] * USERS
        (number,) = other.open
        moved = tuple(replace(report, configuration=other.configured.hash) for report in group.reports)
        # Names are remembered by the key: that they were counted is another guard.
        key = service.servers.analyzer.analyzer.keys.newest("x25519-aes128gcm")
        service.servers.analyzer.store.forget_names(key.id)
        monkeypatch.setattr(AnalyzerStore, "_destroyed", lambda self, connection: set())
        found = settle(service, replace(group, batches=(number,), reports=moved), "shapes")
        assert found == [expected] * USERS
        sums = [held(service, group.batches[0]), held(service, number, "shapes")]
        assert sums[1] == (None if expected else sums[0])
        service.close()


# Another encoding under the same signature: a report would count under a noise that was not made for it


def under_another_encoding(batch):
    """The same batch, as if its values went up to a hundred."""
    body = json.loads(batch.text)
    values = body["values"] | {"high": 100.0}
    return Batch(batch.number, batch.pin, json.dumps(body | {"values": values}))


@pytest.fixture(params=[True, False], ids=["bound", "not bound"])
def encoding_is_bound(request, monkeypatch):
    """The guard, and without it, at devices and servers alike."""
    if not request.param:
        monkeypatch.setattr(shares_module, "encoding_of", lambda asked: b"")
    return request.param


def test_a_share_under_another_encoding_does_not_open(encoding_is_bound, service):
    """A front that shows an honest analyzer reports for a batch of another encoding."""
    group = waiting_group(service)
    (number,) = group.batches
    offer = service.live.state.turns[number]
    service.live.state.turns[number] = replace(offer, batches=(under_another_encoding(offer.batches[0]),))
    assert settle(service, group) == [Reason.UNOPENABLE if encoding_is_bound else None] * USERS


def test_what_a_front_has_of_a_report_is_nothing_under_another_encoding(encoding_is_bound, service, validity):
    """An analyzer that has such a batch signed: to an honest front seeds stand for other numbers, and proofs fail."""
    group = waiting_group(service)
    settling, front = service.servers.analyzer.analyzer.settling, service.servers.front.front
    answer = service.servers.run(settling._settle(service.live, group, group.to_bytes()))
    (number,) = group.batches
    batch = front._batch(NAME, number)

    def counted(as_batch):
        counting = front._verified if validity == "prio3" else front._expanded
        with front.store.database.read() as connection:
            chosen = front.store._chosen(connection, front.store._lock_group(connection, NAME))
        found = counting(NAME, chosen, [as_batch], answer)
        return list(found.reasons), found.added[0][1]

    honest, other = counted(batch), counted(under_another_encoding(batch))
    assert honest[0] == [None] * USERS
    if not encoding_is_bound:
        assert other == honest
    elif validity == "prio3":
        assert other[0] == [Reason.INVALID] * USERS
    else:
        assert other[1] != honest[1]


# The same group again


def test_a_group_that_is_asked_again_gets_the_same_answer_and_another_under_its_number_is_refused(service):
    group = waiting_group(service)
    assert settle(service, group) == settle(service, group) == [None] * USERS
    assert held(service, group.batches[0]).reports == USERS
    with pytest.raises(StoreProblem, match="other reports than before"):
        settle(service, replace(group, reports=group.reports[:1]))


def test_groups_read_back_and_anything_else_is_refused():
    group = Group(3, (1, 2), (Sealed(bytes(16), bytes(32), b"shown", b"sealed"),))
    assert Group.from_bytes(group.to_bytes()) == group
    body = group.to_bytes()
    for bad in (b"", body[:-1], body + b"\0", body[:4], b"\xff" * 40):
        with pytest.raises(BadGroup):
            Group.from_bytes(bad)
    for bad in (b"\0\0", b"\0\0\0", b"\0\0\1shown", b"\0\1\1shown!", b"\0\1\x09shown"):
        with pytest.raises(BadGroup):
            Answer.from_bytes(bad, [5, 5, 5])
    assert Answer.from_bytes(b"\0\1\1shown", [5, 5, 5]).verifiers == (b"shown", b"", b"")
