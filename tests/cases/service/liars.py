"""People who send what no honest device does: shares of their own making, sealed and wrapped as they must be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cases import plain_prio3
from croupier.client.turns import Turn
from croupier.messages.proofs import Shares, prove
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.shares import SharedReport, form, scopes, share_info
from croupier.messages.wire import Envelope, report_info
from croupier.service.groups import Reason
from croupier.validity import Prio3
from croupier.validity.circuits import Count, Histogram, Sum, SumVec

SEED = 32


def upload(turn: Turn, shares: Shares, sealed: bytes | None = None) -> bytes:
    """An upload with these shares, or with something else in the place of what is sealed to the analyzer."""
    configuration, offer = turn.joined.configuration, turn.offer
    if sealed is None:
        key = configuration.keys["analyzer"].seal
        sealed = seal(configuration.suite, key, shares.analyzer, info_of(turn))
    inner = SharedReport(turn.report, turn.token, offer.number, shares.front, (sealed,)).to_bytes()
    return wrapped(turn, inner)


def wrapped(turn: Turn, inner: bytes) -> bytes:
    """Any bytes, sealed to the front as a report is."""
    configuration, offer = turn.joined.configuration, turn.offer
    front = configuration.keys["front"].seal
    sealed = seal(configuration.suite, front, inner, report_info(turn.experiment, offer.configuration))
    return Envelope(SUITES[configuration.suite].number, key_id(front), offer.configuration, sealed).to_bytes()


def info_of(turn: Turn) -> bytes:
    """What both shares of a turn's report are bound to."""
    return share_info(turn.experiment, turn.offer.configuration, scopes(turn.offer)[0], 0, turn.report)


def prio3_of(turn: Turn) -> Prio3:
    found = turn.offer.batches[0].mechanism.prio3
    assert found is not None
    return found


def plain_circuit(prio3: Prio3) -> Any:
    """The same type as a plain reading of the draft has it: that one proves whatever it is told."""
    circuit = prio3.circuit
    if isinstance(circuit, Count):
        return plain_prio3.Count()
    if isinstance(circuit, Sum):
        return plain_prio3.Sum(circuit.range.most)
    if isinstance(circuit, SumVec):
        return plain_prio3.SumVec(circuit.outputs, circuit.range.most, circuit.chunk_length)
    assert isinstance(circuit, Histogram)
    return plain_prio3.Histogram(circuit.length, circuit.chunk_length)


def proved(turn: Turn, numbers: list[int], draw: random.Random, info: bytes | None = None) -> Shares:
    """Shares of any numbers of the encoding, valid or not, as well proved as can be."""
    prio3 = prio3_of(turn)
    circuit, rand = plain_circuit(prio3), draw.randbytes(prio3.rand_size)
    context = info_of(turn) if info is None else info
    public, leader, helper = plain_prio3.shard(circuit, numbers, turn.report, context, rand, 2)
    return Shares(helper + public[:SEED], leader + public[SEED:])


def unproved(turn: Turn, number: int, draw: random.Random) -> Shares:
    """Shares of any number, where no proof is asked for."""
    ring = turn.offer.batches[0].mechanism.ring
    assert ring is not None
    seed = draw.randbytes(SEED)
    return Shares(seed, ring.split([number], seed, info_of(turn)))


def honest(turn: Turn, numbers: list[int], draw: random.Random) -> Shares:
    prio3 = prio3_of(turn)
    return prove(prio3, numbers, turn.report, info_of(turn), draw.randbytes(prio3.rand_size))


@dataclass(frozen=True)
class Lie:
    """A report that must not count, and why."""

    reason: Reason
    make: Callable[[Turn, random.Random], Shares]


def _lowest(turn: Turn) -> list[int]:
    """The numbers of an honest report of the lowest value."""
    return (
        [1, *[0] * (prio3_of(turn).circuit.outputs - 1)]
        if _is_histogram(turn)
        else [0] * prio3_of(turn).circuit.outputs
    )


def _is_histogram(turn: Turn) -> bool:
    return isinstance(prio3_of(turn).circuit, Histogram)


def _numbers(turn: Turn, draw: random.Random, first: int) -> Shares:
    """One number of the encoding is this, however well it is proved."""
    numbers = [0] * prio3_of(turn).circuit.length
    numbers[0] = first
    return proved(turn, numbers, draw)


def _two_items(turn: Turn, draw: random.Random) -> Shares:
    length = prio3_of(turn).circuit.length
    return proved(turn, [1, 1, *[0] * (length - 2)] if _is_histogram(turn) else [2] * length, draw)


def _other_value(turn: Turn, draw: random.Random) -> Shares:
    shares, field = honest(turn, _lowest(turn), draw), prio3_of(turn).circuit.field
    first = (int.from_bytes(shares.analyzer[: field.size], "little") + 1) % field.modulus
    return replace_first(shares, first.to_bytes(field.size, "little"))


def replace_first(shares: Shares, word: bytes) -> Shares:
    """The first number of the analyzer's share is another."""
    return Shares(shares.front, word + shares.analyzer[len(word) :])


def _other_report(turn: Turn, draw: random.Random) -> Shares:
    """Shares and proof of another report of the same device, in every byte: only the name is another."""
    return honest(replace(turn, report=draw.randbytes(16)), _lowest(turn), draw)


def _mixed(turn: Turn, draw: random.Random) -> Shares:
    return Shares(honest(turn, _lowest(turn), draw).front, honest(turn, _lowest(turn), draw).analyzer)


def _other_scope(turn: Turn, draw: random.Random) -> Shares:
    scope, report = (77).to_bytes(4, "big"), turn.report
    other = share_info(turn.experiment, turn.offer.configuration, scope, 0, report)
    prio3 = prio3_of(turn)
    return prove(prio3, _lowest(turn), report, other, draw.randbytes(prio3.rand_size))


def _no_number(turn: Turn, draw: random.Random) -> Shares:
    return replace_first(honest(turn, _lowest(turn), draw), b"\xff" * prio3_of(turn).circuit.field.size)


def _random(turn: Turn, draw: random.Random) -> Shares:
    """Random numbers of the field in the place of both shares."""
    field, shares = prio3_of(turn).circuit.field, honest(turn, _lowest(turn), draw)
    words = len(shares.analyzer) // field.size
    return Shares(
        draw.randbytes(len(shares.front)), field.encode([draw.randrange(field.modulus) for _ in range(words)])
    )


def _zeros(turn: Turn, draw: random.Random) -> Shares:
    shares = honest(turn, _lowest(turn), draw)
    return Shares(shares.front, bytes(len(shares.analyzer)))


LIES = {
    "twice as much": Lie(Reason.INVALID, lambda turn, draw: _numbers(turn, draw, 2)),
    "less than nothing": Lie(
        Reason.INVALID, lambda turn, draw: _numbers(turn, draw, prio3_of(turn).circuit.field.modulus - 1)
    ),
    "a million": Lie(Reason.INVALID, lambda turn, draw: _numbers(turn, draw, 10**6)),
    "two items": Lie(Reason.INVALID, _two_items),
    "a proof for another value": Lie(Reason.INVALID, _other_value),
    "another report's shares": Lie(Reason.INVALID, _other_report),
    "shares of two reports": Lie(Reason.INVALID, _mixed),
    "another arm's shares": Lie(Reason.INVALID, _other_scope),
    "random numbers": Lie(Reason.INVALID, _random),
    "zeros": Lie(Reason.INVALID, _zeros),
    "a word beyond the field": Lie(Reason.MALFORMED, _no_number),
}
"""What a client can try whose shares have the right length, by name."""


def nonsense(turn: Turn, draw: random.Random) -> bytes:
    """An upload that is cut, padded, or sealed over random bytes at one of its layers."""
    configuration = turn.joined.configuration
    due = form(turn.offer, configuration.suite, proved=configuration.validity.proved)
    shares = honest(turn, _lowest(turn), draw)
    kind = draw.randrange(6)
    if kind == 0:
        return upload(turn, shares, draw.randbytes(due.parts[0]))
    if kind == 1:
        return upload(turn, shares, draw.randbytes(draw.randrange(2 * due.parts[0])))
    if kind == 2:
        return upload(turn, Shares(draw.randbytes(draw.randrange(200)), shares.analyzer))
    if kind == 3:
        return wrapped(turn, draw.randbytes(draw.choice([0, 1, 75, 76, 77, due.size - 1, due.size, due.size + 1])))
    whole = upload(turn, shares)
    if kind == 4:
        return whole[: draw.randrange(len(whole))] + draw.randbytes(draw.randrange(3))
    place = draw.randrange(len(whole))
    return whole[:place] + bytes([whole[place] ^ draw.randrange(1, 256)]) + whole[place + 1 :]
