"""Which experiments there are, and who did what to them: the operators' log.

It is a log as every other one: numbered, each line signed and with the hash of all before. What it says is the state.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from croupier.programs import records
from croupier.programs.records import BadRecord, Head, Record
from croupier.service.keys import Keys
from croupier.service.store import AnalyzerStore
from croupier.service.store.analyzer import Beside

LOG = "OPERATORS"
"""Its name among the logs of the store: no experiment's name has capital letters."""
SERVER = "the server"
"""Who did what nobody asked for over HTTP: whoever started the server, and with which files."""
NEWEST = 200
"""So many of the newest lines are held, to be shown; the log has all."""
HIDDEN = ("previous", "signature", "plan", "file")
"""What is not shown of a line."""


@dataclass
class Entry:
    """An experiment as operators know it: what it was made from, whether it was started, whether it is put away."""

    name: str
    plan: dict[str, Any]
    file: bool
    """Whether it came from a file on the server, which may name modules."""
    started: bool = False
    archived: bool = False


class Register:
    """The operators' log, and what it says."""

    def __init__(self, store: AnalyzerStore, keys: Keys, clock: Callable[[], float]) -> None:
        self.store, self.keys, self.clock = store, keys, clock
        self.entries: dict[str, Entry] = {}
        self.newest: deque[Record] = deque(maxlen=NEWEST)
        self.head = Head()
        self.lock = asyncio.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since, here or by a command on the server."""
        for line in self.store.read(LOG, self.head.number + 1):
            try:
                record = records.read(line, self.head)
                records.check(line, record, self.keys.sign.public_key())
            except BadRecord as error:
                raise BadRecord(f"record {self.head.number + 1} of the operators' log: {error}") from None
            self._take_in(line, record)

    def _take_in(self, line: str, record: Record) -> None:
        self.head = self.head.after(line)
        if record["event"] in EVENTS:
            EVENTS[record["event"]](self, record)
        self.newest.append(shown(record))

    def _created(self, record: Record) -> None:
        known = self.entries.get(record["experiment"])
        entry = Entry(record["experiment"], record["plan"], record["file"])
        if known is not None:
            entry.started, entry.archived = known.started, known.archived
        self.entries[entry.name] = entry

    def _started(self, record: Record) -> None:
        self.entries[record["experiment"]].started = True

    def _archived(self, record: Record) -> None:
        self.entries[record["experiment"]].archived = True

    def rows(self) -> list[Record]:
        """Every line, as people see it."""
        return [shown(json.loads(line)) for line in self.store.read(LOG)]

    def made(self, who: str, event: str, **about: Any) -> Beside:
        """The line that comes next; it is not in the log yet."""
        at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="seconds")
        said = {key: value for key, value in about.items() if value is not None}
        body = {"event": event, "who": who, "at": at} | said
        return LOG, self.head.number + 1, records.make(self.head, body, self.keys.sign)

    def write(self, who: str, event: str, **about: Any) -> None:
        """Add a line at once; for who runs beside no server, or before one starts."""
        self.refresh()
        self.store.append(*self.made(who, event, **about))
        self.refresh()

    @asynccontextmanager
    async def beside(self, who: str, event: str, **about: Any) -> AsyncIterator[Beside]:
        """A line for somebody to write together with something else: it counts when that went well."""
        loop = asyncio.get_running_loop()
        async with self.lock:
            await loop.run_in_executor(self.store.readers, self.refresh)
            made = self.made(who, event, **about)
            yield made
            self._take_in(made[2], json.loads(made[2]))

    async def note(self, who: str, event: str, **about: Any) -> None:
        """Add a line."""
        async with self.beside(who, event, **about) as made:
            await asyncio.get_running_loop().run_in_executor(self.store.writer, partial(self.store.append, *made))


EVENTS: dict[str, Callable[[Register, Record], None]] = {
    "created": Register._created,
    "started": Register._started,
    "archived": Register._archived,
}
"""What changes which experiments there are; anything else is only noted."""


def shown(record: Record) -> Record:
    """A line as people see it."""
    return {key: value for key, value in record.items() if key not in HIDDEN}
