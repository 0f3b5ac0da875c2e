"""One server that plays against the other, with all its keys and stores, where totals are in shares."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

from sqlalchemy import update

from cases.service.machine import FRONT
from cases.service.shares import NAME, USERS, Shares
from croupier.messages.signing import Statement, from_text
from croupier.service.groups import Group, Reason
from croupier.service.store.analyzer import Held
from croupier.service.store.schema import BATCHES


def waiting_group(service: Shares, count: int = USERS) -> Group:
    """The group that an honest front would show, after so many users have reported."""
    for _ in range(count):
        service.reports(service.comes())
    return service.servers.front.front.group(NAME)


def settle(service: Shares, group: Group, name: str = NAME) -> list[Reason | None]:
    """What becomes of each report of a group that some front shows the analyzer: None, or why it does not count."""
    analyzer = service.servers.analyzer.analyzer
    answer = service.servers.run(analyzer.settling._settle(analyzer.live[name], group, group.to_bytes()))
    return list(answer.reasons)


def held(service: Shares, batch: int, name: str = NAME) -> Held | None:
    """Which reports are in the analyzer's sum: it alone knows their number and names."""
    store = service.servers.analyzer.store
    with store.database.read() as connection:
        return store._sum(connection, name, batch)


def settled(service: Shares) -> None:
    """Both servers have counted what has come."""
    service.servers.run(service.servers.analyzer.analyzer.settling.settle_all(service.live))


def shared(service: Shares, batch: int) -> str:
    """What the front answers for a batch: its share, or why there is none."""
    address = f"{FRONT}/experiments/{NAME}/batches/{batch}/share"
    while (answer := service.servers.ask("GET", address, service.servers.bearer)) is None:
        service.servers.revive(defuse=False)
    return json.loads(answer.json()["body"])["share"] if answer.status_code == 200 else answer.json()["type"]


def closed_batch(service: Shares, values: tuple[object, ...] = (1.0,) * USERS) -> int:
    """A batch of these values whose answer is ready at the front, and that nobody has asked for."""
    for value in values:
        service.reports(service.comes(value=value))
    settled(service)
    service.servers.front.front.close_full()
    return next(iter(service.live.open))


def total(service: Shares, batch: int) -> int:
    """What the analyzer says that a batch adds up to, with both noises."""
    settling = service.servers.analyzer.analyzer.settling
    service.servers.run(service.servers.analyzer.analyzer._witnessed(service.live))
    return service.servers.run(settling.decoded(service.live, service.live.open[batch]))[1].decoded


@contextmanager
def forgetful(monkeypatch: Any, store: Any, first: Any = None):
    """A store that keeps nothing of what it writes, and destroys no key; `first` it changes something itself."""

    @contextmanager
    def write():
        with store.database.engine.connect() as connection:
            if first is not None:
                connection.execute(first)
            yield connection
            connection.rollback()

    with monkeypatch.context() as patch:
        patch.setattr(store.database, "write", write)
        patch.setattr(store.batch_keys, "destroy", lambda names: None)
        yield


def answered_anew(monkeypatch: Any, service: Shares, batch: int) -> Statement:
    """What a front answers that forgets that it has, and whether the batch is closed: the guard removed."""
    front, said = service.servers.front.front, []
    answer = front.store.answer

    def listened(name, number, add_noise, receipt):
        return answer(name, number, add_noise, lambda *about: said.append(receipt(*about)) or said[-1])

    closed = update(BATCHES).where(BATCHES.c.number == batch).values(state="closed")
    with forgetful(monkeypatch, front.store, closed), monkeypatch.context() as patch:
        patch.setattr(front.store, "answer", listened)
        assert front._answer(NAME, batch)
    return Statement.from_dict("release", json.loads(said[0]))


def of_both(service: Shares, batch: int, share: str) -> int:
    """What a malicious analyzer makes of an answer of the front: it adds its own sum."""
    ring = service.live.state.turns[batch].batches[0].mechanism.ring
    theirs = ring.decode(from_text("share", share), 1)
    return ring.signed(ring.add(theirs, ring.decode(held(service, batch).total, 1)))[0]
