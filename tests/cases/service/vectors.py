"""An experiment that sums vectors, round after round: the least program whose reports are vectors."""

from __future__ import annotations

from typing import Any, ClassVar

from cases.service.shares import PLAN
from croupier.programs import KINDS, Program, Wanted
from croupier.programs.sections import Check, of, text, whole
from croupier.protocols import protocol
from croupier.protocols.sums.values import values_from_dict

USERS = 14
MOMENTS = {"kind": "moments", "features": 2, "places": 2, "weight": 1.0, "centred": True, "control": 0.5}
BALL = {"kind": "ball", "dimension": 3, "clip": False, "diameter": 2.0}


class Rounds(Program):
    """So many users a round; every round's sum is shown."""

    kind = "rounds"
    schema: ClassVar[dict[str, Check]] = {"users": whole(1, 10**6), "over": text, "values": of(dict, "values")}
    needed = "users"

    def __init__(self, parameters: dict[str, Any]) -> None:
        body = dict(parameters)
        users, values = body.pop("users"), values_from_dict(body.pop("values"))
        asked = protocol(body.pop("over"), dimension=values.dimension, precision=126, **body)
        self.mechanism = (asked if values.kind == "ball" else asked.about(values)).plan(users)
        self.sums: list[list[float]] = []
        self.stopped, self._batch = False, 0

    @classmethod
    def parameters(cls, sections, arms):
        privacy = sections["privacy"]
        read = ("epsilon", "delta", "trust", "honest_fraction")
        return sections["program"] | {key: privacy[key] for key in read if key in privacy}

    @property
    def wanted(self):
        return [] if self.finished else [Wanted(self._batch, None, ((self._batch, self.mechanism),))]

    def released(self, batch, decoded, users=None, dealt=None):
        self.sums.append(self.mechanism.for_users(users).estimate(decoded).tolist())
        self._batch += 1

    def expired(self, batch, received=None):
        self._batch += 1

    def stop(self):
        self.stopped = True

    @property
    def finished(self):
        return self.stopped

    def show(self):
        return {"users": len(self.sums) * self.mechanism.users, "sums": self.sums}


NAME = "cases.service.vectors:Rounds"


def experiment(over: str = "laplace-vectors", values: dict[str, Any] = MOMENTS, **privacy: Any) -> dict[str, Any]:
    """Rounds of `USERS` who report vectors."""
    KINDS.admit(NAME)
    dropped = {key: value for key, value in PLAN.items() if key not in ("arms", "reward")}
    return dropped | {
        "program": {"kind": NAME, "users": USERS, "over": over, "values": values},
        "privacy": {"epsilon": 4.0} | privacy,
        "batches": {"deadline": 60},
    }
