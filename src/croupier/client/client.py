"""The client that an app embeds: join an experiment, play an arm, report what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from croupier.checks import InvalidParameter
from croupier.client.account import Account
from croupier.client.device import Device, Joined, Lost, Response, Steps, Turn
from croupier.client.exchange import AsyncExchange, Exchange
from croupier.client.limits import Limits
from croupier.messages.signing import SERVERS, from_text
from croupier.noise import Source, secure


class _Base:
    """What both clients are made of; see `Client`."""

    _exchange: type[Any]

    def __init__(
        self,
        analyzer: str,
        *,
        account: str | PathLike[str] | None = None,
        limits: Limits | None = None,
        trust: Mapping[str, bytes | str] | None = None,
        http: Any = None,
        source: Source | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not str(analyzer).startswith(("http://", "https://")):
            raise InvalidParameter("analyzer", analyzer, "an http or https address")
        limits = limits or Limits()
        pinned = None if trust is None else _keys(trust)
        limits.check_address(analyzer)
        kept = Account(None if account is None else Path(account), limits, clock)
        self.device = Device(analyzer.rstrip("/"), kept, limits, source or secure(), pinned, clock)
        # A crowd brings an exchange of its own; anything else is a client of httpx2.
        self._shared = hasattr(http, "exchange")
        self._wire = http if self._shared else self._exchange(http)

    @property
    def left(self) -> float:
        """How much ε the device's ledger still has now."""
        return self.device.account.left

    @property
    def renews_at(self) -> float | None:
        """When more of it will be left, in Unix time; None when nothing is spent."""
        return self.device.account.renews_at


def _keys(trust: Mapping[str, bytes | str]) -> dict[str, bytes]:
    """The servers' signing keys as bytes; `croupier serve keys` prints them as text."""
    if not isinstance(trust, Mapping) or set(trust) != set(SERVERS):
        raise InvalidParameter("trust", trust, f"a key each for {' and '.join(SERVERS)}")
    keys = {}
    for server, key in trust.items():
        data = key if isinstance(key, bytes) else from_text(f"trust of the {server}", key)
        if len(data) != 32:
            raise InvalidParameter(f"trust of the {server}", key, "a signing key: 32 bytes, or their text in base64")
        keys[server] = data
    return keys


class Client(_Base):
    """A device's client: every call waits for its answer.

    Parameters
    ----------
    analyzer : the analyzer's address.
    account : the file that keeps the personal ledger. Without it the ledger lasts as long as the object.
    limits : how much this device gives.
    trust : the two servers' signing keys, as bytes or as text. Without them those first seen are kept.
    http : an httpx2 client of the app's own, with its proxies or certificates.
    source : where noise comes from. None: a cryptographic source.
    clock : what tells the time, in seconds.

    Examples
    --------
    >>> with Client("https://analyzer.example", account="croupier.json") as client:  # doctest: +SKIP
    ...     turn = client.play("homepage")
    ...     client.report(turn, reward=show(turn.arm_name))
    """

    _exchange = Exchange

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self, experiment: str) -> Joined:
        """Fetch an experiment and check that both servers signed it and that it is within the device's limits."""
        joined: Joined = self._run(self.device.join(experiment))
        return joined

    def play(self, experiment: str, *, patience: float = 0.0, ticket: bytes | None = None) -> Turn:
        """Take a turn; when nothing is open, wait for at most `patience` seconds.

        A front may admit only those who show a `ticket` of an issuer that knows them.
        """
        turn: Turn = self._run(self.device.play(experiment, patience, ticket))
        return turn

    def report(self, turn: Turn, reward: object) -> None:
        """Report what came of a turn, privately. Refused when the ledger is spent or the batch has closed."""
        self._run(self.device.report(turn, reward))

    def resume(self) -> int:
        """Send again what a crash may have left unsent."""
        return int(self._run(self.device.resume()))

    def close(self) -> None:
        """Close the connection and give the account's file back."""
        self.device.account.close()
        if not self._shared:
            self._wire.close()

    def _run(self, steps: Steps) -> Any:
        answer: Response | Lost | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = step.taken(self._wire)


class AsyncClient(_Base):
    """The same for apps that run an event loop: every call is awaited."""

    _exchange = AsyncExchange

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def join(self, experiment: str) -> Joined:
        """See `Client.join`."""
        joined: Joined = await self._run(self.device.join(experiment))
        return joined

    async def play(self, experiment: str, *, patience: float = 0.0, ticket: bytes | None = None) -> Turn:
        """See `Client.play`."""
        turn: Turn = await self._run(self.device.play(experiment, patience, ticket))
        return turn

    async def report(self, turn: Turn, reward: object) -> None:
        """See `Client.report`."""
        await self._run(self.device.report(turn, reward))

    async def resume(self) -> int:
        """See `Client.resume`."""
        return int(await self._run(self.device.resume()))

    async def close(self) -> None:
        """See `Client.close`."""
        self.device.account.close()
        if not self._shared:
            await self._wire.close()

    async def _run(self, steps: Steps) -> Any:
        answer: Response | Lost | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = await step.taken(self._wire)
