"""A turn's report as the bytes of an upload; `docs/wire.md` gives every byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from croupier.client.turns import Turn
from croupier.messages.configuration import seal_slots
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
    configuration, offer = turn.joined.configuration, turn.offer
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
    """Two shares of each part: the seed of one for the front, the other sealed to the analyzer."""
    configuration, offer, seed = turn.joined.configuration, turn.offer, os.urandom(SEED)
    sealed = []
    for part, scope in enumerate(scopes(offer)):
        asked = offer.batches[part].asked
        info = share_info(turn.joined.name, offer.configuration, scope, part, turn.report)
        assert asked.ring is not None
        share = asked.ring.split(asked.secret(value, source), seed, info)
        sealed.append(seal(configuration.suite, configuration.keys["analyzer"].seal, share, info))
    return SharedReport(turn.report, turn.token, offer.number, seed, tuple(sealed)).to_bytes()
