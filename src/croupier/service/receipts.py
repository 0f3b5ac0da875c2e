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
