"""A process that works for the front's server: it has a front of its own, and is told what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from croupier.checks import CroupierError
from croupier.noise import Source, secure
from croupier.service import keys as key_files
from croupier.service.front import Assignment, Front
from croupier.service.high_water import HighWater
from croupier.service.keys import ANSWERED, BATCH_KEYS
from croupier.service.notary import Rules
from croupier.service.problems import Problem
from croupier.service.settings import FrontSettings, admission_of, store_url
from croupier.service.store import FrontStore

CLAIM_SECONDS = 5.0


def front_of(settings: FrontSettings, clock: Callable[[], float], source: Source) -> Front:
    """The front that these settings describe."""
    keys = key_files.load(Path(settings.keys))
    keys.newest(settings.suite)
    directory = Path(settings.keys)
    store = FrontStore(store_url(settings.store), source, keys.store, directory / BATCH_KEYS)
    rules = Rules(
        settings.ahead,
        settings.spare,
        settings.due_within,
        settings.remember,
        admission_of(settings),
        settings.largest_epsilon,
        settings.smallest_batch,
        settings.public_url,
        CLAIM_SECONDS if settings.workers > 1 else 0.0,
    )
    try:
        return Front(store, keys, rules, clock, HighWater(directory / ANSWERED))
    except CroupierError:
        store.close()
        raise


_here: list[Front] = []
"""The front of a process that works for this server."""


def prepare(settings: FrontSettings) -> None:
    """Make this process one that works for the server."""
    _here[:] = [front_of(settings, time.time, secure())]


def assign(wishes: Sequence[tuple[str, bytes | None]]) -> list[Assignment | Problem]:
    return _here[0].assign(wishes)


def settle(answer: tuple[str, int, bytes]) -> int:
    return _here[0].settle(*answer)


def close_full() -> int:
    return _here[0].close_full()


def take(uploads: Sequence[tuple[str, bytes]]) -> list[str | Problem]:
    return _here[0].take(uploads)
