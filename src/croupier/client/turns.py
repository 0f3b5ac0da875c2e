"""What an app holds of an experiment: what it joined, the turn that it took, and an arm to show without a turn."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar

from croupier.checks import CroupierError, InvalidParameter, finite
from croupier.client.choosing import Choice
from croupier.messages.configuration import Configuration
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import Statement, from_text, to_text
from croupier.messages.wire import REPORT_ID, TOKEN

if TYPE_CHECKING:
    from croupier.client.account import Account

VERSION = 1


@dataclass(frozen=True)
class Joined:
    """An experiment that this device has checked: its configuration, and where its servers are."""

    configuration: Configuration
    statement: Statement

    @property
    def name(self) -> str:
        return self.configuration.experiment


@dataclass(frozen=True)
class Turn:
    """One play: show this arm, and tell the client what came of it, before `report_at` (seconds of Unix time).

    It is reported at that moment, which was drawn with it, whatever came of it. `id` is the report's name at both
    servers; `pinned` are the earlier configurations that some of its batches were first opened under, by hash.
    `choice` is what the device chose by itself, where it did; no server learns of it.
    """

    joined: Joined
    offer: Offer
    token: bytes
    expires: int
    pinned: Mapping[bytes, Configuration] = field(default_factory=dict)
    report: bytes = field(default_factory=lambda: os.urandom(REPORT_ID))
    taken_at: float = 0.0
    report_at: float = 0.0
    choice: Choice | None = None

    is_default: ClassVar[bool] = False

    @property
    def id(self) -> str:
        """What names the turn in the account."""
        return to_text(self.report)

    @property
    def experiment(self) -> str:
        return self.joined.name

    @property
    def arm(self) -> int | None:
        """The arm's number; None where an experiment has no arms."""
        return self.offer.arm if self.choice is None else self.choice.action

    @property
    def arm_name(self) -> str:
        return "" if self.arm is None else self.joined.configuration.arms[self.arm]

    @property
    def until(self) -> float:
        """When it is too late to report it."""
        return self.taken_at + self.joined.configuration.reports.within

    def opened_under(self, batch: Batch) -> Configuration:
        """The configuration whose key a batch's messages are sealed to."""
        own = batch.pin == self.offer.configuration
        return self.joined.configuration if own else self.pinned[batch.pin]

    def check_value(self, value: object) -> None:
        """Refuse what cannot be reported."""
        reported = self.reported(value)
        for batch in self.offer.batches:
            batch.asked.check_value(reported)

    def reported(self, outcome: object) -> object:
        """What is reported where this came of it: that itself, or the vector of a device that chose by itself."""
        if self.choice is None:
            return outcome
        return self.choice.report(self.joined.configuration, outcome, self.offer.batches[0].mechanism)

    def recorded(self, account: Account, outcome: object) -> bool:
        """Keep what came of it in the account that has it; False where its report is on its way, or its time over."""
        value = plain(outcome)
        self.check_value(value)
        if account.record(self.id, value):
            return True
        if self.id not in account.pending and account.clock() < self.report_at:
            raise InvalidParameter("turn", self.id, "one that this device took")
        return False

    def to_json(self) -> str:
        """The turn as text, for whoever is to record what came of it later; it holds nothing of that.

        Where the device chose by itself it holds the choice and the user's vector: it must not leave the device.
        """
        body = {
            "version": VERSION,
            "configuration": self.joined.statement.to_dict(),
            "offer": self.offer.statement().text,
            "token": to_text(self.token),
            "expires": self.expires,
            "pinned": {to_text(pin): one.statement().text for pin, one in self.pinned.items()},
            "id": self.id,
            "taken_at": self.taken_at,
            "report_at": self.report_at,
        }
        return json.dumps(body | ({} if self.choice is None else {"choice": asdict(self.choice)}))

    @classmethod
    def from_json(cls, text: str) -> Turn:
        """Read a turn back, as this device kept it: signatures were checked when it was taken."""
        try:
            body = json.loads(text)
            if body["version"] != VERSION:
                raise InvalidParameter("version", body["version"], f"{VERSION}")
            statement = Statement.from_dict("configuration", body["configuration"])
            turn = cls(
                Joined(Configuration.from_text(statement.text), statement),
                Offer.from_text(body["offer"]),
                from_text("token", body["token"]),
                body["expires"],
                {from_text("pin", pin): Configuration.from_text(one) for pin, one in body["pinned"].items()},
                from_text("id", body["id"]),
                float(finite("taken_at", body["taken_at"])),
                float(finite("report_at", body["report_at"])),
                Choice.read(body["choice"]) if "choice" in body else None,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidParameter("turn", str(text)[:60], f"a turn as `to_json` wrote it ({error})") from None
        if (len(turn.token), len(turn.report)) != (TOKEN, REPORT_ID):
            raise InvalidParameter("turn", turn.id, "a turn as `to_json` wrote it")
        return turn

    @classmethod
    def readable(cls, text: str) -> Turn | None:
        """A turn that is kept; None where an older version kept it in another form."""
        try:
            return cls.from_json(text)
        except CroupierError:
            return None


@dataclass(frozen=True)
class Shown:
    """An arm to show without a turn: the app's default, or the one that this user has seen. Nothing is reported.

    `why` says why it is the default.
    """

    experiment: str
    arm_name: str
    arm: int | None = None
    why: NoTurn | None = None

    id: ClassVar[str] = ""

    def recorded(self, account: Account, outcome: object) -> bool:
        """Nothing of it is kept or reported."""
        return False

    @property
    def is_default(self) -> bool:
        return self.why is not None


def plain(value: Any) -> Any:
    """A value as JSON has it: whatever kind of number it was, it is read back as one that is equal.

    What JSON has nothing for stays as it is, for the experiment to refuse.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    try:
        return float(value) if isinstance(value, Number) else value  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return value
