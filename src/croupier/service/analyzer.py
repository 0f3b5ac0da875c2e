"""The analyzer: it publishes the turns that programs want, and runs them on the batches that the front releases.

It learns arms and noisy sums, never who sent what. Each experiment is its log (see `experiment_log`).
"""

from __future__ import annotations

import asyncio
import logging

from croupier.checks import CroupierError
from croupier.messages.configuration import IN_SHARES
from croupier.service.experiment import Plan
from croupier.service.experiment_log import Live
from croupier.service.front_client import FrontAway
from croupier.service.problems import Problem, kind_of
from croupier.service.releasing import Releasing

log = logging.getLogger("croupier")

SLOWER, RAREST = 1.25, 10
"""While nothing happens each wait is so many times the last, up to so many times the first."""


class Analyzer(Releasing):
    """Drives live experiments: publishes turns, takes released batches in, keeps the log."""

    def add(self, plan: Plan) -> Live:
        """Take an experiment in, as far as its log says it has come."""
        live = self.live[plan.name] = self.read(plan)
        return live

    def read(self, plan: Plan) -> Live:
        """An experiment as its log says it stands."""
        return Live(plan, self.settling.store, self.keys, self.clock, self.settling.waits)

    async def run(self, name: str, poll: float) -> None:
        """Drive one experiment until this is cancelled; it is looked at less often while nothing happens."""
        live = self.live[name]
        published: set[int] = set()
        wait, seen = poll, (-1, -1)
        while True:
            pause = await self.round(live, published, poll)
            now = live.version, live.settled
            wait, seen = poll if now != seen else min(SLOWER * wait, RAREST * poll), now
            await asyncio.sleep(max(pause, wait))

    async def round(self, live: Live, published: set[int], poll: float) -> float:
        """One step, whatever comes of it; returns how long to wait for the next."""
        pause = poll
        try:
            await self.step(live, published)
            if live.trouble:
                log.info("recovered", extra={"fields": {"experiment": live.name, "from": live.trouble}})
            live.trouble = ""
        except FrontAway as error:
            self._trouble(live, error)
            self._site, pause = None, max(poll, 0.5)
            published.clear()
        except CroupierError as error:
            self._trouble(live, error)
            pause = max(poll, 2.0)
            published.clear()
            # A front that has lost its store is told again.
            live.registered = False
        except Exception as error:
            # A store or an answer as nobody expects it: the experiment goes on.
            self._trouble(live, CroupierError(f"something went wrong here: {kind_of(error)}"))
            pause = max(poll, 2.0)
            published.clear()
            live.registered = False
        if live.program.finished and not live.open and not live.trouble:
            pause = max(poll, 5.0)
        return pause

    def _trouble(self, live: Live, error: CroupierError) -> None:
        live.caught_up = False
        if live.trouble != str(error):
            live.trouble = str(error)
            live.version += 1
            log.warning("trouble", extra={"fields": {"experiment": live.name, "what": str(error)}})

    async def step(self, live: Live, published: set[int]) -> None:
        """One round: configuration, turns, releases. Whatever was begun before a crash is taken up again.

        Operators change things while the network is waited for: what was decided before is looked at again after.
        """
        async with live.lock:
            await live.refreshed()
        await self._renew_keys()
        await self._give_up(live)
        self._check_keys(live)
        await self._configure(live)
        await self._publish(live, published)
        if live.plan.trust in IN_SHARES:
            if not live.caught_up:
                await self.settling.forget_others(live)
            if live.open:
                await self.settling.settle_all(live)
        # Everything when there may be something left from before a crash; later only what can still change.
        since = min(live.open, default=live.state.newest) if live.caught_up else 0
        live.caught_up = True
        standings = await self.link.standings(live.name, since, live.state.newest)
        if standings != live.standings:
            live.standings = standings
            live.version += 1
        states = {standing["batch"]: standing["state"] for standing in standings["batches"]}
        if standings["paused"] != live.state.paused:
            await self.link.pause(live.name, paused=live.state.paused)
        # A front that was restored from a backup has never heard of some turns.
        published -= {
            number for number, offer in live.offers.items() if any(b.number not in states for b in offer.batches)
        }
        await self._follow_all(live, {standing["batch"]: standing for standing in standings["batches"]})
        await self._decide(live)
        # A stop may find a batch full and not yet ready: it is looked for until the front has deleted it.
        if any(number in live.done and state in ("open", "closed", "ready") for number, state in states.items()):
            live.caught_up = False
        if live.program.ending and not standings["finished"]:
            await self._publish(live, published)
            # With what they have: those who report from now on would be in none.
            await self.link.close_blocks(live.name)
        elif live.program.finished and not live.open and not (standings["finished"] and live.over):
            await self._witnessed(live)
            await self.link.finish(live.name)
            live.standings = standings | {"finished": True}
            live.over = True
        else:
            await self._publish(live, published)

    async def _decide(self, live: Live) -> None:
        """Put a decision into the log, in the words of its program."""
        if live.state.decided is None and (decision := live.program.decision) is not None:
            await live.record("decided", lambda: live.state.decided is None, decision=decision)

    def find(self, name: str) -> Live:
        """A live experiment by name."""
        if name not in self.live:
            raise Problem("unknown-experiment")
        return self.live[name]
