"""What a front signs of a batch that it releases, and how anyone checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from croupier.checks import CroupierError, integer
from croupier.messages.block import Block
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Batch
from croupier.messages.sealing import SUITES
from croupier.messages.signing import Statement, from_text, to_text
from croupier.programs.interpreter import MOST_IN_BLOCK
from croupier.service.groups import Reason

IN_BLOCK = ("turns", "over", "silent")
"""What a receipt says of the turns of a batch in a block, and the log after it."""

WORDS = dict.fromkeys(reason.word for reason in Reason)
"""Why reports in shares may not count, as receipts say it."""


class BadRelease(CroupierError):
    """A release that no honest front hands out."""


def check_receipt(
    receipt: Statement, pinned: Configuration, batch: Batch, block: Block | None = None
) -> dict[str, Any]:
    """A release is what the front signed: this batch, exactly its users, exactly their messages and its own."""
    receipt.check("front", pinned.verify_keys["front"])
    body = receipt.body
    users, shape = batch.mechanism.users, batch.shape
    due = {
        "experiment": pinned.experiment,
        "configuration": to_text(batch.pin),
        "batch": batch.number,
        "batch_hash": to_text(batch.hash),
        "reports": users,
        "messages": users * shape.slots + shape.front,
        "length": shape.length + SUITES[pinned.suite].overhead,
    }
    for key, value in due.items():
        if body.get(key) != value:
            raise BadRelease(f"the receipt says {key} = {body.get(key)!r}, and {value!r} is due")
    _check_block(body, block)
    return body


def _check_block(body: dict[str, Any], block: Block | None) -> None:
    """What a receipt says of a batch's block: that it is this one, and how many turns its reports came of."""
    if (number := body.get("block")) != (None if block is None else block.number):
        raise BadRelease(f"the receipt says block = {number!r}, and {None if block is None else block.number!r} is due")
    if block is None:
        return
    turns = body.get("turns")
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < body["reports"]:
        raise BadRelease(f"the receipt says turns = {turns!r}, for {body['reports']} reports")
    if not isinstance(body.get("over"), bool):
        raise BadRelease(f"the receipt says over = {body.get('over')!r}, and true or false is due")
    silent = body.get("silent", [])
    if not isinstance(silent, list) or not all(_is_pair(pair) for pair in silent):
        raise BadRelease(f"the receipt says silent = {silent!r}, and pairs of a batch and a number are due")


def _is_pair(told: object) -> bool:
    """Whether it is two whole numbers that are not negative."""
    if not isinstance(told, list) or len(told) != 2:
        return False
    return all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in told)


def check_share(answer: Statement, pinned: Configuration, batch: Batch, block: Block | None = None) -> dict[str, Any]:
    """The front's answer for a batch in shares: of this batch, and of no more reports than it takes.

    In a block of two servers it takes any number.
    """
    answer.check("front", pinned.verify_keys["front"])
    body = answer.body
    due = {
        "experiment": pinned.experiment,
        "configuration": to_text(batch.pin),
        "batch": batch.number,
        "batch_hash": to_text(batch.hash),
    }
    for key, value in due.items():
        if body.get(key) != value:
            raise BadRelease(f"the receipt says {key} = {body.get(key)!r}, and {value!r} is due")
    users, any_batch = batch.mechanism.users, batch.mechanism.fits_any_batch
    least, most = 1 if any_batch else users, MOST_IN_BLOCK if any_batch and block is not None else users
    reports = body.get("reports")
    if not isinstance(reports, int) or isinstance(reports, bool) or not least <= reports <= most:
        raise BadRelease(f"the receipt says reports = {reports!r}, and {least} to {most} are due")
    _check_block(body, block)
    for key in ("set", "share"):
        from_text(key, body.get(key))
    refused = body.get("refused")
    if not isinstance(refused, dict) or not refused.keys() <= WORDS.keys():
        raise BadRelease(f"the receipt says refused = {refused!r}, and a number for some of {', '.join(WORDS)} is due")
    for word, count in refused.items():
        integer(f"refused.{word}", count, 1)
    return body


def check_decoded(batch: Batch, decoded: int | Sequence[int], damaged: int, users: int | None = None) -> None:
    """Refuse a batch that its users cannot have made: more is damaged than the bad ones send, or a number is none that
    values and noise add up to (see `Mechanism.possible`).
    """
    mechanism = batch.mechanism if users is None else batch.mechanism.for_users(users)
    low, high = mechanism.possible
    numbers = [decoded] if isinstance(decoded, int) else list(decoded)
    if (None if isinstance(decoded, int) else len(numbers)) != mechanism.outputs:
        raise BadRelease(f"{len(numbers)} numbers came out, which is not what a batch of these gives")
    for number in numbers:
        if not low <= number <= high:
            raise BadRelease(f"{number} came out, and a batch of {mechanism.users} users lies in [{low}, {high}]")
    bad = max(mechanism.users - mechanism.honest, mechanism.users // 10)
    if damaged > bad * batch.shape.slots:
        raise BadRelease(f"{damaged} messages are damaged, and {bad} users send {bad * batch.shape.slots}")
