"""What both clients of an app are made of: the device, its account, and the way to the servers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from croupier.checks import CroupierError, InvalidParameter, between, positive
from croupier.client.account import Account
from croupier.client.device import Device
from croupier.client.limits import Limits
from croupier.client.turns import Shown, Turn
from croupier.messages.no_turn import NoTurn
from croupier.messages.signing import SERVERS, from_text

if TYPE_CHECKING:
    from croupier.noise import Source

log = logging.getLogger("croupier.client")

LONGEST_SLEEP = 60.0
"""The background looks at the clock so often, in seconds: a machine may sleep meanwhile."""


class Base:
    """What both clients are made of; see `Client`."""

    _exchange: type[Any]

    def __init__(
        self,
        analyzer: str,
        *,
        account: str | PathLike[str] | None = None,
        limits: Limits | None = None,
        keys: Mapping[str, bytes | str] | None = None,
        background: bool = True,
        http: Any = None,
        source: Source | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not str(analyzer).startswith(("http://", "https://")):
            raise InvalidParameter("analyzer", analyzer, "an http or https address")
        limits = limits or Limits()
        pinned = None if keys is None else _keys(keys)
        limits.check_address(analyzer)
        kept = Account(None if account is None else Path(account), limits, clock)
        self.device = Device(analyzer.rstrip("/"), kept, limits, source, pinned, clock)
        self._background, self._closed, self._http = background, False, http
        self._warned = set[str]()
        self._wire = self._new_wire()
        self._ready()

    def _ready(self) -> None:
        """What the background needs."""

    def _new_wire(self) -> Any:
        """An exchange: a crowd brings one of its own, anything else is a client of httpx2."""
        return self._http if self._brought else self._exchange(self._http)

    @property
    def _brought(self) -> bool:
        return hasattr(self._http, "exchange")

    @property
    def left(self) -> float:
        """How much ε the device's ledger still has now."""
        return self.device.account.left

    @property
    def renews_at(self) -> float | None:
        """When more of it will be left, in Unix time; None when nothing is spent."""
        return self.device.account.renews_at

    @property
    def trouble(self) -> str | None:
        """Why a report still waits that was to be sent by now; None where none does."""
        return self.device.trouble

    @property
    def turns(self) -> list[Turn]:
        """The turns that are still to be reported, whoever took them with this account."""
        kept = (Turn.readable(taken.turn) for taken in list(self.device.account.taken.values()))
        return [turn for turn in kept if turn is not None]

    def turn(self, id: str) -> Turn | None:  # noqa: A002
        """The turn of this id, if it is still to be reported."""
        taken = self.device.account.taken.get(id)
        return None if taken is None else Turn.readable(taken.turn)

    def _instead(
        self, experiment: str, default: str | None, sticky: bool, reason: NoTurn, late: Sequence[str] = ()
    ) -> Turn | Shown:
        """What is shown where there is no turn: the arm that was seen before, or the default, or the reason itself.

        A turn that came too `late`, by its id, is about to be forgotten.
        """
        seen = self.device.seen(experiment) if sticky else None
        if seen is not None and seen.id not in late:
            return seen
        if default is None:
            raise reason
        known = self.device.joined.get(experiment)
        arms = known.configuration.arms if known else ()
        return Shown(experiment, default, arms.index(default) if default in arms else None, reason)

    def _warn(self, experiment: str, default: str | None, turn: Turn | Shown) -> None:
        """Log, once each, what an app with a default would never show: a name that somebody has misspelt."""
        why = getattr(turn, "why", None)
        if why is not None and why.problem == "unknown-experiment":
            self._warn_once(f"the analyzer at {self.device.analyzer} knows no experiment called {experiment!r}")
        known = self.device.joined.get(experiment)
        arms = known.configuration.arms if known else ()
        if default is not None and arms and default not in arms:
            self._warn_once(f"default = {default!r} is no arm of {experiment}: it has {', '.join(arms)}")

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning("%s", message)

    def _forget(self, turns: Sequence[str]) -> None:
        """Forget turns that came when the app showed something else: they would be reported as if they were seen."""
        for turn in turns:
            with suppress(CroupierError):
                self.device.account.drop(turn, unseen=True)


def _keys(keys: Mapping[str, bytes | str]) -> dict[str, bytes]:
    """The servers' signing keys as bytes; `croupier serve keys` prints them as text."""
    if not isinstance(keys, Mapping) or set(keys) != set(SERVERS):
        raise InvalidParameter("keys", keys, f"a key each for {' and '.join(SERVERS)}")
    found = {}
    for server, key in keys.items():
        data = key if isinstance(key, bytes) else from_text(f"keys of the {server}", key)
        if len(data) != 32:
            raise InvalidParameter(f"keys of the {server}", key, "a signing key: 32 bytes, or their text in base64")
        found[server] = data
    return found


def check_play(patience: float, timeout: float | None, default: str | None) -> float:
    """The patience that fits into the time there is."""
    between("patience", patience, 0, 86_400, "[]")
    if default is not None and not isinstance(default, str):
        raise InvalidParameter("default", default, "the name of an arm")
    return float(patience if timeout is None else min(patience, positive("timeout", timeout)))
