"""A personalised experiment as a program: devices choose by a published rule, and report one vector without an arm.

Every user is in one batch, and batches grow. What a batch sums is all that anybody sees of its users. A batch may close
with fewer than were wanted, when its time is over: nothing of a report depends on its size.
"""

from __future__ import annotations

from typing import Any, ClassVar

from croupier.checks import InvalidParameter, between
from croupier.linear import GrowingPlan, LinearServer, box_norm, described_norm, growing_bandit
from croupier.linear.growing import LAWS, SMALLEST
from croupier.personal import Feature, Personal
from croupier.programs.learnt import learnt
from croupier.programs.one_by_one import OneByOne
from croupier.programs.program import Dealt, Wanted
from croupier.programs.sections import MOST_USERS, Check, Section, of, text, trusted, truth, whole, within
from croupier.protocols.sums.protocol import DEFAULT_DELTA

TRUST = "two-servers"
PRECISION = 254
"""Steps of a number unless told otherwise: eight bits of a proof, and an even number, so that zeros stay whole."""
LONGEST = 1e6
"""No parameter is thought of as longer."""
PLANNED = (
    *("users", "control", "exploration", "ratio", "largest", "optimists"),
    *("noise", "weight", "first", "precision", "norm"),
)
"""What the plan of the batches and the rule reads as it is."""


class LinearProgram(OneByOne):
    """A linear bandit over growing batches; where too few came for one, whoever did counts in the next."""

    kind = "linear"
    schema: ClassVar[dict[str, Check]] = {
        "users": whole(SMALLEST, MOST_USERS),
        "features": of(dict, "a table of ranges, as {age = [18, 80]}"),
        "described": of(dict, "a table of numbers in [-1, 1] for each arm, as {video = [1, 0], mail = [0, 1]}"),
        "clip": truth,
        "control": within(0.0, 0.5),
        "single": text,
        "exploration": within(0.0, 1.0, "(]"),
        "ratio": within(1.0, 100.0, "(]"),
        "largest": whole(1, MOST_USERS),
        "first": whole(1, MOST_USERS),
        "optimists": within(0.0, 1.0, "(]"),
        "noise": text,
        "norm": within(0.0, LONGEST, "(]"),
        "precision": whole(2, 2**16),
    }
    needed = "users"

    def __init__(self, parameters: dict[str, Any]) -> None:
        body = dict(parameters)
        self.personal = Personal.read(body)
        self._smallest = int(body["smallest"])
        self.plan = _plan(body, self.personal)
        self.server = LinearServer(self.plan)

    @classmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        given = dict(sections["program"])
        trusted(sections, (TRUST,))
        if "features" not in given:
            raise InvalidParameter("program.features", None, "given: a table of ranges, as {age = [18, 80]}")
        features = [_feature(name, ends) for name, ends in given.pop("features").items()]
        described = given.pop("described", None)
        if described is not None:
            if set(described) != set(arms):
                raise InvalidParameter("program.described", sorted(described), f"a list for each of {', '.join(arms)}")
            given["described"] = [_description(arm, described[arm]) for arm in arms]
        if "single" in given:
            if given["single"] not in arms:
                raise InvalidParameter("program.single", given["single"], f"one of {', '.join(arms)}")
            given["single"] = arms.index(given["single"])
        privacy = sections["privacy"]
        for key in ("honest_fraction", "front_noise"):
            if key in privacy:
                raise InvalidParameter(f"privacy.{key}", privacy[key], f"left out where the trust is {TRUST}")
        body: Section = {"features": features, "actions": list(arms), "precision": PRECISION} | given
        body |= {"reward": _reward(sections["reward"])}
        body |= {"epsilon": privacy.get("epsilon", 1.0), "delta": privacy.get("delta", DEFAULT_DELTA)}
        personal = Personal.read(body)
        body |= {} if "norm" in body else {"norm": _norm(personal)}
        plan = _plan(body, personal)
        # What was searched for is signed, so that nobody has to find the same.
        body |= {"noise": LAWS[plan.protocol.row.notion == "pure"], "weight": plan.moments.weight}
        least = min(plan.first, given.get("largest", plan.first))
        smallest = sections["batches"].get("smallest", min(SMALLEST, least))
        if smallest > least:
            raise InvalidParameter("batches.smallest", smallest, f"at most {least}, as many as a batch may want")
        return body | {"first": plan.first, "smallest": smallest}

    @property
    def wanted(self) -> list[Wanted]:
        if self.finished:
            return []
        [batch] = self.server.open
        return [Wanted(self._batch, None, ((self._batch, batch.mechanism),), rule=self.server.rule.to_json())]

    @property
    def smallest(self) -> int:
        """A batch may close with so few, when its time is over; none wants fewer."""
        return self._smallest

    @property
    def least_outcome(self) -> float:
        return float(self.personal.reward.low)

    def check_outcome(self, outcome: object) -> None:
        self.personal.unit(outcome)

    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        self._expect(batch)
        [planned] = self.server.open
        came = planned.mechanism.users if users is None else users
        if len(decoded) != planned.mechanism.dimension:
            raise InvalidParameter("decoded", len(decoded), f"{planned.mechanism.dimension} whole numbers")
        self.server.arrive(came)
        if self.server.room:
            self.server.close()
        self.server.release(planned.number, tuple(decoded))
        self._batch += 1

    @property
    def finished(self) -> bool:
        return self.stopped or self.server.room < self._smallest

    def show(self) -> dict[str, Any]:
        known = learnt(self.server.findings, self.personal, self.finished)
        return {"users": self.server.summed, "planned": self.plan.users} | known


def _plan(body: Section, personal: Personal) -> GrowingPlan:
    asked = {key: body[key] for key in PLANNED if key in body}
    single = body.get("single")
    return growing_bandit(
        asked.pop("users"),
        personal.dimension,
        places=personal.places,
        epsilon=body["epsilon"],
        delta=body["delta"],
        single=single,
        **asked,
    )


def _norm(personal: Personal) -> float:
    """How long a parameter can be whose means lie in the range of rewards."""
    features = len(personal.context.features)
    return described_norm(features, personal.described) if personal.described else box_norm(features)


def _description(arm: str, numbers: object) -> list[float]:
    name = f"program.described.{arm}"
    if not isinstance(numbers, list) or not numbers:
        raise InvalidParameter(name, numbers, "a list of numbers in [-1, 1]")
    return [float(between(name, number, -1, 1, "[]")) for number in numbers]


def _feature(name: str, ends: object) -> Section:
    if not isinstance(ends, list) or len(ends) != 2:
        raise InvalidParameter(f"program.features.{name}", ends, "two numbers, the lowest and the highest")
    feature = Feature(name, *ends)
    return {"name": feature.name, "low": feature.low, "high": feature.high}


def _reward(given: Section) -> Section:
    """What rewards may be: 0 or 1 unless the file says otherwise."""
    for key in given:
        if key not in ("low", "high", "binary", "clip"):
            raise InvalidParameter(f"reward.{key}", given[key], "left out: vectors are summed")
    own = {"low", "high"} & given.keys()
    return {"low": 0.0, "high": 1.0, "binary": not own, "clip": False} | given
