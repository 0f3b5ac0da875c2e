"""Servers whose noise is left out, so that a total tells which reports are in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from croupier.protocols.sums import planned, protocol, two_servers
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service import settling

MARK_BITS = 40
"""Where users are many, each is a random number of so many bits."""


def leave_out_noise(change: Callable[[Any, str, Any], None], precision: int) -> None:
    """Let both servers' noise be zero, and numbers have so many steps; `change` sets an attribute."""
    change(two_servers, "PRECISION", precision)
    change(SumMechanism, "server_noise", lambda self, source: [0] * self.dimension)
    change(settling, "check_decoded", lambda *_: None)
    change(planned, "is_affordable", lambda *_: True)


@contextmanager
def patched(monkeypatch: Any) -> Iterator[Any]:
    """Patches around which plans are made anew: those that were made under them are forgotten."""
    with monkeypatch.context() as patch:
        protocol._plan.cache_clear()
        try:
            yield patch
        finally:
            patch.undo()
            protocol._plan.cache_clear()


@contextmanager
def without_noise(monkeypatch: Any) -> Iterator[None]:
    """The same in this process."""
    with patched(monkeypatch) as patch:
        leave_out_noise(patch.setattr, 2**MARK_BITS)
        yield
