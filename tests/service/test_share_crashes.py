"""Reports in shares, whoever dies and whatever is lost: each counts once, and each server's noise is in a total once.

Bandits, counters, histograms and vectors, on SQLite and PostgreSQL. The servers die in this process, on either side of
any transaction; `test_share_kills.py` kills them as processes.
"""

import random
from itertools import count

import pytest

from cases.service.machine import ANSWER_LOST, ARRIVES, REQUEST_LOST
from cases.service.shares import DEADLINE, DUE_WITHIN, KINDS, USERS, one_bit_a_user, opened

MOST_PEOPLE = 40
"""So many have a bit of their own; then the service begins anew."""
FEW = (("bandit", "postgresql", 0), ("bandit", "sqlite", 1), ("counter", "sqlite", 2), ("histogram", "postgresql", 3))
"""With fewer people they are in every run."""


def life(service):
    """Users come until a batch is in the log, whatever happens meanwhile; the first is settled alone."""
    released = len(service.records("released"))
    for _ in range(12):
        people = [person for person in (service.comes() for _ in range(USERS)) if person]
        for place, person in enumerate(people):
            while service.reports(person) is None:
                pass
            if place in (0, len(people) - 1):
                service.step()
        service.step()
        if len(service.records("released")) > released:
            return
        # Who was given a turn and never heard of it keeps it until it is overdue.
        service.servers.clock.now += 2 * DUE_WITHIN
    raise AssertionError("the service stands still")


def ended(service):
    """All that can be counted is counted; whoever is left waits for others, and nothing was given up."""
    service.settled(4)
    seen = service.counted()
    assert len(service.accepted.keys() - seen) < USERS, "only an open batch has some that are not in a total"
    assert not service.records("refused") + service.records("expired")
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["front", "analyzer"])
@pytest.mark.parametrize(
    ("kind", "store", "every", "validity"),
    [
        ("bandit", "sqlite", 9, "prio3"),
        ("bandit", "sqlite", 12, "none"),
        ("counter", "postgresql", 12, "prio3"),
        ("histogram", "sqlite", 12, "prio3"),
        ("linear", "sqlite", 12, "prio3"),
        *(
            pytest.param(kind, store, 1, validity, marks=pytest.mark.evidence)
            for kind in KINDS
            for store, validity in (("sqlite", "prio3"), ("postgresql", "prio3"), ("sqlite", "none"))
        ),
    ],
)
def test_crashes_between_any_two_writes_change_nothing(
    tmp_path, monkeypatch, record_property, kind, store, every, validity, server
):
    """A server dies before and after each of its transactions in the life of a batch, until none is left to die at."""
    homes = count()

    def begun():
        return opened(tmp_path / str(next(homes)), store, experiment=KINDS[kind], validity=validity)

    with one_bit_a_user(monkeypatch, kind):
        service, deaths, transaction, dies = begun(), 0, 1 - every, True
        while dies:
            transaction += every
            for committed in (False, True):
                if len(service.people) > MOST_PEOPLE:
                    ended(service)
                    service = begun()
                victim = service.servers.alive[server]
                victim.die_at(transaction, committed)
                life(service)
                dies = service.servers.alive[server] is not victim
                victim.fuse, deaths = 0, deaths + dies
        ended(service)
    assert deaths >= {"front": 40, "analyzer": 12}[server] // every
    record_property("deaths", deaths)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "store", "seed", "most"),
    [
        *((*case, 13) for case in FEW),
        *(pytest.param(*case, MOST_PEOPLE, marks=pytest.mark.evidence) for case in FEW),
        *(
            pytest.param(kind, store, seed, MOST_PEOPLE, marks=pytest.mark.evidence)
            for kind in KINDS
            for store in ("sqlite", "postgresql")
            for seed in range(4, 14)
        ),
    ],
)
def test_whatever_is_lost_or_killed_every_report_counts_once(tmp_path, monkeypatch, kind, store, seed, most):
    with one_bit_a_user(monkeypatch, kind):
        chance = random.Random(seed)
        service = opened(tmp_path, store, experiment=KINDS[kind])
        while len(service.people) < most:
            what = chance.random()
            if what < 0.5:
                person = service.comes()
                if person is not None and chance.random() < 0.8:
                    service.reports(person)
            elif what < 0.6 and service.people:
                service.reports(chance.choice(service.people))
            elif what < 0.7:
                victim = service.servers.alive[chance.choice(("front", "analyzer"))]
                victim.die_at(chance.randint(1, 8), chance.random() < 0.5)
            elif what < 0.75:
                service.servers.kill(chance.choice(("front", "analyzer")))
            elif what < 0.8:
                service.servers.wire.fates = [ARRIVES] * chance.randint(0, 5) + [
                    chance.choice((REQUEST_LOST, ANSWER_LOST))
                ]
            elif what < 0.85:
                service.servers.clock.now += chance.choice((1, 10, DEADLINE))
            else:
                service.step()
        service.servers.wire.fates = []
        service.servers.revive()
        service.settled(20)
        seen = service.counted()
        assert len(service.accepted.keys() - seen) < 2 * USERS, "only an open batch has some that are not in a total"
        assert len(seen) > most // 2
        service.close()
