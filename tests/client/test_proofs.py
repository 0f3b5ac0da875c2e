"""A device's report with a proof: both servers accept it, it is made anew each time, and no invalid one is made."""

import pytest

from cases.client import SHARED, Server, both_signed, configuration, offer
from croupier.checks import InvalidParameter
from croupier.client.turns import Joined, Turn
from croupier.client.uploads import upload
from croupier.messages import proofs
from croupier.messages.configuration import BrokenPromise, Configuration, NotCovered
from croupier.messages.sealing import unseal
from croupier.messages.shares import SharedReport, form, scopes, share_info, upload_length
from croupier.messages.validity import NOT_PROVED, Validity
from croupier.messages.wire import Envelope, report_info
from croupier.noise import seeded
from croupier.protocols import Buckets, histogram, laplace, shared_vectors
from croupier.validity import Verifier, prio3_count, prio3_histogram, prio3_sum, prio3_sum_vec

ANALYZER, FRONT, KEY = Server.make(), Server.make(), bytes(range(32))
PROVED = Validity.checked_with(KEY)
MECHANISMS = {
    "count": (SHARED, [0.0, 1.0]),
    "number": (laplace(epsilon=1.0, low=-1, high=3, trust="two-servers").plan(users=40), [-1, 0.3, 3]),
    "histogram": (histogram(epsilon=1.0, universe=("a", "b", "c"), model="two-servers").plan(users=40), ["a", "c"]),
    "buckets": (
        histogram(epsilon=1.0, universe=Buckets(6, "salt", ("a",)), model="two-servers").plan(users=40),
        ["a", "anything"],
    ),
}


def turn_of(mechanism, validity=PROVED):
    arms = ("red", "green") if mechanism.outputs is None else ()
    found = configuration(ANALYZER, FRONT, mechanism, arms=arms, validity=validity)
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    return Turn(Joined(found, signed), offer(signed, mechanism, arm=0 if arms else None), bytes(56), 2**40)


def read(turn, body):
    """What each server reads of an upload, as Prio3 has it, and its context."""
    envelope = Envelope.from_bytes(body)
    digest, prio3 = turn.offer.configuration, turn.offer.batches[0].asked.prio3
    inner = unseal(FRONT.suite, FRONT.seal, envelope.sealed, report_info("colours", digest))
    report = SharedReport.from_bytes(inner, form(turn.offer, FRONT.suite, proved=True))
    info = share_info("colours", digest, scopes(turn.offer)[0], 0, report.report)
    plain = unseal(ANALYZER.suite, ANALYZER.seal, report.sealed[0], info)
    return prio3, info, proofs.analyzer_share(prio3, plain), proofs.front_share(prio3, report.share)


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_servers_accept_what_a_device_sends_and_their_shares_are_its_value(name):
    mechanism, values = MECHANISMS[name]
    turn = turn_of(mechanism)
    for value in values:
        body = upload(turn, value, seeded(1))
        assert len(body) == upload_length(turn.offer, FRONT.suite, proved=True)
        prio3, info, *shares = read(turn, body)
        prepared = [
            Verifier(prio3, server, KEY).prepare([turn.report], [public], [share], info)
            for server, (public, share) in enumerate(shares)
        ]
        messages = prepared[0].combine(prepared[1].verifier_shares)
        finished = [one.finish(messages) for one in prepared]
        assert [one.refusals for one in finished] == [(None,), (None,)]
        total = prio3.unshard([one.aggregate() for one in finished])
        added = list(total) if isinstance(total, list) else [total]
        assert added == mechanism.secret(value, seeded(1))


def test_a_report_that_is_made_again_is_another_in_every_share():
    turn = turn_of(SHARED)
    first, second = (read(turn, upload(turn, 1.0, None)) for _ in range(2))
    assert first[2].share != second[2].share
    assert first[3].share != second[3].share


def test_types_follow_the_encoding_and_stay_short():
    found = {name: mechanism.prio3 for name, (mechanism, _) in MECHANISMS.items()}
    due = {
        "count": prio3_count(),
        "number": prio3_sum(127),
        "histogram": prio3_histogram(3),
        "buckets": prio3_histogram(64),
    }
    assert {name: repr(one) for name, one in found.items()} == {name: repr(one) for name, one in due.items()}
    assert repr(turn_of(SHARED).offer.batches[0].plain.prio3) == repr(prio3_count())
    vectors = shared_vectors(epsilon=1.0, dimension=20, delta=1e-6).plan(users=40)
    assert repr(vectors.prio3) == repr(prio3_sum_vec(20, 127))
    for mechanism in (*(one for one, _ in MECHANISMS.values()), vectors):
        assert mechanism.ring.modulus == mechanism.prio3.circuit.field.modulus
    lengths = [
        upload_length(turn_of(MECHANISMS[name][0]).offer, FRONT.suite, proved=True) for name in ("count", "number")
    ]
    assert lengths == [294, 430]
    # A share with its proof of a number of eight bits, which is one bit more than croupier takes.
    assert sum(proofs.lengths(prio3_sum(255))) < 500


@pytest.mark.parametrize(
    ("prio3", "numbers"),
    [(prio3_count(), [2]), (prio3_sum(127), [128]), (prio3_sum(127), [-1]), (prio3_histogram(3), [1, 1, 0])],
)
def test_no_device_proves_what_is_out_of_range(prio3, numbers):
    with pytest.raises(InvalidParameter, match="measurement"):
        proofs.prove(prio3, numbers, bytes(16), b"info")


def test_what_cannot_be_proved_is_not_covered_where_proofs_were_signed(monkeypatch):
    turn = turn_of(SHARED)
    monkeypatch.setattr(type(turn.offer.batches[0].asked), "prio3", None)
    with pytest.raises(NotCovered, match="cannot prove"):
        turn.joined.configuration.check(turn.offer)
    plain = turn_of(SHARED, NOT_PROVED)
    plain.joined.configuration.check(plain.offer)


def test_the_key_of_proofs_may_change_and_whether_there_are_any_may_not():
    proved, bare = (turn_of(SHARED, validity).joined.configuration for validity in (PROVED, NOT_PROVED))
    other = turn_of(SHARED, Validity.checked_with(bytes(32))).joined.configuration
    other.check_promise(proved.promise)
    with pytest.raises(BrokenPromise, match="validity.kind was 'prio3', and is 'none'"):
        bare.check_promise(proved.promise)
    assert Configuration.from_text(proved.statement().text) == proved
