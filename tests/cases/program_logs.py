"""Logs written without servers: unsigned records of one experiment, made as its program wants them."""

from typing import Any

from croupier.messages.admission import EVERYBODY
from croupier.messages.configuration import TRUSTS, Configuration, Privacy, Reports, ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import DEFAULT_SUITE, SUITES
from croupier.messages.validity import NOT_PROVED
from croupier.programs import State, Wanted, program
from croupier.programs.records import Record
from croupier.protocols import SumMechanism

_SUITE = SUITES[DEFAULT_SUITE]
_SEAL = _SUITE.public_of(_SUITE.generate())
KEYS = {server: ServerKeys(_SEAL, bytes([number] * 32)) for number, server in enumerate(("analyzer", "front"))}
URLS = {server: f"https://{server}.example" for server in KEYS}
AT = "2026-01-01T00:00:00+00:00"


def configuration(parameters: dict[str, Any], arms: tuple[str, ...] = (), **changes: Any) -> Configuration:
    """What both servers would sign of a program."""
    mechanism = program(parameters).wanted[0].batches[0][1]
    body: dict[str, Any] = {
        "experiment": "drawn",
        "revision": 0,
        "title": "Drawn",
        "arms": arms,
        "program": parameters,
        "recipe": mechanism.recipe | {"smallest": 1},
        # Programs are replayed under any protocol; a configuration names only those that can be deployed.
        "trust": mechanism.trust if mechanism.trust in TRUSTS else "shuffler",
        "reports": Reports(600, (0.0, 0.0), 0.0),
        "privacy": Privacy(float(parameters["epsilon"]), 1e-5, 1.0, "a user", 86_400),
        "admission": EVERYBODY,
        "validity": NOT_PROVED,
        "suite": DEFAULT_SUITE,
        "keys": KEYS,
        "urls": URLS,
    }
    return Configuration(**body | changes)


class Log:
    """The records of an experiment, written as things happen to it; `state` is where they lead."""

    def __init__(self, parameters: dict[str, Any], arms: tuple[str, ...] = ()) -> None:
        self.records: list[Record] = []
        self.state = State()
        self.parameters, self.arms = parameters, arms
        self.configure()

    @property
    def program(self) -> Any:
        return self.state.program

    def record(self, event: str, **body: Any) -> None:
        """Let something happen; only what is not refused is written down."""
        record = {"number": len(self.records), "at": AT, "event": event} | body
        self.state.apply(record)
        self.records.append(record)

    def configure(self, **changes: Any) -> None:
        found = configuration(self.parameters, **{"arms": self.arms} | changes)
        self.record("configured", configuration=found.statement().to_dict())

    def open(self) -> list[Wanted]:
        """Open every turn that the program wants and that is not open; returns all that it wants."""
        assert self.state.configured is not None
        pin = self.state.configured.hash
        for turn in self.program.wanted:
            if turn.number not in self.state.opened:
                batches = tuple(
                    self.state.open.get(number) or Batch.of(number, pin, mechanism)
                    for number, mechanism in turn.batches
                )
                said = (turn.number, turn.arm, batches, turn.odds, turn.block, turn.rule_hash)
                told = {} if turn.rule is None else {"rule": turn.rule}
                self.record("opened", offer=Offer("drawn", pin, *said).statement().to_dict(), **told)
        return list(self.program.wanted)

    def release(self, batch: int, decoded: Any) -> None:
        self.record("released", batch=batch, decoded=decoded)

    def expire(self, batch: int) -> None:
        self.record("expired", batch=batch)

    def operate(self, operation: str, **about: Any) -> None:
        self.record("operated", operation=operation, **about)


def steady(mechanism: SumMechanism, mean: float) -> int:
    """What a batch decodes to when its values have this mean, in units of the range, and the noise is its own mean."""
    return round(mechanism.noise.mean + mean * mechanism.users * mechanism.values.span / mechanism.unit)
