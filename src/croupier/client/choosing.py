"""What a device chose by itself in a personalised experiment; the arithmetic needs NumPy, and is loaded for it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.client.steps import Request, Steps, fetch
from croupier.messages.configuration import Configuration, NotCovered
from croupier.messages.signing import to_text

if TYPE_CHECKING:
    from croupier.noise import Source
    from croupier.personal import Personal, Rule


@dataclass(frozen=True)
class Choice:
    """The action, whether it is that of the control share, and the user's vector for it."""

    action: int
    control: bool
    vector: tuple[float, ...]

    def report(self, configuration: Configuration, outcome: object, mechanism: Any) -> list[float]:
        """The vector that is reported where this came of it."""
        return personal(configuration).report(self, outcome, getattr(mechanism, "values", None))

    @classmethod
    def read(cls, body: dict[str, Any]) -> Choice:
        vector = tuple(float(number) for number in body["vector"])
        if not isinstance(body["control"], bool) or not all(map(math.isfinite, vector)):
            raise InvalidParameter("choice", body, "a choice as it was kept")
        return cls(integer("action", body["action"], 0), body["control"], vector)


def personal(configuration: Configuration) -> Personal:
    """How an experiment's devices choose, as it was signed."""
    try:
        from croupier.personal import Personal
    except ImportError as error:
        raise CroupierError(f"this experiment needs {error.name} on the device: install croupier[library]") from None
    return Personal.read(configuration.program)


def check_context(configuration: Configuration, context: Mapping[str, object] | None) -> None:
    """Before anything is sent: a context must be what the experiment chooses by, and be there only if it does."""
    if not configuration.personal:
        if context is not None:
            raise InvalidParameter("context", "given", f"left out: nobody chooses in {configuration.experiment}")
        return
    known = personal(configuration)
    if not isinstance(context, Mapping):
        names = ", ".join(known.context.names)
        raise InvalidParameter("context", context, f"a value for each of {names}, by which the device chooses")
    known.vectors(context)


def fetched_rule(configuration: Configuration, wanted: bytes) -> Steps:
    """A rule by its hash, as the front serves it; any other is refused."""
    address = f"{configuration.urls['front']}/experiments/{quote(configuration.experiment)}/rules/{to_text(wanted)}"
    answer = yield from fetch(Request("GET", address))
    if hashlib.sha256(answer.content).digest() != wanted:
        raise NotCovered("the front's rule is not the one that both servers signed")
    known = personal(configuration)
    from croupier.personal import Rule

    return known.check_rule(Rule.from_json(answer.content.decode()))


def choose(configuration: Configuration, rule: Rule, context: Mapping[str, object], source: Source) -> Choice:
    """Choose by a rule, with the device's own draws."""
    return Choice(*personal(configuration).choose(rule, context, source))
