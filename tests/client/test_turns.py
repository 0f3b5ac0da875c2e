"""Turns from play to report: recorded, kept, sent at a moment that tells nothing, whatever crashes in between."""

import itertools
import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import croupier.client
from cases.client import (
    AT,
    MECHANISM,
    SHARED,
    WITHIN,
    Server,
    answer,
    both_signed,
    configuration,
    device,
    drive,
    offer,
    shares_read,
    took,
    turn,
    value_read,
)
from croupier.checks import InvalidParameter
from croupier.client import (
    BrokenPromise,
    Limits,
    NotCovered,
    NotPinned,
    NoTurn,
    Refused,
    Reported,
    Shown,
    Turn,
    Unreachable,
    Unusable,
)
from croupier.client.account import Account
from croupier.client.device import Device, Pause
from croupier.client.outbox import FIRST_RETRY, LONGEST_RETRY
from croupier.client.steps import ATTEMPTS
from croupier.messages.signing import to_text
from croupier.noise import secure
from croupier.protocols import discrete_gaussian, skellam

ANALYZER, FRONT = Server.make(), Server.make()
FOUND = configuration(ANALYZER, FRONT, SHARED)
SIGNED = both_signed(FOUND.statement(), ANALYZER, FRONT)
OFFER = offer(SIGNED, SHARED)
KEYS = FOUND.verify_keys
JOINED = answer(200, SIGNED.to_dict())
DONE = answer(201, {"status": "accepted"})


def assigned(found=OFFER):
    body = {"offer": both_signed(found.statement(), ANALYZER, FRONT).to_dict(), "token": to_text(bytes(56))}
    return answer(201, body | {"expires": 2**40})


class Clock:
    def __init__(self, now=1_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


class Words:
    """A source whose words are given."""

    def __init__(self, *words):
        self.given = list(words)

    def words(self, count):
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken, dtype=np.uint64)

    def renew(self):
        pass


def own_device(clock=None, path=None, source=None, keys=KEYS, limits=None):
    clock, limits = clock or Clock(), limits or Limits()
    account = Account(path, limits, clock)
    return Device("https://analyzer.test", account, limits, source or secure(), keys, clock)


def played(own, **options):
    return drive(own.play("colours", **options), JOINED, assigned())[0]


def value_of(request, found):
    """What both servers together read in an upload."""
    assert shares_read(request.content, FRONT, SIGNED, found.offer).report == found.report
    return value_read(request.content, ANALYZER, FRONT, SIGNED, found.offer)


# When, and whether


def test_a_report_is_due_at_a_moment_drawn_with_the_turn_uniformly_in_the_window():
    for word, part in ((0, 0.0), (2**63, 0.5), (2**62, 0.25), (2**64 - 1, 1.0 - 2.0**-53)):
        clock = Clock()
        found = played(own_device(clock, source=Words(word)))
        assert found.report_at == clock.now + AT[0] + (AT[1] - AT[0]) * part
        assert found.until == clock.now + WITHIN


class Net:
    """Servers that answer by a script of moments: what is sent when, and what became of it."""

    def __init__(self, clock, dead):
        self.clock, self.dead, self.trace = clock, dead, []

    def run(self, steps):
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value
            if isinstance(step, Pause):
                self.clock.now += step.seconds
                reply = None
                continue
            self.trace.append((self.clock.now, step.method, step.url, len(step.content), sorted(step.headers.items())))
            if step.method == "GET":
                reply = JOINED
            elif step.url.endswith("/assignments"):
                reply = assigned()
            else:
                reply = None if any(a <= self.clock.now < b for a, b in self.dead) else DONE


def life(outcome, recorded, words, dead, closed, path):
    """What both servers and the network see of a device that records this at these moments after its turn."""
    clock = Clock()
    net = Net(clock, [(clock.now + a, clock.now + b) for a, b in dead])
    own = own_device(clock, path, Words(*words), limits=Limits(epsilon_per_period=10.0))
    found = net.run(own.play("colours"))
    began = clock.now
    events = sorted([(began + at, "record") for at in recorded] + [(began + at, "open") for at in closed])
    for at, what in [*events, (began + WITHIN + 1.0, "end")]:
        while closed == () and (due := own.next_due()) is not None and clock.now + due <= at:
            clock.now += due
            net.run(own.send_due())
        clock.now = max(clock.now, at)
        if what == "record" and outcome is not None:
            own.record(found, outcome)
        elif what == "open":
            own.account.close()
            own = own_device(clock, path, Words(1), limits=Limits(epsilon_per_period=10.0))
            net.run(own.send_due())
    own.account.close()
    return net.trace, own.account.turns


@pytest.mark.parametrize("dead", [(), ((0.0, 4_000.0),), ((0.0, 1e9),), ((3_000.0, 3_100.0), (3_200.0, 20_000.0))])
@pytest.mark.parametrize("closed", [(), (5_000.0,), (30_000.0, 90_000.0)])
def test_the_law_of_when_a_report_is_sent_and_whether_is_the_same_for_all_values(dead, closed, tmp_path):
    """All that anybody sees is a function of the drawn moment, of the network and of when the app runs."""
    runs = itertools.count()
    for words in ((0,), (2**63,), (2**64 - 1,)):
        for recorded in ((), (1.0,), (650.0, 3_000.0), (7_300.0,), (80_000.0,)):
            seen = [
                life(outcome, recorded, words, dead, closed, tmp_path / f"{next(runs)}.json")
                for outcome in (0.0, 1.0, None)
            ]
            assert seen[0] == seen[1] == seen[2]
            # Nothing is seen of it only where the app never ran again in time.
            assert any(url.endswith("/reports") for _, _, url, *_ in seen[0][0]) or closed == (5_000.0,)


@pytest.mark.parametrize(
    ("outcomes", "sent"), [((), 0), ((1.0,), 1), ((0.0, 1.0), 1), ((1.0, 0.0), 0), ((np.True_,), 1), ((True, 0), 0)]
)
def test_what_was_recorded_last_is_sent_or_else_the_default(outcomes, sent):
    clock = Clock()
    own = own_device(clock)
    found = played(own)
    for outcome in outcomes:
        assert own.record(found, outcome)
    clock.now = found.report_at - 0.01
    due, requests = drive(own.send_due())
    assert (due, requests) == (pytest.approx(0.01), [])
    clock.now = found.report_at
    due, (request,) = drive(own.send_due(), DONE)
    assert due is None
    assert value_of(request, found) == sent
    assert not own.record(found, 1.0)
    assert (own.account.taken, own.account.pending) == ({}, {})


def test_an_outcome_that_cannot_be_is_refused_when_it_is_recorded_and_the_one_before_stays():
    own = own_device()
    found = played(own)
    own.record(found, 1.0)
    for value in ([1], [[1]], [], (1.0,), "1", b"1", None, {}, {1}, 1j, object()):
        with pytest.raises(InvalidParameter, match="value = .* must be a number"):
            own.record(found, value)
    for value in (0.5, 2, float("nan"), 10**400):
        with pytest.raises(InvalidParameter, match="value"):
            own.record(found, value)
    assert own.account.taken[found.id].outcome == (1.0,)


@pytest.mark.parametrize("mechanism", [SHARED, MECHANISM])
@pytest.mark.parametrize("value", [1, 1.0, True, np.float32(1), np.int64(0), np.bool_(True), Fraction(1), Decimal(1)])
def test_every_kind_of_number_is_an_outcome(value, mechanism, tmp_path):
    own = own_device(path=tmp_path / "a.json")
    signed = both_signed(configuration(ANALYZER, FRONT, mechanism).statement(), ANALYZER, FRONT)
    found = took(own, signed, offer(signed, mechanism))
    assert own.record(found, value)
    (kept,) = json.loads((tmp_path / "a.json").read_text())["taken"][0]["outcome"]
    assert kept == float(value)
    own.account.close()


def test_a_turn_that_is_too_old_is_dropped_unsent_and_its_charge_stays():
    clock = Clock()
    own = own_device(clock)
    found = played(own)
    own.record(found, 1.0)
    clock.now = found.until
    assert drive(own.send_due()) == (None, [])
    assert own.account.taken == {}
    assert len(own.account.turns) == 1


def test_a_sealed_report_is_given_up_when_its_time_is_over():
    clock = Clock()
    own = own_device(clock)
    found = played(own)
    clock.now = found.report_at
    drive(own.send_due(), *[None] * ATTEMPTS)
    clock.now = found.until
    assert drive(own.send_due()) == (None, [])
    assert own.account.pending == {}


def test_without_an_answer_a_report_is_kept_and_sent_again_later_and_later_in_the_same_bytes():
    clock = Clock()
    own = own_device(clock)
    found = played(own)
    clock.now = found.report_at
    bodies, waits = set(), []
    for _ in range(9):
        due, requests = drive(own.send_due(), *[None] * ATTEMPTS)
        bodies |= {request.content for request in requests}
        waits.append(due)
        assert "no answer" in own.trouble
        assert drive(own.send_due())[1] == []
        clock.now += due
    assert len(bodies) == 1
    assert waits == [min(FIRST_RETRY * 2**i, LONGEST_RETRY) for i in range(9)]
    due, requests = drive(own.send_due(), DONE)
    assert (due, own.trouble, {requests[0].content}) == (None, None, bodies)


def test_a_clock_that_is_set_back_does_not_hold_a_report_for_a_year():
    clock = Clock()
    clock.now = 1e9
    own = own_device(clock)
    clock.now = played(own).report_at
    drive(own.send_due(), *[None] * ATTEMPTS)
    clock.now -= 366 * 86_400.0
    assert drive(own.send_due(), DONE)[0] is None


@pytest.mark.parametrize("text", ["", "{}", '{"version": 0}', "null", "[1]"])
def test_a_turn_that_an_older_version_kept_is_in_nobodys_way(text, tmp_path):
    clock = Clock()
    limits = Limits(epsilon_per_period=10.0)
    client = croupier.client.Client("https://analyzer.test", account=tmp_path / "account", limits=limits, keys=KEYS)
    own = client.device
    own.clock = own.account.clock = clock
    first = played(own, sticky=False)
    second = drive(own.play("colours", sticky=False), assigned())[0]
    own.account.taken[first.id] = replace(own.account.taken[first.id], turn=text)
    assert [turn.id for turn in client.turns] == [second.id]
    assert (client.turn(first.id), own.seen("colours").arm) == (None, second.arm)
    clock.now += AT[1]
    due, requests = drive(own.send_due(), DONE)
    assert (due, len(requests), "turn = " in own.trouble) == (FIRST_RETRY, 1, True)
    clock.now = first.until
    assert (drive(own.send_due())[0], own.trouble, dict(own.account.taken)) == (None, None, {})


def test_all_due_reports_are_tried_when_the_first_server_is_dead():
    clock = Clock()
    own = own_device(clock, limits=Limits(epsilon_per_period=10.0))
    for number in range(3):
        took(own, SIGNED, OFFER, bytes([number]) * 56)
    clock.now += AT[1]
    due, _ = drive(own.send_due(), *[None] * ATTEMPTS, DONE, DONE)
    assert due == FIRST_RETRY
    assert len(own.account.pending) == 1


def test_a_refused_report_is_settled():
    clock = Clock()
    own = own_device(clock)
    found = played(own)
    clock.now = found.report_at
    refusal = answer(403, {"type": "urn:croupier:error:token-expired", "title": "", "status": 403})
    assert drive(own.send_due(), refusal)[0] is None
    assert own.account.pending == {}


# Crashes


class Killed(BaseException):
    pass


@pytest.mark.slow
def test_whatever_write_the_device_dies_at_nothing_is_sent_under_two_ids_lost_or_charged_twice(tmp_path, monkeypatch):
    """A life of two turns, killed before and after its k-th write, for every k, and begun again."""
    from croupier.client import account as accounts

    real = accounts.write_atomically

    def lived(path, kill_at, after):
        """Returns the uploads, how often each turn was charged, and how many writes there were."""
        clock, writes, uploads, recorded = Clock(), 0, [], set()
        limits = Limits(epsilon_per_period=10.0)

        def write(where, data):
            nonlocal writes
            writes += 1
            if writes == kill_at and not after:
                raise Killed
            real(where, data)
            if writes == kill_at:
                raise Killed

        def restart():
            nonlocal own
            own.account.close()
            own = own_device(clock, path, limits=limits)

        def kill(work):
            """Do a piece of work; a device that dies over it is switched on again, and goes on with the next."""
            try:
                work()
            except Killed:
                restart()

        monkeypatch.setattr(accounts, "write_atomically", write)
        own = own_device(clock, path, limits=limits)

        def play():
            drive(own.play("colours", sticky=False), *([] if "colours" in own.joined else [JOINED]), assigned())

        def record():
            for one in [Turn.from_json(taken.turn) for taken in own.account.taken.values()]:
                if own.record(one, 1.0):
                    recorded.add(one.id)

        def send():
            steps, reply = own.send_due(), None
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration:
                    return
                assert not isinstance(step, Pause)
                uploads.append(step.content)
                reply = DONE

        for work in (play, record, play, record):
            kill(work)
            clock.now += 1.0
        clock.now += AT[1]
        for _ in range(3):
            kill(send)
        own.account.close()
        return uploads, recorded, own.account, writes

    uploads, recorded, account, total = lived(tmp_path / "whole.json", 0, False)
    assert (len(uploads), len(recorded), len(account.turns)) == (2, 2, 2)
    for kill_at, after in itertools.product(range(1, total + 1), (False, True)):
        uploads, recorded, account, _ = lived(tmp_path / f"{kill_at}-{after}.json", kill_at, after)
        values = {}
        for content in uploads:
            values.setdefault(_report_id(content), set()).add(content)
        # One sequence of bytes a turn; every turn that was kept was charged once, and sent; what was recorded is in it.
        assert all(len(bodies) == 1 for bodies in values.values())
        assert len(values) == len(account.turns) <= 2
        assert recorded <= {to_text(one) for one in values}
        for report, bodies in values.items():
            assert _value(*bodies) == (1 if to_text(report) in recorded else _value(*bodies))
        assert (account.taken, account.pending) == ({}, {})


def _report_id(content):
    return shares_read(content, FRONT, SIGNED, OFFER).report


def _value(content):
    return value_read(content, ANALYZER, FRONT, SIGNED, OFFER)


# Another process


def test_a_turn_is_recorded_and_sent_days_later_by_another_process(tmp_path):
    clock, path = Clock(), tmp_path / "account.json"
    own = own_device(clock, path)
    found = played(own)
    text = found.to_json()
    own.account.close()
    clock.now += 3_600.0
    other = own_device(clock, path)
    again = Turn.from_json(text)
    assert again == found
    assert other.record(again, 1.0)
    other.account.close()
    clock.now += WITHIN - 3_601.0
    last = own_device(clock, path)
    assert last.next_due() == 0.0
    _, (request,) = drive(last.send_due(), DONE)
    assert value_of(request, found) == 1
    assert not last.record(again, 0.0)
    last.account.close()


def test_a_turn_keeps_the_configurations_that_its_batches_were_opened_under():
    newer = configuration(ANALYZER, FRONT, revision=1)
    older = configuration(ANALYZER, FRONT)
    signed, pin = (both_signed(one.statement(), ANALYZER, FRONT) for one in (newer, older))
    found = replace(turn(signed, offer(signed)), pinned={pin.hash: older}, taken_at=1.5, report_at=2.5)
    assert Turn.from_json(found.to_json()) == found


def test_a_turn_of_another_device_is_named_and_a_text_that_is_no_turn_is_refused():
    own = own_device()
    with pytest.raises(InvalidParameter, match="one that this device took"):
        own.record(played(own_device()), 1.0)
    good = json.loads(played(own).to_json())
    for bad in ("", "{}", "[]", *(json.dumps(good | one) for one in ({"version": 0}, {"token": "AA"}, {"id": 7}))):
        with pytest.raises(InvalidParameter):
            Turn.from_json(bad)


# Keys


def test_without_pinned_keys_no_turn_is_taken_where_one_of_two_servers_must_be_honest():
    own = own_device(keys=None)
    with pytest.raises(NotPinned, match=r"keys=\{'analyzer': KEY, 'front': KEY\}, as `croupier serve keys`"):
        drive(own.play("colours"), JOINED)
    assert own.account.turns == []
    # Under other trusts those seen first will do.
    signed = both_signed(configuration(ANALYZER, FRONT).statement(), ANALYZER, FRONT)
    given = assigned(offer(signed))
    assert drive(device().play("colours"), answer(200, signed.to_dict()), given)[0].arm == 0


# Arms that stay


def test_who_returns_sees_the_same_arm_takes_no_turn_and_sends_nothing(tmp_path):
    clock, path = Clock(), tmp_path / "a.json"
    own = own_device(clock, path)
    found = played(own)
    # While its report is to come, it is the same turn, whose outcome may still be recorded.
    assert drive(own.play("colours")) == (found, [])
    clock.now = found.report_at
    drive(own.send_due(), DONE)
    again, requests = drive(own.play("colours"))
    assert (again.arm, again.arm_name, again.is_default, requests) == (0, "red", False, [])
    assert not own.record(again, 1.0)
    own.account.close()
    # Another start asks the analyzer once whether the arm is still there, and never the front.
    other = own_device(clock, path)
    again, requests = drive(other.play("colours"), JOINED)
    assert [request.url for request in requests] == ["https://analyzer.test/experiments/colours"]
    assert (again.arm_name, len(other.account.turns)) == ("red", 1)
    other.account.close()


def test_the_arm_is_shown_again_without_any_network():
    own = own_device()
    played(own)
    own.joined.clear()
    again, requests = drive(own.play("colours"), None)
    assert (again.arm_name, len(requests)) == ("red", 1)


def test_an_arm_that_was_retired_is_drawn_anew():
    clock = Clock()
    own = own_device(clock, limits=Limits(epsilon_per_period=10.0))
    played(own)
    own.joined.clear()
    newer = both_signed(replace(FOUND, revision=1, retired=(0,)).statement(), ANALYZER, FRONT)
    green = offer(newer, SHARED, arm=1)
    found, requests = drive(own.play("colours"), answer(200, newer.to_dict()), assigned(green))
    assert (found.arm_name, len(requests), len(own.account.turns)) == ("green", 2, 2)
    assert drive(own.play("colours"))[0] == found


def test_who_does_not_want_arms_to_stay_takes_a_turn_each_time_and_pays_for_it():
    own = own_device(limits=Limits(epsilon_per_period=2.0))
    first = played(own, sticky=False)
    second, _ = drive(own.play("colours", sticky=False), assigned())
    assert first.id != second.id
    assert own.account.left == 0.0


# One report a device

ONCE = replace(FOUND, reports=replace(FOUND.reports, repeat=False))
ONCE_SIGNED = both_signed(ONCE.statement(), ANALYZER, FRONT)
ONCE_JOINED, ONCE_OFFER = answer(200, ONCE_SIGNED.to_dict()), assigned(offer(ONCE_SIGNED, SHARED))


def reported_once(clock, path=None):
    """A device that has reported an experiment of which each reports once."""
    own = own_device(clock, path, limits=Limits(epsilon_per_period=10.0))
    found, _ = drive(own.play("colours"), ONCE_JOINED, ONCE_OFFER)
    clock.now = found.report_at
    drive(own.send_due(), DONE)
    return own, found


def test_a_device_that_has_reported_takes_no_second_turn_where_reports_do_not_repeat(tmp_path):
    clock = Clock()
    own, _ = reported_once(clock, tmp_path / "account.json")
    assert drive(own.play("colours"))[0] == Shown("colours", "red", 0), "it sees the same arm again"
    with pytest.raises(Reported, match="one report of a device"):
        drive(own.play("colours", sticky=False))
    own.account.close()
    again = own_device(clock, tmp_path / "account.json", limits=Limits(epsilon_per_period=10.0))
    with pytest.raises(Reported):
        drive(again.play("colours", sticky=False), ONCE_JOINED)
    assert len(again.account.turns) == 1


def test_nor_while_its_turn_is_still_to_be_reported():
    clock = Clock()
    own = own_device(clock, limits=Limits(epsilon_per_period=10.0))
    first, _ = drive(own.play("colours", sticky=False), ONCE_JOINED, ONCE_OFFER)
    with pytest.raises(Reported):
        drive(own.play("colours", sticky=False))
    clock.now = first.until
    drive(own.send_due())
    # Nothing of it was ever sent: it may have another.
    second, _ = drive(own.play("colours", sticky=False), ONCE_OFFER)
    assert second.id != first.id


def test_whose_arm_was_retired_after_the_report_is_shown_the_default():
    clock = Clock()
    own, _ = reported_once(clock)
    own.joined.clear()
    newer = both_signed(replace(ONCE, revision=1, retired=(0,)).statement(), ANALYZER, FRONT)
    with pytest.raises(Reported):
        drive(own.play("colours"), answer(200, newer.to_dict()))


def test_that_reports_do_not_repeat_is_signed_and_stays():
    assert "repeat" not in FOUND.to_dict()["reports"]
    assert type(FOUND).from_text(ONCE.statement().text).reports.repeat is False
    with pytest.raises(InvalidParameter, match="repeat"):
        replace(FOUND.reports, repeat=1)
    with pytest.raises(BrokenPromise, match="reports"):
        FOUND.check_promise(ONCE.promise)


def test_experiments_without_arms_have_none_to_keep():
    found = replace(FOUND, arms=())
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    own = own_device(limits=Limits(epsilon_per_period=2.0))
    for answers in ((answer(200, signed.to_dict()),), ()):
        drive(own.play("colours"), *answers, assigned(offer(signed, SHARED, arm=None)))
    assert own.account.left == 0.0


def test_retired_arms_are_signed_and_make_sense():
    text = replace(FOUND, retired=(0,)).statement().text
    assert type(FOUND).from_text(text).retired == (0,)
    assert "retired" not in FOUND.to_dict()
    for bad in ((2,), (1, 0), (0, 0), ("0",), (-1,)):
        with pytest.raises(InvalidParameter, match="retired"):
            replace(FOUND, retired=bad)


# One exception


def test_whatever_keeps_a_device_from_a_turn_is_a_no_turn():
    nothing = answer(409, {"type": "urn:croupier:error:nothing-open"})
    odd = answer(200, {"what": "is this"})
    strange = both_signed(offer(SIGNED, MECHANISM).statement(), ANALYZER, FRONT)
    body = {"offer": strange.to_dict(), "token": to_text(bytes(56)), "expires": 1}
    for answers, kind in (
        ([*[None] * ATTEMPTS], Unreachable),
        ([odd], Unusable),
        ([answer(200, [])], Unusable),
        ([JOINED, nothing], Refused),
        ([JOINED, answer(201, {})], Unusable),
        ([JOINED, answer(201, body)], NotCovered),
        (
            [
                JOINED,
                answer(201, body | {"offer": both_signed(OFFER.statement(), ANALYZER, FRONT).to_dict(), "token": 3}),
            ],
            Unusable,
        ),
    ):
        own = own_device()
        with pytest.raises(NoTurn) as reason:
            drive(own.play("colours"), *answers)
        assert type(reason.value) is kind
        assert own.account.turns == []


@pytest.mark.parametrize(
    "name",
    [
        "BadSignature",
        "BeyondLimits",
        "BrokenPromise",
        "NotCovered",
        "NotKept",
        "NotPinned",
        "Refused",
        "Spent",
        "TimedOut",
        "Unusable",
    ],
)
def test_one_exception_is_all_that_an_app_must_catch(name):
    assert issubclass(getattr(croupier.client, name), NoTurn)


def test_an_experiment_whose_default_cannot_be_reported_is_refused_before_anything_is_charged():
    silent = replace(FOUND, reports=replace(FOUND.reports, default=None))
    signed = both_signed(silent.statement(), ANALYZER, FRONT)
    own = own_device()
    with pytest.raises(NotCovered, match="where nothing is recorded"):
        drive(own.play("colours"), answer(200, signed.to_dict()), assigned(offer(signed, SHARED)))
    assert own.account.turns == []


def test_a_turn_that_nobody_wants_any_longer_is_neither_charged_nor_kept():
    own = own_device()
    with pytest.raises(NoTurn, match="too late"):
        drive(own.play("colours", wanted=lambda _: False), JOINED, assigned())
    assert (own.account.turns, own.account.taken, own.account.seen) == ([], {}, {})


def test_an_arm_shown_without_a_turn_reports_nothing():
    assert own_device().record(Shown("colours", "red", None, Refused("nothing-open", "")), "whatever") is False


# The ledger


def test_laplace_noise_of_the_servers_costs_the_sum_whatever_batches_the_reports_fall_into():
    own = own_device(limits=Limits(epsilon_per_period=4.0))
    played(own, sticky=False)
    for number in range(3):
        found = replace(OFFER, number=number + 1, batches=(replace(OFFER.batches[0], number=number + 1),))
        drive(own.play("colours", sticky=False), assigned(found))
    assert [(one.cost, one.delta) for one in own.account.ledger.charges] == [(1.0, 0.0)] * 4


def charged(mechanism, turns, delta_per_period=0.9):
    """What turns of an experiment cost, each in a batch of its own number."""
    found = configuration(ANALYZER, FRONT, mechanism)
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    limits = Limits(epsilon=10.0, delta=1e-3, epsilon_per_period=1e3, delta_per_period=delta_per_period)
    own = own_device(limits=limits)
    for number in range(turns):
        one = offer(signed, mechanism, number=number)
        one = replace(one, batches=(replace(one.batches[0], number=number),))
        answers = [answer(200, signed.to_dict())] if not number else []
        drive(own.play("colours", sticky=False), *answers, assigned(one))
    charges = own.account.ledger.charges
    return sum(one.cost for one in charges), sum(one.delta for one in charges)


def test_where_there_is_a_delta_all_reports_of_an_experiment_count_as_if_they_were_in_one_batch():
    mechanism = skellam(epsilon=1.0, delta=1e-6, trust="two-servers").plan(users=40)
    assert mechanism.guarantee.rho is None
    epsilon, delta = mechanism.guarantee.epsilon, mechanism.guarantee.delta
    total = charged(mechanism, 3)
    steps = sum(np.exp(epsilon * step) for step in range(3))
    assert total == (pytest.approx(3 * epsilon), pytest.approx(delta * steps))


def test_concentrated_noise_of_the_servers_is_charged_by_what_is_signed_not_by_what_an_offer_shows():
    """A report may fall into another batch than its offer's: an analyzer could show a louder one than it uses."""
    mechanism = discrete_gaussian(epsilon=1.0, delta=1e-6, trust="two-servers").plan(users=40)
    claim = mechanism.guarantee
    assert charged(mechanism, 1) == (claim.epsilon, claim.delta)
    total = charged(mechanism, 3)
    steps = sum(np.exp(claim.epsilon * step) for step in range(3))
    assert total == (pytest.approx(3 * claim.epsilon), pytest.approx(claim.delta * steps))
