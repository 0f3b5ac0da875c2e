"""How far a server's answers have gone, in a file beside its keys: a store that is behind it is an old copy.

A store that was restored from a backup would answer again what it has answered, with other noise. So the mark is on the
disk before an answer leaves, and a server does not start on a store that shows less.
"""

from __future__ import annotations

from pathlib import Path

from croupier.checks import CroupierError
from croupier.client.account import write_atomically


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
        self.path, self._reached = path, 0
        if path is not None and path.exists():
            try:
                self._reached = int(path.read_text(encoding="ascii"))
            except ValueError:
                raise OldStore(f"{path} holds no number") from None

    def check(self, answers: int) -> None:
        """Refuse a store that has given fewer answers than this."""
        if answers < self._reached:
            raise OldStore(
                f"the store has given {answers} answers, and this server {self._reached}: it is an old copy. "
                "`croupier serve restored` makes it safe to go on with"
            )

    def begin_again(self, answers: int) -> None:
        """Whatever was answered before can do no harm any more: count from here."""
        self._reached = -1
        self.raise_to(answers)

    def raise_to(self, answers: int) -> None:
        """On the disk when this returns."""
        if answers > self._reached:
            if self.path is not None:
                write_atomically(self.path, str(answers).encode("ascii"))
            self._reached = answers
