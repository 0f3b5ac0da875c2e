"""What an experiment says of itself in public, signed by both servers.

A `Configuration` is the whole promise: arms, program, mechanism, privacy, who is admitted, keys, addresses. An offer
that it does not cover is refused by the front, by the client and by whoever verifies the transcript.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from croupier.checks import InvalidParameter, between, integer, one_of, positive
from croupier.messages.admission import Admission
from croupier.messages.asked import Asked
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES, check_public, seal
from croupier.messages.signing import SERVERS, VERSION, Statement, from_text, read_version, to_text
from croupier.messages.validity import Validity
from croupier.messages.wire import message_info
from croupier.texts import canonical, check_words

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
KIND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,126}")
"""What the name of a kind of program looks like. Who runs programs looks it up; others need not know it."""
TRUSTS = ("two-servers", "devices", "shuffler", "nobody")
"""Who must be trusted, of those that a service can be run with; see `croupier.protocols.mechanism.TRUSTS`."""
IN_SHARES = ("two-servers", "devices")
"""Those whose reports are split between two servers."""
PROMISED = ("program", "recipe", "trust", "reports", "privacy", "admission", "validity")
"""The parts of a configuration that stay as they were first signed; the key of proofs may be another."""


class BrokenPromise(NoTurn):
    """A later revision of an experiment that promises something else."""


class NotCovered(NoTurn):
    """An offer that goes beyond what the signed configuration promises."""


@dataclass(frozen=True)
class Privacy:
    """The promise to one user for one turn, and for whom and how long it is counted.

    `honest_fraction` is the part of a batch that is counted on: 0 where nobody is, because the servers add the noise.
    `unit` says in words who "a user" is; `period` is how many seconds the user's own ledger covers before it renews.
    """

    epsilon: float
    delta: float
    honest_fraction: float
    unit: str
    period: int

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        between("honest_fraction", self.honest_fraction, 0, 1, "[]")
        integer("period", self.period, 1)
        check_words("unit", self.unit)


@dataclass(frozen=True)
class Reports:
    """When a device reports a turn: at a moment that it draws with the turn, whatever came of it.

    `within` is how many seconds after its turn a report is still taken. `at` is the window, in seconds after the turn,
    in which the moment is drawn. `default` is what is reported where nothing was recorded by then. `repeat` says
    whether a device may report more than once: where it may not, its first turn is its only one.
    """

    within: int
    at: tuple[float, float]
    default: Any = None
    repeat: bool = True

    def __post_init__(self) -> None:
        integer("report_within", self.within, 1, 2**31)
        if not isinstance(self.at, tuple) or len(self.at) != 2:
            raise InvalidParameter("report_at", self.at, "two numbers of seconds, the first and the last")
        low, high = (float(between("report_at", end, 0, self.within, "[]")) for end in self.at)
        if low > high:
            raise InvalidParameter("report_at", self.at, "two numbers of seconds, the first before the last")
        if not isinstance(self.repeat, bool):
            raise InvalidParameter("repeat", self.repeat, "true or false")

    def to_dict(self) -> dict[str, Any]:
        body = {"within": self.within, "at": list(self.at), "default": self.default}
        return body if self.repeat else body | {"repeat": False}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Reports:
        return cls(**data | {"at": tuple(data["at"])})


@dataclass(frozen=True)
class ServerKeys:
    """One server's public keys: what is sealed to it, and what checks its signatures."""

    seal: bytes
    verify: bytes

    def to_dict(self) -> dict[str, str]:
        return {"seal": to_text(self.seal), "verify": to_text(self.verify)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServerKeys:
        keys = cls(from_text("seal", data["seal"]), from_text("verify", data["verify"]))
        if len(keys.verify) != 32:
            raise InvalidParameter("verify", data["verify"], "an Ed25519 public key of 32 bytes")
        return keys


@dataclass(frozen=True)
class Configuration:
    """One revision of an experiment's public configuration.

    `trust` says who must be trusted, `validity` whether reports prove that they are in range. `recipe` says what every
    mechanism must be: its protocol, constants and values, the smallest batch, whether the front adds a whole noise of
    its own, and in shares also the encoding. A later revision may change the title, the keys, the addresses, add arms
    and retire some, and nothing of the `promise`.
    """

    experiment: str
    revision: int
    title: str
    arms: tuple[str, ...]
    program: dict[str, Any]
    recipe: dict[str, Any]
    trust: str
    reports: Reports
    privacy: Privacy
    admission: Admission
    validity: Validity
    suite: str
    keys: dict[str, ServerKeys]
    urls: dict[str, str]
    retired: tuple[int, ...] = ()
    """The arms that nobody is shown any longer: who saw one before gets another."""
    chosen: int | None = None
    """The arm that everybody is shown once the experiment has ended with it, without a turn and without a report."""
    public: bool = True
    """Whether everybody may see how the experiment stands; else its operators alone."""

    def __post_init__(self) -> None:
        check_name(self.experiment)
        integer("revision", self.revision, 0, 2**31 - 1)
        if not KIND.fullmatch(str(kind := self.program.get("kind"))):
            raise InvalidParameter("program.kind", kind, "a name of 1 to 127 letters, digits and _.:-")
        one_of("suite", self.suite, tuple(SUITES))
        one_of("trust", self.trust, TRUSTS)
        if self.validity.proved and self.trust != "two-servers":
            raise InvalidParameter("validity", self.validity.kind, f"none where the trust is {self.trust}")
        for server in SERVERS:
            check_public(self.suite, self.keys[server].seal)
            if not re.match(r"https?://", check_words(f"{server} url", self.urls[server])):
                raise InvalidParameter(f"{server} url", self.urls[server], "an http or https address")
        check_words("title", self.title)
        for arm in self.arms:
            check_words("arms", arm)
        if sorted({*self.retired} & {*range(len(self.arms))}) != list(self.retired):
            raise InvalidParameter("retired", self.retired, "numbers of arms, each once, the lowest first")
        if self.personal and (list(self.arms) != self.program.get("actions") or self.retired):
            # Whether a device comes, or comes again, must not tell what it chose.
            raise InvalidParameter("arms", self.arms, "the actions of the program, none of them retired")
        if self.chosen is not None:
            integer("chosen", self.chosen, 0, len(self.arms) - 1)
        if not isinstance(self.public, bool):
            raise InvalidParameter("public", self.public, "true or false")
        integer("smallest", self.recipe["smallest"], 1)
        if not isinstance(self.recipe["front_noise"], bool):
            raise InvalidParameter("front_noise", self.recipe["front_noise"], "true or false")
        if self.admission.issuer == self.keys["analyzer"].verify:
            raise InvalidParameter("issuer", "the analyzer's own key", "another party's: it could admit whom it likes")

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "experiment": self.experiment,
            "revision": self.revision,
            "title": self.title,
            "arms": list(self.arms),
            "program": self.program,
            "recipe": self.recipe,
            "trust": self.trust,
            "reports": self.reports.to_dict(),
            "privacy": asdict(self.privacy),
            "admission": self.admission.to_dict(),
            "validity": self.validity.to_dict(),
            "suite": self.suite,
            "keys": {server: self.keys[server].to_dict() for server in SERVERS},
            "urls": {server: self.urls[server] for server in SERVERS},
        } | self._rarely()

    def _rarely(self) -> dict[str, Any]:
        """What is left out where it is as usual."""
        said = {"retired": list(self.retired) or None, "chosen": self.chosen, "public": None if self.public else False}
        return {key: value for key, value in said.items() if value is not None}

    @property
    def in_shares(self) -> bool:
        """Whether reports are split between the two servers."""
        return self.trust in IN_SHARES

    @property
    def personal(self) -> bool:
        """Whether devices choose by themselves, by a rule that both servers sign, from a context that stays there."""
        return "features" in self.program

    def statement(self) -> Statement:
        """The configuration as a statement to be signed."""
        return Statement.of("configuration", self.to_dict())

    @cached_property
    def promise(self) -> str:
        """What no later revision may change, as text: what is run, how it is hidden, whom one trusts, who may come."""
        said = self.to_dict() | {"validity": {"kind": self.validity.kind}}
        return canonical({key: said[key] for key in PROMISED})

    def check_promise(self, promised: str) -> None:
        """Refuse a revision that promises something else than was promised before."""
        if self.promise != promised:
            raise BrokenPromise(
                f"{self.experiment} promises something else than before: {difference(promised, self.promise)}"
            )

    @property
    def verify_keys(self) -> dict[str, bytes]:
        return {server: keys.verify for server, keys in self.keys.items()}

    @classmethod
    def from_text(cls, text: str) -> Configuration:
        """Read a configuration's body; anything unknown, missing or inconsistent is refused."""
        return _read_configuration(text)

    def check(self, offer: Offer) -> None:
        """Refuse an offer that goes beyond this configuration: an active server must not get more than was signed."""
        if offer.experiment != self.experiment:
            raise NotCovered(f"an offer of {offer.experiment!r} under the configuration of {self.experiment!r}")
        if (offer.odds is None) == self.public:
            raise NotCovered(f"odds of {offer.odds}, and everybody is told of them if and only if results are public")
        if (offer.rule is None) == self.personal:
            raise NotCovered("an offer has a rule if and only if devices choose by themselves")
        if offer.arm not in (range(len(self.arms)) if self.arms and not self.personal else (None,)):
            raise NotCovered(f"arm {offer.arm} is not one of the {len(self.arms)} arms")
        for batch in offer.batches:
            self._check_mechanism(batch.asked)
        if offer.pure is not None and offer.pure <= Fraction(self.privacy.epsilon):
            return
        cost = offer.delta(self.privacy.epsilon)
        if cost > self.privacy.delta * (1.0 + 1e-8):
            raise NotCovered(
                f"a turn would cost δ = {cost:.3g} at ε = {self.privacy.epsilon:g}, "
                f"and {self.privacy.delta:.3g} is promised"
            )

    def _check_mechanism(self, mechanism: Asked) -> None:
        if mechanism.trust != self.trust:
            raise NotCovered(f"a batch that trusts {mechanism.trust}, and {self.trust} was signed")
        if not mechanism.checkable:
            kind = mechanism.recipe["values"]["kind"]
            raise NotCovered(f"values of kind {kind}: no device can check how far apart they are said to be")
        if self.validity.proved and mechanism.prio3 is None:
            raise NotCovered("reports that cannot prove that they are in range, and proofs were signed")
        if mechanism.guarantee.participations > 1:
            raise NotCovered("participations: an experiment promises by the turn, and the device counts its turns")
        for key, value in mechanism.recipe.items():
            if value != self.recipe.get(key):
                raise NotCovered(f"{key} of the batch is {value}, and {self.recipe.get(key)} was signed")
        # More than one encoding under one signature would let a report count under another's noise.
        if beyond := sorted(self.recipe.keys() - mechanism.recipe.keys() - {"smallest"}):
            raise NotCovered(f"{beyond[0]} was signed, and the batch has none")
        if mechanism.users < self.recipe["smallest"]:
            raise NotCovered(f"a batch of {mechanism.users}, and the smallest is {self.recipe['smallest']}")
        most = math.ceil(self.privacy.honest_fraction * mechanism.users - 1e-9)
        # Where nobody is trusted a report's own noise is all that it rests on.
        if mechanism.honest > max(1, most) and mechanism.trust != "nobody":
            raise NotCovered(f"privacy would rest on {mechanism.honest} honest users of {mechanism.users}")
        _ = mechanism.shape  # or a refusal


def seal_slots(experiment: str, batch: Batch, pinned: Configuration, opened: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Slots sealed to the analyzer under what their batch is pinned to: a user's own, or the front's noise."""
    info, key = message_info(experiment, batch.pin, batch.hash), pinned.keys["analyzer"].seal
    return tuple(seal(pinned.suite, key, slot, info) for slot in opened)


def difference(before: str, after: str) -> str:
    """The first thing that differs between two JSON objects, as `privacy.epsilon was 1.0, and is 2.0`."""
    was, now, path = json.loads(before), json.loads(after), []
    while isinstance(was, dict) and isinstance(now, dict):
        # As they are written: 1 and 1.0 are equal and their texts are not; null is not nothing.
        key = next(key for key in sorted({*was, *now}) if repr(was.get(key, ...)) != repr(now.get(key, ...)))
        path.append(key)
        was, now = was.get(key), now.get(key)
    return f"{'.'.join(path)} was {was!r}, and is {now!r}"


def check_name(name: object) -> str:
    """An experiment's name: short, lower case, safe in an address."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidParameter("experiment", name, "1 to 63 small letters, digits and hyphens")
    return name


@lru_cache(maxsize=256)
def _read_configuration(text: str) -> Configuration:
    body = read_version("configuration", text)
    try:
        return Configuration(
            **body
            | {
                "arms": tuple(body["arms"]),
                "retired": tuple(body.get("retired", ())),
                "public": body.get("public", True),
                "reports": Reports.from_dict(body["reports"]),
                "privacy": Privacy(**body["privacy"]),
                "admission": Admission.from_dict(body["admission"]),
                "validity": Validity.from_dict(body["validity"]),
                "keys": {server: ServerKeys.from_dict(body["keys"][server]) for server in SERVERS},
            }
        )
    except InvalidParameter:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InvalidParameter("configuration", text[:60], f"version {VERSION} of one ({error!r})") from None
