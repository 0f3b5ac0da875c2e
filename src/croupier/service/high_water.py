"""How far a server's answers have gone, in a file beside its keys: a store that is behind it is an old copy.

A store that was restored from a backup would answer again what it has answered, with other noise. So the mark is on the
disk before an answer leaves, and a server does not start on a store that shows less.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from croupier.checks import CroupierError
from croupier.client.account import write_atomically

_THREADS = threading.Lock()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep a file to oneself, among the threads and the processes of all that use it."""
    with _THREADS, open(path.with_name(path.name + ".lock"), "wb") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class OldStore(CroupierError):
    """A store that is older than what its server has answered."""


class HighWater:
    """A number that only rises; without a path it is kept in memory.

    >>> mark = HighWater(None)
    >>> mark.raise_to(3)
    >>> mark.check(2)
    Traceback (most recent call last):
    croupier.service.high_water.OldStore: the store has given 2 answers, and this server 3: it is an old copy. ...
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._reached = self._read()

    def check(self, answers: int) -> None:
        """Refuse a store that has given fewer answers than this."""
        if answers < self._reached:
            raise OldStore(
                f"the store has given {answers} answers, and this server {self._reached}: it is an old copy. "
                "`croupier serve restored` makes it safe to go on with"
            )

    def begin_again(self, answers: int) -> None:
        """Whatever was answered before can do no harm any more: count from here."""
        self._reached = answers
        if self.path is not None:
            with _alone(self.path):
                write_atomically(self.path, str(answers).encode("ascii"))

    def raise_to(self, answers: int) -> None:
        """On the disk when this returns; whoever else raises it, it never falls."""
        if answers <= self._reached:
            return
        if self.path is None:
            self._reached = answers
            return
        with _alone(self.path):
            self._reached = max(answers, self._read())
            write_atomically(self.path, str(self._reached).encode("ascii"))

    def _read(self) -> int:
        if self.path is None or not self.path.exists():
            return 0
        try:
            return int(self.path.read_text(encoding="ascii"))
        except ValueError:
            raise OldStore(f"{self.path} holds no number") from None
