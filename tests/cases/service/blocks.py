"""Experiments in blocks for tests of the service: plans, odds that change, and what must be true of blocks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from sqlalchemy import select

from cases.service.shares import DEADLINE, NAME, Shares, bits_of, without_marks
from croupier.bandits import POLICIES, Entry
from croupier.bandits.concurrent import Concurrent
from croupier.messages.offer import Offer
from croupier.service.store.schema import BATCHES, BLOCKS

LEAST, WITHIN = 3, 600
PLAN = {
    "name": NAME,
    "arms": ["red", "green"],
    "program": {"policy": "split", "growth": 1.0},
    "reward": {"low": 0, "high": 1},
    "privacy": {"epsilon": 8.0},
    "reports": {"report_within": WITHIN, "report_at": [0, 0]},
    "batches": {"smallest": LEAST, "deadline": DEADLINE},
    "decision": {"minimum_run": 0},
}


class Swinging(Concurrent):
    """Odds that are others after every block."""

    def allocation(self):
        shares = np.ones((self.runs, self.arms))
        shares[np.arange(self.runs), self.blocks % self.arms] = 2.0
        return shares


def _swinging(request):
    return Swinging(request.arms, request.horizon, request.ladder(1.0), request.terms, **request.common())


if "swinging" not in POLICIES:
    POLICIES.add("swinging", Entry("swinging", "", "devices", "laplace", "yardstick", _swinging, True, True))

SWINGING = PLAN | {"program": {"policy": "swinging"}}


def offers(service: Shares) -> dict[int, Offer]:
    """Every offer of the log, by its batch."""
    found = [Offer.from_text(record["offer"]["body"]) for record in service.records("opened")]
    return {offer.batches[0].number: offer for offer in found}


def members(service: Shares) -> dict[int, dict[int, set[int]]]:
    """Of every block that was released, the bits in each arm's total; nobody is in two."""
    blocks: dict[int, dict[int, set[int]]] = defaultdict(dict)
    seen: set[int] = set()
    known = offers(service)
    for record in service.records("released"):
        offer, inside = known[record["batch"]], bits_of(record["decoded"])
        assert len(inside) == record["users"], "a total holds as many reports as its receipt says"
        assert not inside & seen, "nobody counts twice"
        seen |= inside
        blocks[offer.block.number][offer.arm] = inside
    return blocks


def counted(service: Shares) -> set[int]:
    """The bits of all who are in a total."""
    return {bit for arms in members(service).values() for inside in arms.values() for bit in inside}


def check_noise(service: Shares) -> None:
    """Each server's noise is in every total once, where noise is marked."""
    for record in service.records("released"):
        without_marks(record["decoded"])


def check_together(service: Shares) -> None:
    """The batches of a block are open together, and over together: whatever crashed between two transactions.

    Of an arm that nobody reported two servers release nothing: then its batch has expired, and the others are over.
    """
    store = service.servers.front.front.store
    over = {"closed", "ready", "released"}
    with store.database.read() as connection:
        states: dict[int, set[str]] = defaultdict(set)
        for row in connection.execute(select(BATCHES.c.block, BATCHES.c.state, BATCHES.c.received)):
            empty = row.state == "expired" and not row.received
            states[row.block].add("empty" if empty else "over" if row.state in over else row.state)
        rows = connection.execute(select(BLOCKS.c.number, BLOCKS.c.state, BLOCKS.c.shares)).all()
    blocks, shares = ({row.number: getattr(row, each) for row in rows} for each in ("state", "shares"))
    for number, found in states.items():
        beside_empty = {"expired", "over"} if shares[number] == "two-servers" else {"expired"}
        assert len(found) == 1 or (len(found) == 2 and "empty" in found and found & beside_empty), (number, found)
        if "over" in found:
            assert blocks[number] in ("closed", "over")


def check_arms_and_epochs(service: Shares) -> None:
    """Everybody is in a total of the arm that they were dealt, and in one of the epoch of their turn."""
    known, by_bit = offers(service), {person.bit: person for person in service.people}
    for record in service.records("released"):
        offer = known[record["batch"]]
        for bit in bits_of(record["decoded"]):
            assert (by_bit[bit].arm, by_bit[bit].epoch) == (offer.arm, offer.block.epoch)


def check_cuts(service: Shares, order: list[int]) -> None:
    """In an epoch every block has all who were accepted between two moments: `order` are the bits as they came.

    Of those who are not in it, it is not known when they were accepted.
    """
    known = offers(service)
    epochs = {offer.block.number: offer.block.epoch for offer in known.values()}
    by_bit = {person.bit: person.epoch for person in service.people}
    for epoch in set(epochs.values()):
        came = [bit for bit in order if by_bit[bit] == epoch]
        for number, arms in sorted(members(service).items()):
            if epochs[number] == epoch:
                inside = {bit for each in arms.values() for bit in each} & set(order)
                assert set(came[: len(inside)]) == inside, f"block {number} has others than those who came next"
                came = came[len(inside) :]


def check_old_epochs_are_over(service: Shares) -> None:
    """When their time has passed, all who were accepted are counted, but for those of the epoch that is dealt."""
    for _ in range(4):
        service.servers.clock.now += 2 * WITHIN
        for _ in range(3):
            service.step()
            check_together(service)
    dealt = max((turn.block.epoch for turn in service.live.program.wanted), default=0)
    told = counted(service)
    left = [person for person in service.people if person.bit in service.accepted and person.bit not in told]
    assert {person.epoch for person in left} <= {dealt}


def check_nothing_lost(service: Shares, unsure: set[int]) -> None:
    """Who was told so and is in no total is in a block that is open. Of the unsure no answer came: they may be, too."""
    known, store = offers(service), service.servers.front.front.store
    logged = {record["batch"] for record in service.records("released")}
    with store.database.read() as connection:
        received = {
            row.number: row.received for row in connection.execute(select(BATCHES.c.number, BATCHES.c.received))
        }
        waiting = store.waiting(connection, service.name)
    held: dict[int, int] = defaultdict(int)
    for batch, offer in known.items():
        if batch not in logged:
            held[offer.block.epoch] += received.get(batch, 0)
    for stream, count in waiting.items():
        held[int(stream.rpartition("-")[2])] += count
    told = counted(service)
    by_bit = {person.bit: person.epoch for person in service.people}
    for epoch in {offer.block.epoch for offer in known.values()}:
        left = {bit for bit in service.accepted if by_bit[bit] == epoch and bit not in told}
        maybe = {bit for bit in unsure if by_bit[bit] == epoch and bit not in told | service.accepted.keys()}
        assert len(left) <= held[epoch] <= len(left) + len(maybe), f"epoch {epoch}: {left}, {held[epoch]} are held"
