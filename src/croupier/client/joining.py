"""What a device believes of an experiment: configurations that both servers signed, rules, and the arm it has shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from croupier.checks import InvalidParameter
from croupier.client.account import Account
from croupier.client.choosing import fetched_rule
from croupier.client.limits import Limits
from croupier.client.steps import Request, Steps, fetch
from croupier.client.turns import Joined, Shown, Turn
from croupier.messages.configuration import Configuration, NotCovered, check_name
from croupier.messages.offer import Offer
from croupier.messages.signing import LONGEST, Statement, to_text

if TYPE_CHECKING:
    from croupier.noise import Source
    from croupier.personal import Rule

MOST_RULES = 7
"""So many rules are kept beside a new one."""


@dataclass
class Joining:
    """What all steps need: the account, the limits, randomness (None: the system's own), pinned keys and a clock."""

    analyzer: str
    account: Account
    limits: Limits
    source: Source | None = None
    keys: dict[str, bytes] | None = None
    clock: Callable[[], float] = time.time
    joined: dict[str, Joined] = field(default_factory=dict)
    rules: dict[bytes, Rule] = field(default_factory=dict)
    """The rules that were fetched last, by hash."""

    def join(self, experiment: str, attempts: int | None = None) -> Steps:
        """Fetch the experiment, check its signatures and this device's limits, and remember whom it trusts."""
        answer = yield from fetch(Request("GET", self._address(check_name(experiment))), attempts=attempts)
        joined = self._checked(experiment, Statement.from_dict("configuration", answer.json()))
        self.joined[experiment] = joined
        return joined

    def seen(self, experiment: str) -> Turn | Shown | None:
        """The arm that this user was shown, as a turn if its report is still to come; None: none, or it was retired."""
        address = self._address(experiment)
        shown = self.account.seen.get(address)
        if shown is None:
            return None
        known = self.joined.get(experiment)
        if known is not None and (chosen := self._chosen(known)) is not None:
            return chosen
        if known is not None and shown.arm in known.configuration.retired:
            return None
        for taken in list(self.account.taken.values()):
            turn = Turn.readable(taken.turn) if taken.experiment == address else None
            if turn is not None and turn.arm == shown.arm:
                return turn
        return Shown(experiment, shown.name, shown.arm)

    def _chosen(self, joined: Joined) -> Shown | None:
        """The arm that an experiment has ended with, which everybody is shown without a turn."""
        configuration = joined.configuration
        if configuration.chosen is None:
            return None
        return Shown(joined.name, configuration.arms[configuration.chosen], configuration.chosen)

    def _address(self, experiment: str) -> str:
        """What names an experiment in the account: where its analyzer has it."""
        return f"{self.analyzer}/experiments/{quote(experiment)}"

    def _checked(self, experiment: str, statement: Statement) -> Joined:
        configuration = Configuration.from_text(statement.text)
        if configuration.experiment != experiment:
            raise InvalidParameter("experiment", configuration.experiment, f"{experiment!r}, which was asked for")
        self.limits.check(configuration)
        self.account.trust(self._address(experiment), configuration, statement, self.keys)
        return Joined(configuration, statement)

    def _all_pinned(self, joined: Joined, pins: set[bytes]) -> Steps:
        """What an offer's batches were first opened under; all of it is kept with the turn, so it has a bound."""
        pinned, length = {}, 0
        for pin in pins:
            pinned[pin] = yield from self._pinned(joined, pin)
            length += len(pinned[pin].statement().text)
            if length > LONGEST:
                raise NotCovered(f"an offer under earlier configurations of more than {LONGEST:,} characters together")
        return pinned

    def _pinned(self, joined: Joined, pin: bytes) -> Steps:
        """The configuration that a batch was first opened under: an earlier one, of the same servers and promise."""
        statement = yield from self._revision(joined, pin)
        statement.check_both(joined.configuration.verify_keys)
        pinned = Configuration.from_text(statement.text)
        pinned.check_promise(joined.configuration.promise)
        if pinned.experiment != joined.name or pinned.revision >= joined.configuration.revision:
            raise NotCovered(f"a batch is pinned to revision {pinned.revision} of {pinned.experiment!r}")
        self.limits.check(pinned)
        return pinned

    def _revision(self, joined: Joined, wanted: bytes) -> Steps:
        """A configuration by its hash, as the front keeps it."""
        base = f"{joined.configuration.urls['front']}/experiments/{quote(joined.name)}"
        answer = yield from fetch(Request("GET", f"{base}/configurations/{to_text(wanted)}"))
        statement = Statement.from_dict("configuration", answer.json())
        if statement.hash != wanted:
            raise InvalidParameter("configuration", to_text(statement.hash), f"{to_text(wanted)}, as offered")
        return statement

    def _other_revision(self, experiment: str, joined: Joined, wanted: bytes) -> Steps:
        other = self._checked(experiment, (yield from self._revision(joined, wanted)))
        if other.configuration.revision > joined.configuration.revision:
            self.joined[experiment] = other
        return other

    def _rule(self, joined: Joined, offer: Offer) -> Steps:
        """The rule that an offer names by its hash, as the front serves it."""
        assert offer.rule is not None
        if offer.rule not in self.rules:
            rule = yield from fetched_rule(joined.configuration, offer.rule)
            self.rules = dict([*self.rules.items()][-MOST_RULES:]) | {offer.rule: rule}
        return self.rules[offer.rule]

    def _secure(self) -> Source:
        """Where draws come from, the system's own source unless the app has brought one."""
        if self.source is None:
            from croupier.noise import secure

            self.source = secure()
        return self.source
