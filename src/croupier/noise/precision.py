"""The precision of ball arithmetic: one global setting of the library, so whoever changes it holds a lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flint import ctx

_lock = threading.RLock()


@contextmanager
def precise(bits: int) -> Iterator[None]:
    """Compute with so many bits, alone."""
    with _lock, ctx.workprec(bits):
        yield
