"""What the analyzer has the front sign: an experiment's configuration, the turns that its program wants, its log."""

from __future__ import annotations

from functools import partial
from typing import Any

from croupier.checks import CroupierError
from croupier.messages.admission import Admission
from croupier.messages.configuration import Configuration, ServerKeys
from croupier.messages.signing import Statement
from croupier.programs import Wanted
from croupier.programs.records import Head
from croupier.service.experiment import Site
from croupier.service.experiment_keys import ExperimentKeys
from croupier.service.experiment_log import Live
from croupier.service.openapi import MOST_LINES


class Publishing(ExperimentKeys):
    """Has configurations and offers signed, and keeps them in the log."""

    async def _configure(self, live: Live) -> None:
        """Have the current configuration signed by both; a changed one is a new revision."""
        if self._site is None:
            answer = await self.link.keys()
            if self.suite not in answer["seal"]:
                raise CroupierError(f"the front has no key for {self.suite}")
            front = ServerKeys.from_dict({"seal": answer["seal"][self.suite], "verify": answer["verify"]})
            keys = {"analyzer": self.keys.public(self.suite), "front": front}
            self._site = Site(self.suite, keys, self.urls, Admission.from_dict(answer["admission"]))
            for one in self.live.values():
                one.registered = False
        known = None if live.configured is None else Configuration.from_text(live.configured.text)
        retired = tuple(sorted(arm for arm in live.program.retired if arm < len(live.arms)))
        chosen = live.program.chosen
        told = known is None or (known.retired, known.chosen) == (retired, chosen)
        if live.registered and told and (not live.held or live.behind):
            return
        key, revision = self.keys.proof_key(live.name), 0 if known is None else known.revision
        wanted = live.plan.configuration(revision, live.arms, self._site, retired, key, chosen)
        live.held = known is not None and wanted != known and live.behind
        if known is not None and live.held:
            wanted = known
        elif known is not None and wanted != known:
            wanted = live.plan.configuration(known.revision + 1, live.arms, self._site, retired, key, chosen)
        own = wanted.statement().signed("analyzer", self.keys.sign)
        signed = await self.link.register(live.name, own, key if wanted.validity.proved else None, self._void(live))
        signed.check_both(wanted.verify_keys)
        if known is not None:
            # A log that is older than the one that was countersigned must not go on as if nothing had been lost.
            await self._witnessed(live)
        if wanted != known:
            await live.record("configured", configuration=signed.to_dict())
        # An operator may have added an arm meanwhile: it waits for the next revision.
        live.registered = live.held or wanted.arms == live.arms

    async def _publish(self, live: Live, published: set[int]) -> None:
        """Open the turns that the program wants: all are in the log before the front hears of any.

        The front is told which are open together, and deals none before it knows them all: who waits for a turn would
        else be dealt the first one, whatever the odds.
        """
        held = live.state.paused and not live.program.ending
        for turn in () if held else live.program.wanted:
            if turn.number in live.state.opened:
                continue
            if turn.arm is not None and turn.arm >= len(Configuration.from_text(live.configured.text).arms):  # type: ignore[union-attr]
                live.registered = live.held
                return
            offer = live.offer_of(turn)
            statement = offer.statement().signed("analyzer", self.keys.sign)
            apart: dict[str, Any] = {"odds": turn.odds} if offer.odds is None else {}
            apart |= {} if turn.rule is None else {"rule": turn.rule}
            await live.record("opened", partial(_wanted, live, turn), offer=statement.to_dict(), **apart)
        together = dict(live.state.signed)
        for number in sorted(together.keys() - published):
            if number in live.state.signed:
                state = live.state
                told = (live.plan.deadline, sorted(together), state.odds.get(number), state.rules.get(number))
                await self.link.open_offer(live.name, number, together[number], *told)
                published.add(number)

    async def _witnessed(self, live: Live) -> Statement:
        """The end of the log, countersigned by the front, which is shown all lines since the last time."""
        assert live.configured is not None
        run, last = live.run, live.run.head.number
        if live.witnessed is None:
            known = await self.link.head(live.name)
            live.witnessed = -1 if known is None else Head.from_statement(known, live.name).number
        reached, live.witnessed = live.witnessed, None
        while True:
            stop = min(reached + MOST_LINES, last)
            head = Head(stop, run.hashes[stop])
            shown = head.statement(live.name).signed("analyzer", self.keys.sign)
            signed = await self.link.witness(live.name, shown, run.digests[reached + 1 : stop + 1])
            signed.check("front", Configuration.from_text(live.configured.text).verify_keys["front"])
            if Head.from_statement(signed, live.name) != head:
                raise CroupierError(f"the front countersigned another head than that of record {head.number}")
            if stop == last:
                live.witnessed = last
                return signed
            reached = stop


def _wanted(live: Live, turn: Wanted) -> bool:
    return turn in live.program.wanted
