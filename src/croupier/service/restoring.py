"""What must happen before a server goes on with a store that was restored from a backup.

Such a store would answer again what it has answered, with other noise, and would count again what it has counted. So an
analyzer destroys its sealing keys: nothing that was sent before opens any more. A front gives up its open batches, and
the turns that it has given out. Either way what was on its way is lost, and nothing is told twice.
"""

from __future__ import annotations

import json
from pathlib import Path

from croupier.messages.configuration import Configuration
from croupier.messages.sealing import key_id
from croupier.noise import secure
from croupier.service import keys as key_files
from croupier.service.high_water import HighWater
from croupier.service.keys import ANSWERED, BATCH_KEYS
from croupier.service.register import LOG
from croupier.service.settings import AnalyzerSettings, FrontSettings, store_url
from croupier.service.store import AnalyzerStore, FrontStore
from croupier.service.store.batch_keys import BatchKeys

NOT_BACKED_UP = ("token", "store")
"""Secrets that every server has and an analyzer has no use for: a backup of its keys may lack them."""


def restored_analyzer(settings: AnalyzerSettings) -> int:
    """Make a restored analyzer safe to start: new sealing keys, the old ones destroyed first. How many there were.

    Whatever is interrupted here is taken up again by the next call: until the last step the store is behind the mark,
    or holds names of reports whose key is gone.
    """
    directory = Path(settings.keys)
    for name in NOT_BACKED_UP:
        if not (directory / name).exists():
            key_files.renew(directory / name)
    keys = key_files.load(directory)
    for key in keys.sealing:
        key_files.destroy(directory, key)
    _destroy_batch_keys(directory)
    store = AnalyzerStore(store_url(settings.store))
    # Those of the logs, too: their files may have been lost with the machine.
    store.give_up({key.id for key in keys.sealing} | _offered(store))
    # Some of those who are logged in by this copy may have been logged out since.
    store.end_sessions()
    HighWater(directory / ANSWERED).begin_again(store.answers)
    store.close()
    for suite in dict.fromkeys([settings.suite, *(key.suite for key in keys.sealing)]):
        # A number that was never used: one that is used again would be taken for the destroyed one.
        key_files.rotate(directory, suite, least=1 + max((key.number for key in keys.sealing), default=0))
    return len(keys.sealing)


def _offered(store: AnalyzerStore) -> set[bytes]:
    """The ids of all sealing keys that the logs name."""
    found = set()
    for experiment in store.experiments():
        for record in map(json.loads, store.read(experiment)):
            if record["event"] == "configured" and experiment != LOG:
                configuration = Configuration.from_text(record["configuration"]["body"])
                found.add(key_id(configuration.keys["analyzer"].seal))
    return found


def restored_front(settings: FrontSettings) -> int:
    """Make a restored front safe to start: open batches are given up, turns are void. How many batches there were."""
    directory = Path(settings.keys)
    keys = key_files.load(directory)
    key_files.renew(directory / "token")
    _destroy_batch_keys(directory)
    store = FrontStore(store_url(settings.store), secure(), keys.store)
    given_up = store.give_up()
    HighWater(directory / ANSWERED).begin_again(store.answers)
    store.close()
    return given_up


def _destroy_batch_keys(directory: Path) -> None:
    batch_keys = BatchKeys(directory / BATCH_KEYS)
    batch_keys.destroy(batch_keys.names())
