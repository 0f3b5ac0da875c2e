"""What operators do: create, start, pause, resume, stop and archive experiments while the server runs.

Whatever they do is a line of the operators' log, written together with what it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from croupier.checks import CroupierError, InvalidParameter
from croupier.service.analyzer import Analyzer
from croupier.service.experiment import Plan, admit, check_length, plan
from croupier.service.experiment_log import Asked, Live
from croupier.service.problems import Problem
from croupier.service.register import SERVER, Entry, Register

log = logging.getLogger("croupier")

MOST_LOOKED_AT = 4
"""Of the experiments that were archived so many are held, once somebody has looked at them."""


class Desk:
    """Experiments that come and go; each that was started has a task that drives it."""

    def __init__(self, analyzer: Analyzer, register: Register, poll: float) -> None:
        self.analyzer, self.register, self.poll = analyzer, register, poll
        self.unfit: dict[str, str] = {}
        """Experiments of the register that cannot be run here any more, and why."""
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._looked_at: OrderedDict[str, Live] = OrderedDict()
        self._changing = asyncio.Lock()

    # Before the server answers

    def take_in(self, plans: Iterable[Plan]) -> None:
        """Take in those of files, which are started when they are new, and those that the register knows."""
        for one in plans:
            known = self.register.entries.get(one.name)
            if known is not None and known.archived:
                log.warning("archived", extra={"fields": {"experiment": one.name}})
                continue
            self._add(one)
            if known is None or known.plan != one.source:
                self.register.write(SERVER, "created", experiment=one.name, plan=one.source, file=True)
            if known is None or not known.started:
                self.register.write(SERVER, "started", experiment=one.name)
        for entry in self.register.entries.values():
            if not entry.archived and entry.name not in self.analyzer.live:
                self._take_back(entry)

    def _take_back(self, entry: Entry) -> None:
        """An experiment that was here before; one that cannot go on stands in nobody else's way."""
        try:
            if entry.file:
                admit(entry.plan)
            self._add(plan(entry.plan))
        except (CroupierError, ImportError) as error:
            self.unfit[entry.name] = str(error)
            log.error("unfit", extra={"fields": {"experiment": entry.name, "what": str(error)}})

    def _add(self, one: Plan) -> Live:
        check_length(one, self.analyzer.suite)
        return self.analyzer.add(one)

    # While it does

    def begin(self) -> None:
        """Drive every experiment that was started."""
        for name in self.analyzer.live:
            if self.register.entries[name].started:
                self._drive(name)

    async def end(self) -> None:
        """Let go of all of them."""
        for task in self._drivers.values():
            task.cancel()
        await asyncio.gather(*self._drivers.values(), return_exceptions=True)

    def _drive(self, name: str) -> None:
        self._drivers[name] = asyncio.create_task(self.analyzer.run(name, self.poll), name=name)

    def entry(self, name: str) -> Entry:
        return self.register.entries[name]

    async def find(self, name: str) -> Live:
        """An experiment by name; one that was archived is read again from its log."""
        if name in self.analyzer.live:
            return self.analyzer.live[name]
        entry = self.register.entries.get(name)
        if entry is None or name in self.unfit:
            raise Problem("unknown-experiment", self.unfit.get(name, ""))
        if name not in self._looked_at:
            self._looked_at[name] = await asyncio.to_thread(self._read, entry)
            while len(self._looked_at) > MOST_LOOKED_AT:
                self._looked_at.popitem(last=False)
        return self._looked_at[name]

    def _read(self, entry: Entry) -> Live:
        if entry.file:
            admit(entry.plan)
        return self.analyzer.read(plan(entry.plan))

    def standing(self, live: Live) -> str:
        """Where an experiment is in its life, in a word."""
        entry = self.entry(live.name)
        if entry.archived:
            return "archived"
        if live.program.finished:
            return "finished"
        if not entry.started:
            return "created"
        return "paused" if live.state.paused else "stalled" if live.stalled else "running"

    async def create(self, who: str, body: dict[str, Any]) -> Live:
        """Take in a new experiment, which waits to be started."""
        made = await asyncio.to_thread(plan, body)
        async with self._changing:
            if made.name in self.register.entries:
                raise Problem("name-taken", f"there is an experiment called {made.name!r}, or there was one")
            await asyncio.to_thread(check_length, made, self.analyzer.suite)
            await self.register.note(who, "created", experiment=made.name, plan=made.source, file=False)
            return self.analyzer.add(made)

    async def operate(self, who: str, live: Live, asked: Asked) -> int | None:
        """Do what an operator asks; the number of the record that it is in the experiment's log, if it is in there."""
        operation = asked.operation
        if operation in OWN:
            if asked != Asked(operation):
                raise InvalidParameter("operation", operation, "one for the whole experiment, without an arm")
            async with self._changing:
                await OWN[operation](self, who, live)
            return None
        if (standing := self.standing(live)) in ("created", "archived"):
            raise InvalidParameter("operation", operation, f"one for an experiment that runs: this one is {standing}")
        if operation == "stop" and standing == "finished":
            raise CroupierError("it has ended already")
        about = {"arm": _named(live, asked.arm), "name": asked.name, "shares": asked.shares}
        noted = {"experiment": live.name, "operation": operation} | about
        async with self.register.beside(who, "operated", **noted) as line:
            return await live.operate(asked, line)

    async def _start(self, who: str, live: Live) -> None:
        """Let users come."""
        if self.standing(live) != "created":
            raise InvalidParameter("operation", "start", "one for an experiment that was not started yet")
        await self.register.note(who, "started", experiment=live.name)
        self._drive(live.name)

    async def _archive(self, who: str, live: Live) -> None:
        """Put an experiment away that has ended, or was never started: it can be read, and nothing more."""
        if self.standing(live) not in ("created", "finished"):
            raise InvalidParameter("operation", "archive", "one for an experiment that has ended: stop it first")
        driver = self._drivers.get(live.name)
        if driver is not None and not live.standings.get("finished"):
            raise CroupierError("the front was not told yet that the experiment has ended: try again")
        await self.register.note(who, "archived", experiment=live.name)
        if driver is not None:
            driver.cancel()
            del self._drivers[live.name]
        self._looked_at[live.name] = self.analyzer.live.pop(live.name)


def _named(live: Live, arm: int | str | None) -> int | str | None:
    """An arm as people know it, if it is known."""
    return live.arms[arm] if isinstance(arm, int) and 0 <= arm < len(live.arms) else arm


OWN: dict[str, Callable[[Desk, str, Live], Awaitable[None]]] = {"start": Desk._start, "archive": Desk._archive}
"""What is asked of an experiment and changes nothing in its log."""
