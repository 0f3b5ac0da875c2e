"""One turn that a user can take: an arm, and the batches that the report goes to, as both servers sign it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.messages.asked import Asked, LaplaceNumber, LaplaceNumbers, library
from croupier.messages.block import Block
from croupier.messages.signing import VERSION, Statement, from_text, read_object, read_version, to_text

if TYPE_CHECKING:
    from croupier.privacy import Loss
    from croupier.protocols import Mechanism
    from croupier.protocols.padding import Shape


@dataclass(frozen=True)
class Batch:
    """One batch of an offer: its number, and how its reports are made, as text that nobody has to make again.

    `pin` is the hash of the configuration that it was first opened under. All its messages are sealed to that
    configuration's key, whatever was revised since, so nothing tells those of one revision from another's.
    """

    number: int
    pin: bytes
    text: str

    @classmethod
    def of(cls, number: int, pin: bytes, mechanism: Mechanism) -> Batch:
        return cls(number, pin, mechanism.to_json())

    @cached_property
    def mechanism(self) -> Mechanism:
        return _mechanism(self.text)

    @cached_property
    def plain(self) -> LaplaceNumber | LaplaceNumbers | None:
        """What it asks for, where a device needs no NumPy for it; None elsewhere."""
        return _number(self.text)

    @property
    def asked(self) -> Asked:
        """The mechanism as far as a device needs it: without NumPy where that will do."""
        return self.plain or self.mechanism

    @property
    def shape(self) -> Shape:
        return self.mechanism.shape

    @cached_property
    def hash(self) -> bytes:
        """What messages to this batch are bound to: SHA-256 of its number, its pin and the mechanism's text."""
        said = b"croupier/2 batch\0" + self.number.to_bytes(4, "big") + self.pin + self.text.encode()
        return hashlib.sha256(said).digest()

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number, "configuration": to_text(self.pin), "mechanism": self.text}


@dataclass(frozen=True)
class Offer:
    """One turn: what to play, and the batches that the report goes to, all of them or none.

    `odds` say how likely the front deals it to a user who comes while all turns are open that were opened together: 1
    where it is alone, None where that is told to the front alone. `block` says which batches close together with its
    own, where any do. `rule` is the hash of the rule that devices choose by, where they do, as SHA-256 of its text.
    """

    experiment: str
    configuration: bytes
    number: int
    arm: int | None
    batches: tuple[Batch, ...]
    odds: float | None = 1.0
    block: Block | None = None
    rule: bytes | None = None

    def __post_init__(self) -> None:
        integer("offer", self.number, 0, 2**32 - 1)
        if not 1 <= len(self.batches) <= 64:
            raise InvalidParameter("batches", len(self.batches), "1 to 64 batches")
        for batch in self.batches:
            integer("batch", batch.number, 0, 2**32 - 1)
            if len(batch.pin) != 32:
                raise InvalidParameter("configuration", to_text(batch.pin), "a hash of 32 bytes")
        if len({batch.number for batch in self.batches}) < len(self.batches):
            raise InvalidParameter("batches", [batch.number for batch in self.batches], "different ones")
        if self.arm is not None:
            integer("arm", self.arm, 0)
        if self.odds is not None:
            between("odds", self.odds, 0, 1, "(]")
        if self.block is not None and (self.arm is None or not self._in_block(self.block)):
            raise InvalidParameter("block", self.block.batches, "a block with this offer's one batch, of an arm")
        if self.rule is not None and (len(self.rule) != 32 or self.arm is not None):
            raise InvalidParameter("rule", to_text(self.rule), "a hash of 32 bytes, in an offer without an arm")

    def _in_block(self, block: Block) -> bool:
        return len(self.batches) == 1 and self.batches[0].number in block.batches

    @cached_property
    def pure(self) -> Fraction | None:
        """The ε of a turn whatever δ, where all its batches are so simple that fractions say it; None elsewhere."""
        numbers = [batch.plain for batch in self.batches if batch.plain is not None]
        return sum((one.epsilon for one in numbers), Fraction(0)) if len(numbers) == len(self.batches) else None

    @cached_property
    def loss(self) -> Loss:
        """The exact loss of a turn: the batches' mechanisms composed, as they are sent."""
        return _loss(tuple(batch.mechanism for batch in self.batches))

    def delta(self, epsilon: float) -> float:
        """The exact δ of a turn at this ε."""
        return _delta(tuple(batch.text for batch in self.batches), epsilon)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "experiment": self.experiment,
            "configuration": to_text(self.configuration),
            "offer": self.number,
            "arm": self.arm,
            "odds": self.odds,
            "batches": [batch.to_dict() for batch in self.batches],
        } | self._rarely()

    def _rarely(self) -> dict[str, Any]:
        """What is left out where there is none."""
        said = {"block": self.block and self.block.to_dict(), "rule": self.rule and to_text(self.rule)}
        return {key: value for key, value in said.items() if value is not None}

    def statement(self) -> Statement:
        """The offer as a statement to be signed."""
        return Statement.of("offer", self.to_dict())

    @classmethod
    def from_text(cls, text: str) -> Offer:
        """Read an offer's body, or refuse it."""
        return _read_offer(text)


def configuration_of(statement: Statement) -> bytes:
    """The hash of the configuration that an offer is made under, before anything else of the offer is read."""
    return from_text("configuration", statement.body.get("configuration"))


def _loss(mechanisms: tuple[Mechanism, ...]) -> Loss:
    from croupier.privacy import Loss

    return Loss.total(mechanism.sent_loss for mechanism in mechanisms)


@lru_cache(maxsize=1024)
def _delta(mechanisms: tuple[str, ...], epsilon: float) -> float:
    # Once for all turns that are alike, of which a log holds many; texts are hashed faster than what they say.
    return _loss(tuple(_mechanism(text) for text in mechanisms)).delta(epsilon)


@lru_cache(maxsize=1024)
def _read_offer(text: str) -> Offer:
    body = read_version("offer", text)
    try:
        batches = tuple(
            Batch(entry["number"], from_text("configuration", entry["configuration"]), entry["mechanism"])
            for entry in body["batches"]
        )
        for batch in batches:
            _ = batch.asked.shape
        configuration = from_text("hash", body["configuration"])
        block = Block.from_dict(body["block"]) if "block" in body else None
        rule = from_text("rule", body["rule"]) if "rule" in body else None
        said = (body["offer"], body["arm"], batches, body["odds"], block, rule)
        return Offer(body["experiment"], configuration, *said)
    except CroupierError:
        raise
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, MemoryError) as error:
        raise InvalidParameter("offer", text[:60], f"version {VERSION} of one ({error!r})") from None


@lru_cache(maxsize=1024)
def _mechanism(text: str) -> Mechanism:
    # One object a mechanism, so that its loss is computed once however many offers name it.
    read_object("mechanism", text)
    return library().Mechanism.from_json(text, affordable=True)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _number(text: str) -> LaplaceNumber | LaplaceNumbers | None:
    body = read_object("mechanism", text)
    return LaplaceNumber.read(body) or LaplaceNumbers.read(body)
