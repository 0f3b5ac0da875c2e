"""The model beside both servers in the state machine: who was given what, who is in which batch, what must be answered.

It says what every answer must be before it sees one. What it cannot know, such as the offer of a turn whose answer was
lost, it brackets.
"""

import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from pathlib import Path

from sqlalchemy import select

from cases.service import stores as service_stores
from cases.service.machine import ARRIVES, FRONT, REQUEST_LOST, Killed, Servers
from cases.service.people import Person, Sent, open_report
from cases.service.world import SUITE
from croupier.client.device import REPORT_TYPE
from croupier.messages.sealing import seal
from croupier.messages.wire import Envelope, report_info
from croupier.service.experiment import plan
from croupier.service.problems import URN
from croupier.service.store.schema import HEADS, OFFERS

ITEMS = tuple(f"item {number}" for number in range(8))
AHEAD, SPARE, DUE_WITHIN, REPORT_WITHIN, DEADLINE = 1.5, 2, 10, 200, 60
BANDIT = {
    "name": "colours",
    "arms": ["red", "green"],
    "program": {"policy": "vb-sdp-ae", "horizon": 5000},
    "reward": {"protocol": "shuffled-bits"},
    "privacy": {"epsilon": 8.0, "honest_fraction": 1.0},
    "reports": {"report_within": REPORT_WITHIN, "report_at": [0, 0]},
    "batches": {"smallest": 3, "deadline": DEADLINE},
}
HISTOGRAM = {
    "name": "fruit",
    "program": {"kind": "histogram", "users": 3, "rounds": 1000, "items": list(ITEMS)},
    "privacy": {"trust": "shuffler", "epsilon": 8.0, "delta": 0.01, "honest_fraction": 1.0},
    "reports": {"report_within": REPORT_WITHIN, "report_at": [0, 0]},
    "batches": {"deadline": DEADLINE},
}
NAMES = ("colours", "fruit")
AWAY = "the front at http://front.test does not answer"


@cache
def plans():
    return [plan(BANDIT), plan(HISTOGRAM)]


@dataclass
class Batch:
    """What the model knows of a batch: who is in it."""

    users: int
    expires: float
    state: str = "open"
    members: list[Sent] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.users - len(self.members) if self.state == "open" else 0


class Model:
    """Both servers, their users, and what every step must come to."""

    stores = "sqlite"

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="croupier-machine-"))
        stores = {server: service_stores.new_store(self.stores, self.directory) for server in ("front", "analyzer")}
        limits = {"ahead": AHEAD, "spare": SPARE, "due_within": DUE_WITHIN}
        # Longer than any run: here a spent token is always known.
        limits["remember"] = 10**9
        self.servers = Servers(self.directory, stores, plans(), **limits)
        self.batches: dict[tuple[str, int], Batch] = {}
        self.mechanisms: dict[tuple[str, int], object] = {}
        self.infos: dict[tuple[str, int], bytes] = {}
        self.turns: list[tuple[str, int | None, int, bytes]] = []
        self.spent: dict[bytes, bytes] = {}
        self.told: dict[bytes, Sent] = {}
        self.assigned: Counter[str] = Counter()
        self.logs: dict[str, list[dict]] = {name: [] for name in NAMES}
        self.finished: set[str] = set()
        self.people: list[Person] = []
        self.uploads: list[tuple[bytes, Sent]] = []
        self.used: list[Person] = []
        self.may: set[str] = set()
        self.must: set[str] = set()
        self.value = 0

    def close(self):
        self.servers.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def serve(self, name, count):
        """So many users take a turn and report, and nothing is lost."""
        for _ in range(count):
            person = self.comes(name)
            while person.request is not None:
                self.sends(person)

    def comes(self, name):
        person = Person(self.servers, name, self.next_value(name))
        while not person.asks_for_a_turn:
            person.send()
        return person

    def next_value(self, name):
        """Each report of a histogram holds the next item: those of one batch hold different ones."""
        self.value += 1
        return ITEMS[self.value % len(ITEMS)] if name == "fruit" else float(self.value % 2)

    def dies(self, server, death, at=1):
        self.servers.alive[server].die_at(0 if death is None else at, bool(death))

    def sends(self, person, fate=ARRIVES, death=None):
        """A client's next request, and what becomes of it."""
        asked = person.asks_for_a_turn
        self.dies("front", death)
        if not asked:
            self.uploads.append((person.body, person.sent))
            outcome = self.goes_in(person.sent, lambda: person.answer_to(fate), fate, death)
            self.hears(person, *outcome)
            return
        free, certain = self.rooms(person.experiment)
        answer = person.answer_to(fate)
        dead = self.servers.alive["front"].dead
        if fate == REQUEST_LOST or (dead and death is False):
            assert answer is None
            person.take(None)
            return
        if answer is None:
            if free and (certain or self.given_more(person.experiment)):
                self.gave(person.experiment, None, b"")
            person.take(None)
            return
        person.take(answer)
        if person.turn is None:
            over = person.experiment in self.finished
            assert outcome_of(answer) == ("experiment-finished" if over else "nothing-open")
            assert not certain, "a turn was refused that there was"
            # Where the experiment has ended the client looks once which arm it ended with.
            while person.request is not None:
                person.send()
            self.gone(person)
        else:
            assert free, "a turn was given out that there was not"
            self.gave(person.experiment, person.turn.offer.number, person.turn.token)
            self.used.append(person)
            (number,) = person.sent.sealed
            assert self.batches[person.experiment, number].missing > 0

    def goes_in(self, sent, send, fate, death):
        """Send a report; returns the answer and what the model says that it must be, if one came."""
        outcome = self.judged(sent)
        answer = send()
        dead = self.servers.alive["front"].dead
        happened = fate != REQUEST_LOST and not (dead and death is False)
        if happened:
            self.takes(sent)
        assert (answer is None) == (dead or fate != ARRIVES)
        return answer, outcome

    def upload(self, body, sent, fate=ARRIVES):
        self.servers.wire.fates = [] if fate == ARRIVES else [fate]
        answer, outcome = self.goes_in(sent, lambda: self.post(sent.experiment, body), fate, None)
        if fate != REQUEST_LOST:
            self.uploads.append((body, sent))
        if answer is not None:
            self.is_told(sent, answer, outcome)

    def post(self, name, body):
        headers = {"content-type": REPORT_TYPE}
        return self.servers.ask("POST", f"{FRONT}/experiments/{name}/reports", content=body, headers=headers)

    def hears(self, person, answer, outcome):
        if answer is not None:
            self.is_told(person.sent, answer, outcome)
            self.gone(person)
        person.take(answer)
        assert answer is None or person.request is None

    def is_told(self, sent, answer, outcome):
        assert outcome_of(answer) == outcome
        if outcome in ("accepted", "repeated"):
            self.told[sent.report] = sent

    def gone(self, person):
        if person in self.people:
            self.people.remove(person)

    def judged(self, sent):
        """What the front must say to a report."""
        if sent.token in self.spent:
            return "repeated" if self.spent[sent.token] == sent.report else "token-spent"
        if self.servers.clock() >= sent.expires:
            return "token-expired"
        (number,) = sent.sealed
        return "accepted" if self.batches[sent.experiment, number].missing > 0 else "batch-closed"

    def takes(self, sent):
        outcome = self.judged(sent)
        if outcome == "accepted":
            self.spent[sent.token] = sent.report
            (number,) = sent.sealed
            batch = self.batches[sent.experiment, number]
            batch.members.append(sent)
            if len(batch.members) == batch.users:
                batch.state = "closed"
        return outcome

    def rooms(self, name):
        """Whether there may be a turn, and whether there must be one: some were given to nobody knows which offer."""
        now = self.servers.clock()
        out = Counter(o for n, o, due, token in self.turns if n == name and due > now and token not in self.spent)
        waiting = self.waiting(name)
        rooms = [
            max(0, int(AHEAD * batch.users) + SPARE - len(batch.members) - out[number])
            for (n, number), batch in self.batches.items()
            if n == name and batch.missing and batch.expires > now and number not in waiting
        ]
        return sum(rooms) > 0, sum(rooms) - out[None] > 0

    def waiting(self, name):
        """Offers of which no turn is dealt yet: the front does not know all that were opened together with them."""
        with self.servers.front.front.store.database.read() as connection:
            rows = connection.execute(select(OFFERS.c.number, OFFERS.c.together).where(OFFERS.c.experiment == name))
            together = {number: set(json.loads(others)) for number, others in rows}
        return {number for number, others in together.items() if others - together.keys()}

    def gave(self, name, offer, token):
        step = ceil(DUE_WITHIN / 10)
        due = (int(self.servers.clock() + DUE_WITHIN) // step + 1) * step
        self.turns.append((name, offer, due, token))
        self.assigned[name] += 1

    def given_more(self, name):
        """Whether a turn was given out whose answer nobody saw."""
        self.servers.revive()
        return self.servers.front.front.store.plays(name)[0] > self.assigned[name]

    def forged(self, person, body, change):
        """A report changed by somebody who knows the format and the public keys."""
        envelope = Envelope.from_bytes(body)
        info = report_info(person.experiment, envelope.configuration)
        public = self.servers.keys["front"].public(SUITE).seal
        bundle = change(open_report(person.experiment, body, self.servers.keys["front"]))
        return replace(envelope, sealed=seal(SUITE, public, bundle.to_bytes(), info)).to_bytes()

    def beside(self, what, work, death=None, at=1):
        """What the front does beside its routes."""
        self.may.add(what)
        self.dies("front", death, at)
        try:
            work()
            self.must.add(what)
        except Killed:
            assert death is not None

    def pull(self, name, sure=True):
        """One round of the analyzer; `sure` says that nothing is in its way."""
        analyzer, published = self.servers.analyzer.analyzer, self.servers.published[name]
        live = analyzer.live[name]
        self.may |= {"release", "cancel", "open"}
        try:
            self.servers.run(analyzer.round(live, published, 0.0))
        except Killed:
            assert self.servers.alive["analyzer"].dead
        else:
            # What a dying process makes of its death is nobody's concern.
            dead = self.servers.alive["analyzer"].dead
            assert dead or live.trouble.startswith(AWAY) or not live.trouble
            assert not (sure and live.trouble)
        if sure:
            self.must.add(f"release {name}")
        self.servers.wire.fates = []

    def may_leave(self, name, number):
        """Whether the front has countersigned a log since another batch left it."""
        with self.servers.front.front.store.database.read() as connection:
            head = connection.execute(select(HEADS).where(HEADS.c.experiment == name)).first()
        return head is not None and (head.pulled == number or head.number > head.pulled_at)

    def operate(self, **wish):
        url = "http://analyzer.test/experiments/colours/operations"
        answer = self.servers.ask("POST", url, self.servers.admin, json=wish)
        assert outcome_of(answer) in ("done", "operation-refused")

    def asked_to_leave(self, name, number):
        """Whether an operator wanted nobody more in the arm that this batch is of."""
        arms = [
            offer.arm for offer in self.servers.analyzer.analyzer.live[name].offers.values() if offer.number == number
        ]
        wishes = [record for record in self.logs[name] if record["event"] == "operated"]
        return any(wish["operation"] in ("pause", "retire") and wish["arm"] in arms for wish in wishes)

    def logged(self, name, number):
        return any(record["event"] == "released" and record["batch"] == number for record in self.logs[name])


def outcome_of(answer):
    """An answer in one word: the status that it names, `done`, or the refusal's token."""
    status = getattr(answer, "status_code", None) or answer.status
    body = json.loads(answer.content) if status >= 400 or answer.content[:9] == b'{"status"' else {}
    return body["type"].removeprefix(URN) if status >= 400 else body.get("status", "done")
