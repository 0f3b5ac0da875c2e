"""Batches and reports as a store sees them, without keys or signatures."""

import hashlib

from croupier.service.store import Arrival, NewBatch

NOW = 1000.0
KEY = bytes(range(32))


def batch(number=0, users=4, expires=None, name=b"b", slots=2, length=8):
    return NewBatch(number, hashlib.sha256(name).digest(), b"c" * 32, users, slots, length, expires)


def message(who, slot, number=0):
    return b"%04d%02d%02d" % (who, slot, number)


def arrival(who, offer=0, batches=(0,), token=None, report=None):
    parts = tuple((number, (message(who, 0, number), message(who, 1, number))) for number in batches)
    token = hashlib.sha256(b"t%d" % who).digest() if token is None else token
    return Arrival("e", offer, token, report or b"r%015d" % who, 1010, 2000, parts)


def released(store, number=0):
    """All messages of a batch, as they leave."""
    state, _ = store.receipt("e", number)
    assert state == "ready"
    payload = b"".join(iter_parts(store, number))
    return [payload[i : i + 8] for i in range(0, len(payload), 8)]


def iter_parts(store, number):
    part = 0
    while (payload := store.part("e", number, part)) is not None:
        yield payload
        part += 1


def close_all(store):
    closings = []
    for experiment, number, _ in store.full():
        store.close_batch(experiment, number, lambda closing: closings.append(closing) or "receipt")
    return closings
