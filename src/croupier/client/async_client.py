"""The client for apps that run an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from croupier.checks import CroupierError
from croupier.client.base import LONGEST_SLEEP, Base, check_play
from croupier.client.exchange import AsyncExchange
from croupier.client.steps import Lost, Response, Steps, TimedOut
from croupier.client.turns import Joined, Shown, Turn
from croupier.messages.no_turn import NoTurn


class AsyncClient(Base):
    """The same for apps that run an event loop: every call is awaited, and the background is a task.

    Parameters are those of `Client`.

    Examples
    --------
    >>> async def show() -> str:
    ...     async with AsyncClient("http://127.0.0.1:9") as client:
    ...         turn = await client.play("homepage", timeout=0.05, default="plain")
    ...         return turn.arm_name
    >>> asyncio.run(show())  # nobody answers there, so that the default is shown
    'plain'
    """

    _exchange = AsyncExchange

    def _ready(self) -> None:
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def join(self, experiment: str) -> Joined:
        """See `Client.join`."""
        joined: Joined = await self._run(self.device.join(experiment))
        return joined

    async def play(
        self,
        experiment: str,
        *,
        timeout: float | None = None,
        default: str | None = None,
        sticky: bool = True,
        patience: float = 0.0,
        ticket: bytes | None = None,
        context: Mapping[str, object] | None = None,
    ) -> Turn | Shown:
        """See `Client.play`."""
        patience = check_play(patience, timeout, default)
        steps = self.device.play(experiment, patience, ticket, sticky, context=context)
        try:
            turn: Turn | Shown = await self._in_time(steps, timeout)
        except NoTurn as reason:
            turn = self._instead(experiment, default, sticky, reason)
        self._warn(experiment, default, turn)
        self._begin()
        return turn

    async def report(self, turn: Turn | Shown, outcome: object) -> bool:
        """See `Client.report`."""
        return self.device.record(turn, outcome)

    async def send_due(self) -> float | None:
        """See `Client.send_due`."""
        due: float | None = await self._run(self.device.send_due())
        return due

    async def close(self) -> None:
        """See `Client.close`."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.device.account.close()
        if not self._brought:
            await self._wire.close()

    def _begin(self) -> None:
        """Have the background look at what is due next."""
        if self._background and not self._closed and self.device.next_due() is not None:
            self._wake.set()
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._send_when_due(), name="croupier reports")

    async def _send_when_due(self) -> None:
        due: float | None = 0.0
        while due is not None:
            self._wake.clear()
            try:
                due = await self._run(self.device.send_due())
            except CroupierError:
                due = LONGEST_SLEEP
            if due is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), min(due, LONGEST_SLEEP))

    async def _in_time(self, steps: Steps, timeout: float | None) -> Any:
        try:
            async with asyncio.timeout(timeout):
                return await self._run(steps)
        except TimeoutError:
            raise TimedOut(f"there was no turn within {timeout:g} s") from None
        finally:
            steps.close()

    async def _run(self, steps: Steps) -> Any:
        answer: Response | Lost | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = await step.taken(self._wire)
