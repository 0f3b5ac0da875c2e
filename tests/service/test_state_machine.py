"""Whatever is lost, replayed or killed: what a client was told counts once, in one batch, and nothing else does.

A Hypothesis state machine drives both real applications, real clients and real encryption on real stores, one step at a
time, beside a model that says what every step must do. Every report is known by its sealed messages and by what they
say, so a loss, a double count or a mix-up shows at the batch where it happens.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from cases.service.checks import Checked
from cases.service.machine import ANSWER_LOST, ARRIVES, FRONT, REQUEST_LOST
from cases.service.model import DEADLINE, DUE_WITHIN, NAMES, REPORT_WITHIN, outcome_of
from cases.service.mutants import MUTANTS
from croupier.messages.wire import Envelope, Part
from croupier.service.problems import Problem

MOMENTS = (1, 5, DUE_WITHIN + 2, DUE_WITHIN + 2, 25, DEADLINE + 1, REPORT_WITHIN + 20, 8 * 86_400)
"""How long nothing happens: until turns, batches, tokens or what is remembered of them are over."""

fates = st.sampled_from((ARRIVES, ARRIVES, REQUEST_LOST, ANSWER_LOST))
deaths = st.sampled_from((None, None, None, False, True))
"""Whether the server dies at its transaction, and if so whether that is committed."""
picks = st.integers(0, 10**6)
counts = st.integers(1, 5)
names = st.sampled_from(NAMES)


class Service(Checked, RuleBasedStateMachine):
    """Everything that may happen, in any order."""

    def __init__(self):
        RuleBasedStateMachine.__init__(self)
        Checked.__init__(self)
        self.pull("colours")
        self.pull("fruit")
        self.everything_is_as_the_model_says()

    # What users do

    @rule(count=counts)
    def users_report_colours(self, count):
        self.serve("colours", count)

    @rule(count=counts)
    def users_report_fruit(self, count):
        self.serve("fruit", count)

    @rule(count=st.integers(3, 6), death=deaths, fate=fates)
    def users_report_both(self, count, death, fate):
        """The last one of them has trouble."""
        for name in NAMES:
            self.serve(name, count)
        person = self.comes(NAMES[count % 2])
        self.sends(person)
        if person.request is not None:
            self.people.append(person)
            self.sends(person, fate, death)

    @rule(name=names, fate=fates, death=deaths)
    def one_asks_for_a_turn(self, name, fate, death):
        person = self.comes(name)
        self.people.append(person)
        self.sends(person, fate, death)

    @precondition(lambda self: self.people)
    @rule(pick=picks, fate=fates, death=deaths)
    def one_goes_on(self, pick, fate, death):
        self.sends(self.people[pick % len(self.people)], fate, death)

    @precondition(lambda self: sum(person.sent is not None for person in self.people) > 1)
    @rule(death=deaths)
    def several_report_at_once(self, death):
        """They are one group and one transaction: all of it happens, or nothing."""
        together = [person for person in self.people if person.sent is not None][:3]
        for person in together:
            self.servers.run(self.looked_up(person))
        self.dies("front", death)

        async def all_of_them():
            return await asyncio.gather(*(person.asked() for person in together))

        answers = self.servers.run(all_of_them())
        undone = self.servers.alive["front"].dead and not death
        outcomes = [self.judged(person.sent) if undone else self.takes(person.sent) for person in together]
        for person, answer, outcome in zip(together, answers, outcomes, strict=True):
            self.uploads.append((person.body, person.sent))
            self.hears(person, answer, outcome)

    async def looked_up(self, person):
        """The front knows by now what it looks up in a thread: else a report may miss the group of the others."""
        known = self.servers.front.known
        with suppress(Problem):
            await known.most(person.experiment, len(person.body))
            await known.check(person.experiment, person.body)

    @precondition(lambda self: self.uploads)
    @rule(pick=picks, fate=fates)
    def an_upload_is_replayed(self, pick, fate):
        self.upload(*self.uploads[pick % len(self.uploads)], fate)

    @precondition(lambda self: self.used)
    @rule(pick=picks, spoilt=st.booleans())
    def a_second_report_is_made_of_one_turn(self, pick, spoilt):
        """Another report under the same token; or one with a message that the analyzer cannot open."""
        person = self.used[pick % len(self.used)]
        body, sent = person.again(self.next_value(person.experiment))
        if spoilt and person.experiment == "fruit":
            body = self.forged(person, body, _spoilt)
            sent = person.read(body)
            assert sum(slot is None for slots in sent.said.values() for slot in slots) == 1
        self.upload(body, sent)

    @precondition(lambda self: self.used)
    @rule(pick=picks, at=picks, how=st.sampled_from(("flipped", "cut", "token", "offer", "batch", "few")))
    def a_bad_upload_is_refused_by_name(self, pick, at, how):
        person = self.used[pick % len(self.used)]
        body, _ = person.again(self.next_value(person.experiment))
        forgeries = {
            "token": (lambda report: replace(report, token=_flip(report.token, at)), "bad-token"),
            "offer": (lambda report: replace(report, offer=report.offer + 1), "bad-token"),
            "batch": (lambda report: _moved(report), "wrong-batch"),
            "few": (lambda report: _fewer(report), "wrong-shape"),
        }
        if how == "flipped":
            at %= len(body)
            body, expected = _flip(body, at), "malformed-report" if at == 0 else "unopenable-report"
        elif how == "cut":
            body = body[: at % len(body)]
            expected = "malformed-report" if len(body) <= len(Envelope(1, bytes(8), bytes(32), b"").to_bytes()) else ""
            expected = expected or "unopenable-report"
        else:
            change, expected = forgeries[how]
            body = self.forged(person, body, change)
        answer = self.post(person.experiment, body)
        assert outcome_of(answer) == expected

    # What servers and operators do

    @rule(seconds=st.sampled_from(MOMENTS))
    def time_passes(self, seconds):
        self.servers.clock.now += seconds

    @rule(server=st.sampled_from(("front", "analyzer")))
    def a_server_is_killed(self, server):
        self.servers.kill(server)

    @rule(what=st.sampled_from(("close", "expire")), death=deaths, at=st.integers(1, 2))
    def the_front_tidies_up(self, what, death, at):
        front = self.servers.front.front
        self.beside(what, {"close": front.close_full, "expire": front.sweep}[what], death, at)

    @rule(name=names, count=counts, lost=st.integers(0, 6), fate=fates, death=deaths, at=st.integers(1, 3))
    def the_analyzer_pulls(self, name, count, lost, fate, death, at):
        """Any one of its requests may be lost, and the front may die of any."""
        self.serve(name, count)
        self.beside("close", self.servers.front.front.close_full)
        self.everything_is_as_the_model_says()
        self.dies("front", death, at)
        self.servers.wire.fates = [*[ARRIVES] * lost, fate]
        self.pull(name, sure=fate == ARRIVES and death is None)

    @rule(name=names, count=counts, committed=st.booleans(), at=st.integers(1, 3))
    def the_analyzer_dies_while_it_pulls(self, name, count, committed, at):
        """On either side of writing its log, so that an acknowledgement is not sent, or a batch not logged."""
        self.serve(name, count)
        self.beside("close", self.servers.front.front.close_full)
        self.everything_is_as_the_model_says()
        self.dies("analyzer", committed, at)
        self.pull(name, sure=False)

    @rule()
    def a_round_without_trouble(self):
        self.beside("close", self.servers.front.front.close_full)
        self.beside("expire", self.servers.front.front.sweep)
        self.everything_is_as_the_model_says()
        for name in NAMES:
            self.pull(name, sure=True)

    @precondition(lambda self: self.batches)
    @rule(pick=picks)
    def a_batch_is_acknowledged_again(self, pick):
        """What was acknowledged stays so; what has not left is not let go."""
        (name, number), batch = sorted(self.batches.items())[pick % len(self.batches)]
        if batch.state == "ready" and not self.logged(name, number):
            return
        self.may.add("release")
        url = f"{FRONT}/experiments/{name}/batches/{number}/messages"
        answer = self.servers.ask("DELETE", url, self.servers.bearer)
        refusals = {"open": "not-released", "closed": "not-released"}
        refusals |= {"expired": "batch-expired", "cancelled": "batch-expired"}
        assert outcome_of(answer) == refusals.get(batch.state, "done")

    @precondition(lambda self: self.batches)
    @rule(pick=picks)
    def somebody_looks_at_a_batch(self, pick):
        """Its messages are there while it is ready, as often as one looks, and never before or after.

        Nothing leaves before a log was countersigned, and another batch than the last one only when it was again.
        """
        (name, number), batch = sorted(self.batches.items())[pick % len(self.batches)]
        url = f"{FRONT}/experiments/{name}/batches/{number}"
        seen = {
            "ready": "done",
            "released": "already-released",
            "expired": "batch-expired",
            "cancelled": "batch-expired",
        }
        expected = seen.get(batch.state, "not-released")
        leaves = batch.state == "ready" and self.may_leave(name, number)
        answer = self.servers.ask("GET", f"{url}/messages/0", self.servers.bearer)
        assert outcome_of(answer) == ("not-released" if batch.state == "ready" and not leaves else expected)
        if leaves:
            self.check_messages(name, number)
        receipt = self.servers.ask("GET", f"{url}/receipt")
        assert outcome_of(receipt) == ("done" if batch.state in ("ready", "released") else expected)

    @rule(operation=st.sampled_from(("pause", "resume", "resume", "pause", "stop")), arm=st.integers(0, 1))
    def the_operator_wants_something(self, operation, arm):
        wish = {"operation": operation} | ({} if operation == "stop" else {"arm": arm})
        if operation == "stop" and sum(record["event"] == "released" for record in self.logs["colours"]) < 2:
            return
        self.operate(**wish)

    def teardown(self):
        try:
            self.come_to_rest()
        finally:
            self.close()


def _flip(data, at):
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _spoilt(report):
    (part,) = report.parts
    return replace(report, parts=(Part(part.batch, (_flip(part.messages[0], -1), *part.messages[1:])),))


def _moved(report):
    (part,) = report.parts
    return replace(report, parts=(Part(part.batch + 1, part.messages),))


def _fewer(report):
    (part,) = report.parts
    return replace(report, parts=(Part(part.batch, part.messages[1:]),))


SETTINGS = settings(
    max_examples=20,
    stateful_step_count=30,
    derandomize=True,
    # Not shrunk: that takes minutes, and a failure is one of a few dozen steps anyway.
    phases=[Phase.generate],
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


class Noticed(BaseException):
    """Something is wrong. Hypothesis lets this pass, and does not try the same steps again to show them."""


class Hasty(Service):
    """Ends with the first thing that is wrong."""

    def teardown(self):
        if isinstance(sys.exc_info()[1], AssertionError):
            self.close()
            raise Noticed
        try:
            super().teardown()
        except AssertionError:
            raise Noticed from None


def machine_on(stores):
    return type("Service", (Service,), {"stores": stores})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stores", "examples"),
    [
        ("sqlite", 3),
        ("postgresql", 1),
        pytest.param("sqlite", 300, marks=pytest.mark.evidence),
        pytest.param("postgresql", 150, marks=pytest.mark.evidence),
    ],
)
def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(stores, examples):
    run_state_machine_as_test(machine_on(stores), settings=settings(SETTINGS, max_examples=examples))


@pytest.mark.slow
@pytest.mark.parametrize("ready", [False, True])
def test_batches_that_are_full_when_the_operator_stops_are_deleted(ready):
    """Also those that come before the last one, and those that are not yet ready to leave."""
    service = Service()
    try:
        service.serve("colours", 8)
        service.everything_is_as_the_model_says()
        assert [batch.state for key, batch in sorted(service.batches.items()) if key[0] == "colours"] == ["closed"] * 2
        if ready:
            service.beside("close", service.servers.front.front.close_full)
            service.everything_is_as_the_model_says()
        service.operate(operation="stop")
        service.pull("colours")
        service.everything_is_as_the_model_says()
        service.a_round_without_trouble()
        service.everything_is_as_the_model_says()
        assert {batch.state for key, batch in service.batches.items() if key[0] == "colours"} == {"released"}
    finally:
        service.teardown()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_machine_notices_a_service_that(mutant, monkeypatch):
    mutant(monkeypatch)
    # From this seed on every mutant takes a few examples only.
    machine = seed(10)(type("Service", (Hasty,), {}))
    with pytest.raises(Noticed):
        run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=100, derandomize=False))
