"""What the analyzer's experiments are sealed and checked with: keys that come, go, and are missed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from croupier.checks import CroupierError
from croupier.messages.configuration import Configuration
from croupier.messages.sealing import key_id
from croupier.noise import Source, secure
from croupier.service.decryption import Opener
from croupier.service.epochs import Epochs
from croupier.service.experiment import Site
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontClient
from croupier.service.high_water import HighWater
from croupier.service.keys import Keys, SealingKey
from croupier.service.settling import Settling
from croupier.service.store import AnalyzerStore
from croupier.service.waits import Waits

log = logging.getLogger("croupier")


class ExperimentKeys:
    """The analyzer's keys and what it works with; which keys its experiments still need, and which are no more."""

    def __init__(
        self,
        store: AnalyzerStore,
        keys: Keys,
        link: FrontClient,
        opener: Opener,
        urls: dict[str, str],
        suite: str,
        clock: Callable[[], float],
        waits: Waits,
        source: Source | None = None,
        mark: HighWater | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        self.clock, self.epochs = clock, epochs or Epochs(None, suite, 0.0, clock())
        self.settling = Settling(store, keys, link, opener, source or secure(), mark or HighWater(None), waits)
        self.keys, self.link, self.opener, self.urls, self.suite = keys, link, opener, urls, suite
        self.destroyed = store.destroyed
        """The ids of sealing keys that are no more."""
        self.live: dict[str, Live] = {}
        self._site: Site | None = None

    async def _renew_keys(self) -> None:
        """Offer a new sealing key when the old one's time is over, and destroy those that nothing comes under."""
        now = self.clock()
        if (renewed := self.epochs.renewed(self.keys, now)) is not None:
            self.keys = self.settling.keys = renewed
            # A new key is a new revision of every configuration.
            self._site = None
        for key in self.epochs.over(self.keys, self.live.values(), now):
            # First the key, then the names: a name may be forgotten once nothing opens under its key.
            self.keys = self.settling.keys = self.epochs.destroy(self.keys, key)
            await self.settling.forget_names(key.id)
            self.destroyed.add(key.id)
            log.info("key destroyed", extra={"fields": {"key": key.number}})

    def _void(self, live: Live) -> list[bytes]:
        """The configurations whose reports nobody can open any more, by hash."""
        known = live.state.configurations
        return [digest for digest in known if self._key_id(live.state.configuration(digest)) in self.destroyed]

    def _check_keys(self, live: Live) -> None:
        """Before users report to a batch that nobody could open, or whose proofs nobody could check: the key that it is
        pinned to must be here, and that of the proofs of its turns.
        """
        for number, batch in live.open.items():
            self._key(number, self._configuration(live, batch.pin))
        for number, offer in live.offers.items():
            validity = self._configuration(live, offer.configuration).validity
            if validity.proved and not validity.is_checked_with(self.keys.proof_key(live.name)):
                raise CroupierError(f"the key for proofs of turn {number} is missing here: put `proofs` back, restart")

    def _key(self, number: int, pinned: Configuration) -> SealingKey:
        key = self.keys.by_id(self._key_id(pinned))
        if key is None:
            remedy = "put its file back, restart; if it is lost, `croupier serve restored analyzer` gives the batch up"
            raise CroupierError(f"the key that batch {number} is sealed to is missing here: {remedy}")
        return key

    def _key_id(self, pinned: Configuration) -> bytes:
        return key_id(pinned.keys["analyzer"].seal)

    def _configuration(self, live: Live, digest: bytes) -> Configuration:
        return live.state.configuration(digest)
