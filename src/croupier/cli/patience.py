"""Limits on what checking a stranger's file may cost: time that grows with what was read, and memory."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from croupier.checks import CroupierError

T = TypeVar("T")

LINE_SECONDS = 0.1
"""What each line adds to the time; an honest one takes a few milliseconds."""

MEMORY = 2**32
"""Bytes that may be taken beyond those that were taken before."""


class _Over(BaseException):
    """Time is up; nothing in between may take this for an error of its own."""


@contextmanager
def limited(seconds: float) -> Iterator[Pace]:
    """Refuse what takes more than these seconds, `LINE_SECONDS` a line, and `MEMORY`, where the system can tell."""
    pace = Pace(seconds)
    try:
        with _timed(pace), _lean():
            yield pace
    except _Over:
        raise CroupierError(
            f"checking line {pace.lines} takes longer than it may: --patience gives more than {seconds:g} seconds"
        ) from None


class Pace:
    """Lines as they are read, and the time that is left."""

    def __init__(self, seconds: float) -> None:
        self.lines, self._end = 0, time.monotonic() + seconds

    def of(self, lines: Iterable[T]) -> Iterator[T]:
        for line in lines:
            self.lines += 1
            self._end += LINE_SECONDS
            yield line

    def look(self, *_: object) -> None:
        if time.monotonic() > self._end:
            raise _Over


@contextmanager
def _timed(pace: Pace) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, pace.look)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _lean() -> Iterator[None]:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + MEMORY
    if soft == resource.RLIM_INFINITY or most < soft:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
