"""How far a server's answers have gone, in a file beside its keys: a store that does not continue them is a copy.

A store that was restored from a backup would answer again what it has answered, with other noise. So the mark is on the
disk before an answer leaves, and a server does not start on a store that has not given the answer that it names: one
that is behind, or one that went on elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from croupier.checks import CroupierError
from croupier.client.account import write_atomically
from croupier.service.store.answers import Answered

REMEDY = "`croupier serve restored` makes it safe to go on with"

_THREADS = threading.Lock()


@contextmanager
def _alone(path: Path | None) -> Iterator[None]:
    """Keep a file to oneself, among the threads and the processes of all that use it."""
    if path is None:
        yield
        return
    with _THREADS, open(path.with_name(path.name + ".lock"), "wb") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class OldStore(CroupierError):
    """A store that is older than what its server has answered."""


class OtherBranch(OldStore):
    """A store that went another way than what its server has answered: a copy that went on elsewhere."""


class Answering(Protocol):
    """A store that remembers what it has answered."""

    @property
    def answers(self) -> Answered: ...

    def answer_name(self, number: int) -> bytes | None: ...


class HighWater:
    """The newest answer that was given: it only rises. Without a path it is kept in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._reached = self._read()

    def check(self, store: Answering) -> None:
        """Refuse a store that does not continue what was answered. Where nothing was, this one is meant from now on."""
        if self._reached is None:
            self._begin(store)
        reached, newest = self._reached, store.answers
        assert reached is not None
        if newest.number < reached.number:
            raise OldStore(
                f"the store has given {newest.number} answers, and this server {reached.number}: it is an old copy. "
                f"{REMEDY}"
            )
        if newest.number == 0:
            # Neither has answered anything: one that begins anew can repeat nothing.
            if newest.name != reached.name:
                self.begin_again(newest)
            return
        # A mark of an earlier version is a count alone.
        if reached.name and store.answer_name(reached.number) != reached.name:
            raise OtherBranch(
                f"the store has given {newest.number} answers, and not this server's answer {reached.number}, "
                f"{reached.name.hex()}: it is a copy that went on elsewhere. {REMEDY}"
            )

    def _begin(self, store: Answering) -> None:
        newest = store.answers
        with _alone(self.path):
            # Another worker may have begun, and answered, meanwhile.
            self._reached = self._read()
            if self._reached is None:
                if newest.number and self.path is not None:
                    raise OldStore(
                        f"the store has given {newest.number} answers, and {self.path} is missing: copy it from "
                        f"another host of this server. If the store was restored, {REMEDY}"
                    )
                self._write(newest)

    def begin_again(self, newest: Answered) -> None:
        """Whatever was answered before can do no harm any more: count from here."""
        with _alone(self.path):
            self._write(newest)

    def raise_to(self, newest: Answered) -> None:
        """On the disk when this returns; whoever else raises it, it never falls."""
        if self._reached is not None and newest.number <= self._reached.number:
            return
        with _alone(self.path):
            known = self._read()
            if known is None or known.number < newest.number:
                self._write(newest)
            else:
                self._reached = known

    def _write(self, newest: Answered) -> None:
        if self.path is not None:
            write_atomically(self.path, f"{newest.number} {newest.name.hex()}".encode("ascii"))
        self._reached = newest

    def _read(self) -> Answered | None:
        if self.path is None or not self.path.exists():
            return None
        try:
            number, _, name = self.path.read_text(encoding="ascii").partition(" ")
            return Answered(int(number), bytes.fromhex(name))
        except ValueError:
            raise OldStore(f"{self.path} holds no number and name of an answer") from None
