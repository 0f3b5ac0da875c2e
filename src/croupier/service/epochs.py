"""Sealing keys in epochs: a key is offered for a while, then reports under it still come in, then it is destroyed.

The analyzer remembers the name of every report that it has counted, so that none counts twice. It may forget a name
only when nothing opens any more that was sealed to the same key. So keys are replaced, and old ones destroyed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from croupier.messages.sealing import key_id
from croupier.service import keys as key_files
from croupier.service.experiment_log import Live
from croupier.service.keys import Keys, SealingKey

MARGIN = 86_400.0
"""Seconds that a key is kept beyond its last report: clocks differ, and a device may be slow."""


class Epochs:
    """The analyzer's sealing keys on disk over time; `seconds` is how long each is offered, 0 for ever.

    What this remembers of when a key was last in use begins anew with each start, which only keeps keys longer.
    """

    def __init__(self, directory: Path | None, suite: str, seconds: float, now: float) -> None:
        self.directory, self.suite, self.seconds = directory, suite, seconds
        self._begun, self._used = now, dict[bytes, float]()

    def renewed(self, keys: Keys, now: float) -> Keys | None:
        """All keys with a new one to be offered, when the newest has been for its time; else None."""
        if self.directory is None or not self.seconds or now - keys.newest(self.suite).made < self.seconds:
            return None
        key_files.rotate(self.directory, self.suite, now)
        return key_files.load(self.directory)

    def over(self, keys: Keys, lives: Iterable[Live], now: float) -> list[SealingKey]:
        """The keys that nothing can come under any more.

        In use is what the current configuration or an open turn names, what a batch is pinned to, and what reports at
        the front wait under. After that, turns that were taken may be reported for as long as their experiment says.
        """
        if self.directory is None or not self.seconds:
            return []
        longest = 0.0
        for live in lives:
            if live.configured is None:
                continue  # Nobody has sealed anything for it yet.
            longest = max(longest, float(live.plan.reports.within))
            if not live.caught_up:
                return []  # Not known yet what waits at the front.
            for used in in_use(live):
                self._used[used] = now
        newest = keys.newest(self.suite).id
        return [
            key
            for key in keys.sealing
            if key.id != newest and now - self._used.get(key.id, self._begun) > longest + MARGIN
        ]

    def destroy(self, keys: Keys, gone: SealingKey) -> Keys:
        """Destroy a key; those that are left."""
        assert self.directory is not None
        key_files.destroy(self.directory, gone)
        return keys.without({gone.id})


def in_use(live: Live) -> set[bytes]:
    """The ids of the analyzer's keys that an experiment needs now."""
    hashes = {offer.configuration for offer in live.offers.values()} | {batch.pin for batch in live.open.values()}
    hashes |= set(live.waiting)
    if live.configured is not None:
        hashes.add(live.configured.hash)
    known = [live.state.configuration(digest) for digest in hashes if digest in live.state.configurations]
    return {key_id(configuration.keys["analyzer"].seal) for configuration in known}
