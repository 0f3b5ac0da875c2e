"""What must be true of both servers after every step of the state machine, and when everything has come to rest."""

from collections import Counter

from hypothesis.stateful import invariant

from cases.service.machine import FRONT
from cases.service.model import DEADLINE, DUE_WITHIN, NAMES, Batch, Model
from cases.service.people import total
from cases.service.world import SUITE
from croupier.messages.offer import Offer
from croupier.messages.signing import Statement
from croupier.messages.wire import message_info
from croupier.service.decryption import open_all
from croupier.service.verifying import verify

MOVES = {
    "close": ("closed", "ready"),
    "expire": ("open", "expired"),
    "cancel": ("open", "cancelled"),
    "release": ("ready", "released"),
}
"""What a batch goes through besides filling, by what does it."""


def coarse(received, users):
    """What the public is told of how full a batch is: whole eighths, and no fewer than eight at once."""
    step = max(8, -(-users // 8))
    return users if received == users else received // step * step


class Checked(Model):
    """The model, compared with what the servers hold and say."""

    @invariant()
    def everything_is_as_the_model_says(self):
        self.servers.revive()
        for name in NAMES:
            self.check_log(name)
            self.check_standings(name)
        self.may, self.must = set(), set()

    def check_log(self, name):
        """The log only grows, and every new record is what the model says; memory is what the log says."""
        live, before = self.servers.analyzer.analyzer.live[name], self.logs[name]
        log = live.records
        assert log[: len(before)] == before
        assert live.run.head == live._replayed().head
        for place in range(len(before), len(log)):
            self.logs[name] = log[: place + 1]
            self.check_record(name, log[place], log[:place])

    def check_record(self, name, record, earlier):
        if record["event"] == "opened":
            for batch in Offer.from_text(record["offer"]["body"]).batches:
                self.mechanisms[name, batch.number] = batch.mechanism
                self.infos[name, batch.number] = message_info(name, batch.pin, batch.hash)
        elif record["event"] == "released":
            number = record["batch"]
            assert not any(one.get("batch") == number for one in earlier), f"batch {number} is in the log twice"
            batch, mechanism = self.batches[name, number], self.mechanisms[name, number]
            receipt = Statement.from_dict("release", record["receipt"]).body
            assert len(batch.members) == batch.users == mechanism.users == receipt["reports"]
            assert batch.state in ("ready", "released")
            key = self.servers.keys["analyzer"].newest(SUITE)
            own = [(key.suite, key.private, self.infos[name, number], one) for one in self.check_messages(name, number)]
            said = [slot for sent in batch.members for slot in sent.said[number]] + open_all(own)
            assert record["decoded"] == total(mechanism, said)
            assert record["damaged"] == said.count(None)
        elif record["event"] == "expired":
            assert self.batches[name, record["batch"]].state in ("expired", "cancelled")
        else:
            assert record["event"] in ("configured", "operated"), record

    def check_messages(self, name, number):
        """What left is what came in, every message of every member, once, and the front's own, which this returns."""
        left = self.servers.wire.released[f"/experiments/{name}/batches/{number}/messages/0"]
        came = sorted(message for sent in self.batches[name, number].members for message in sent.sealed[number])
        length = len(came[0])
        found = Counter(left[i : i + length] for i in range(0, len(left), length))
        assert not Counter(came) - found
        assert set(found.values()) == {1}
        own = list(found - Counter(came))
        assert len(own) == self.mechanisms[name, number].shape.front
        return own

    def check_standings(self, name):
        found = self.standings(name)
        for one in found["batches"]:
            key = (name, one["batch"])
            if key not in self.batches:
                assert "open" in self.may
                self.batches[key] = Batch(self.mechanisms[key].users, self.servers.clock() + DEADLINE)
            batch = self.batches[key]
            if one["state"] != batch.state:
                self.check_move(name, one["batch"], batch, one["state"])
            assert (one["users"], one["received"]) == (batch.users, coarse(len(batch.members), batch.users))
        mine = {key: batch for key, batch in self.batches.items() if key[0] == name}
        assert len(found["batches"]) == len(mine)
        plays = self.servers.front.front.store.plays(name)
        assert plays == (self.assigned[name], sum(len(batch.members) for batch in mine.values()))
        assert (found["assigned"], found["accepted"]) == tuple(total // 32 * 32 for total in plays)
        if found["finished"] and name not in self.finished:
            assert self.servers.analyzer.analyzer.live[name].program.finished
            self.finished.add(name)
        self.check_done(name, mine)

    def standings(self, name):
        return self.servers.ask("GET", f"{FRONT}/experiments/{name}/batches").json()

    def check_move(self, name, number, batch, state):
        """A batch went from one state to another: only as this step may do it, and only for a reason."""
        what = next((what for what, move in MOVES.items() if move == (batch.state, state)), None)
        assert what in self.may, f"batch {number} of {name} went from {batch.state} to {state}"
        over = self.servers.analyzer.analyzer.live[name].program.finished
        reasons = {
            "close": len(batch.members) == batch.users,
            "expire": batch.expires <= self.servers.clock(),
            "cancel": over or self.asked_to_leave(name, number),
            "release": over or self.logged(name, number),
        }
        assert reasons[what], f"batch {number} of {name} was {state} without a reason"
        batch.state = state

    def check_done(self, name, mine):
        """What a step had to do, it did."""
        states = [batch.state for batch in mine.values()]
        assert "close" not in self.must or "closed" not in states
        if "expire" in self.must:
            assert not any(batch.state == "open" and batch.expires <= self.servers.clock() for batch in mine.values())
        if f"release {name}" in self.must:
            assert "ready" not in states, "a batch was ready and was not taken, or not acknowledged"

    def come_to_rest(self):
        """Let everybody finish, release every batch that holds a report, and look at the whole."""
        for person in list(self.people):
            while person.request is not None:
                self.sends(person)
        for _ in range(100):
            open_ones = [key for key, batch in self.batches.items() if batch.state == "open" and batch.members]
            if not open_ones:
                break
            if not self.rooms(open_ones[0][0])[1]:
                self.time_passes(DUE_WITHIN + 2)
                self.the_front_tidies_up("expire", None, 1)
                self.everything_is_as_the_model_says()
            else:
                self.serve(open_ones[0][0], 1)
        for _ in range(2):
            self.a_round_without_trouble()
            self.everything_is_as_the_model_says()
        where = Counter(sent.report for batch in self.batches.values() for sent in batch.members)
        assert set(where.values()) <= {1}, "a report is in two batches"
        assert set(self.told) <= set(where), "a report was accepted and is nowhere"
        for (name, number), batch in self.batches.items():
            assert batch.state in ("released", "expired", "cancelled") or not batch.members, (name, number, batch.state)
            over = name in self.finished
            assert self.logged(name, number) == (batch.state == "released") or over
        for name in NAMES:
            transcript = self.servers.ask("GET", f"http://analyzer.test/experiments/{name}/transcript").text
            released = [key for key in self.batches if key[0] == name and self.logged(*key)]
            assert verify(transcript).reports == sum(self.batches[key].users for key in released)
