"""A turn's report as the bytes of an upload; `docs/wire.md` gives every byte."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from croupier.client.turns import Turn
from croupier.messages.asked import Asked
from croupier.messages.configuration import seal_slots
from croupier.messages.proofs import prove
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.shares import SharedReport, scopes, share_info
from croupier.messages.wire import Envelope, Part, Report, report_info
from croupier.validity.xof import SEED

if TYPE_CHECKING:
    from croupier.noise import Source


def needs_no_noise(turn: Turn) -> bool:
    """Whether the device adds no noise, and can do without NumPy."""
    return all(batch.plain is not None for batch in turn.offer.batches)


def upload(turn: Turn, value: object, source: Source | None) -> bytes:
    """Randomize a value, and seal it to both servers; without a source where the device adds no noise."""
    configuration, offer, value = turn.joined.configuration, turn.offer, turn.reported(value)
    front = configuration.keys["front"].seal
    bundle = (_shared if configuration.in_shares else _shuffled)(turn, value, source)
    sealed = seal(configuration.suite, front, bundle, report_info(configuration.experiment, offer.configuration))
    return Envelope(SUITES[configuration.suite].number, key_id(front), offer.configuration, sealed).to_bytes()


def _shuffled(turn: Turn, value: object, source: Source | None) -> bytes:
    """Messages for each batch, all alike, sealed to the analyzer one by one."""
    assert source is not None
    name, parts = turn.joined.name, []
    for batch in turn.offer.batches:
        opened = batch.mechanism.slots(value, source)
        parts.append(Part(batch.number, seal_slots(name, batch, turn.opened_under(batch), opened)))
    return Report(turn.report, turn.token, turn.offer.number, tuple(parts)).to_bytes()


def _shared(turn: Turn, value: object, source: Source | None) -> bytes:
    """Two shares of each part: one for the front, the other sealed to the analyzer."""
    configuration, offer = turn.joined.configuration, turn.offer
    infos = [
        share_info(turn.joined.name, offer.configuration, scope, part, turn.report)
        for part, scope in enumerate(scopes(offer))
    ]
    asked = [batch.asked for batch in offer.batches[: len(infos)]]
    numbers = [one.secret(value, source) for one in asked]
    if configuration.validity.proved:
        front, shares = _proved(asked[0], numbers[0], turn.report, infos[0])
    else:
        front, shares = _bare(asked, numbers, infos)
    key = configuration.keys["analyzer"].seal
    sealed = (seal(configuration.suite, key, share, info) for share, info in zip(shares, infos, strict=True))
    return SharedReport(turn.report, turn.token, offer.number, front, tuple(sealed)).to_bytes()


def _bare(asked: Sequence[Asked], numbers: Sequence[list[int]], infos: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """A seed of all the front's shares, and of each part what is missing."""
    seed, shares = os.urandom(SEED), []
    for one, secret, info in zip(asked, numbers, infos, strict=True):
        assert one.ring is not None
        shares.append(one.ring.split(secret, seed, info))
    return seed, shares


def _proved(asked: Asked, numbers: list[int], report: bytes, info: bytes) -> tuple[bytes, list[bytes]]:
    """The front's share and the analyzer's, with a proof that the only part is in range."""
    assert asked.prio3 is not None
    front, analyzer = prove(asked.prio3, numbers, report, info)
    return front, [analyzer]
