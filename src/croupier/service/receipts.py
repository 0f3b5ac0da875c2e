"""What a shuffler signs of a batch that it releases, and how anyone checks it."""

from __future__ import annotations

from typing import Any

from croupier.checks import CroupierError
from croupier.client.configuration import Batch, Configuration
from croupier.client.sealing import SUITES
from croupier.client.signing import Statement, to_text


class BadRelease(CroupierError):
    """A release that no honest shuffler hands out."""


def check_receipt(receipt: Statement, configuration: Configuration, digest: bytes, batch: Batch) -> dict[str, Any]:
    """A release is what the shuffler signed: this batch, exactly its users, exactly their messages."""
    receipt.check("shuffler", configuration.verify_keys["shuffler"])
    body = receipt.body
    users, shape = batch.mechanism.users, batch.shape
    due = {
        "experiment": configuration.experiment,
        "configuration": to_text(digest),
        "batch": batch.number,
        "batch_hash": to_text(batch.hash),
        "reports": users,
        "messages": users * shape.slots,
        "length": shape.length + SUITES[configuration.suite].overhead,
    }
    for key, value in due.items():
        if body.get(key) != value:
            raise BadRelease(f"the receipt says {key} = {body.get(key)!r}, and {value!r} is due")
    return body


def check_damage(batch: Batch, damaged: int) -> None:
    """Refuse a batch in which more is damaged than bad users can be to blame for: its noise would be missing too."""
    mechanism = batch.mechanism
    bad = max(mechanism.users - mechanism.honest, mechanism.users // 10)
    if damaged > bad * batch.shape.slots:
        raise BadRelease(f"{damaged} messages are damaged, and {bad} users send {bad * batch.shape.slots}")
