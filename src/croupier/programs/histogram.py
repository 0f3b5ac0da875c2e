"""A histogram as a program, in rounds: each is one batch of `users` users, and their counts add up."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.programs.one_by_one import OneByOne
from croupier.programs.program import Dealt, Wanted
from croupier.programs.sections import MOST_USERS, Check, Section, of, target, text, trusted, whole, within
from croupier.protocols import HistogramRelease, histogram
from croupier.protocols.histograms.universe import universe_from_dict

MODELS = {"two-servers": "two-servers", "shuffler": "shuffle"}
"""The models that a service carries, by whom they trust."""
TOP = 50
"""Items of a histogram that are shown."""


class HistogramProgram(OneByOne):
    """A histogram, given by its universe, its mechanism's parameters, and how many rounds there are."""

    kind = "histogram"
    schema: ClassVar[dict[str, Check]] = {
        "users": whole(1, MOST_USERS),
        "rounds": whole(1, 10**6),
        "items": of(list, "a list of texts"),
        "universe": of(
            dict, 'a table, as {kind = "buckets", bits = 16, salt = "2024", candidates = ["tea", "coffee"]}'
        ),
        "failure": within(0.0, 1.0, "()"),
    } | dict.fromkeys(("constants", "side", "minimise"), text)
    needed = "users"

    def __init__(self, parameters: dict[str, Any]) -> None:
        body = dict(parameters)
        users, self.rounds = body.pop("users"), integer("rounds", body.pop("rounds", 1), 1)
        self.mechanism = histogram(**body | {"universe": universe_from_dict(body["universe"])}).plan(users)
        self.released_rounds = self.users = 0
        self.counts = np.zeros(self.mechanism.size)

    @classmethod
    def parameters(cls, sections: dict[str, Section], arms: list[str]) -> Section:
        if arms or sections["reward"]:
            raise InvalidParameter("arms", arms, "left out, as rewards are: a histogram counts items")
        if "smallest" in sections["batches"]:
            smallest = sections["batches"]["smallest"]
            raise InvalidParameter("batches.smallest", smallest, "left out: the users of a round are its batch")
        given = sections["program"]
        if ("items" in given) == ("universe" in given):
            raise InvalidParameter("program", sorted(given), "users, and either items or a universe")
        universe = given.pop("universe", None) or {"kind": "items", "names": given.pop("items")}
        trust = trusted(sections, tuple(MODELS))
        return (
            {"universe": universe, "model": MODELS[trust]}
            | given
            | target(sections, trust, counted=trust == "shuffler")
        )

    @property
    def wanted(self) -> list[Wanted]:
        return [] if self.finished else [Wanted(self._batch, None, ((self._batch, self.mechanism),))]

    def released(self, batch: int, decoded: Any, users: int | None = None, dealt: Dealt | None = None) -> None:
        self._expect(batch)
        users = users or self.mechanism.users
        counted = self.mechanism.for_users(users)
        self.counts += HistogramRelease(counted, np.asarray(decoded, dtype=np.int64)).counts
        self.users += users
        self.released_rounds += 1
        self._batch += 1

    @property
    def finished(self) -> bool:
        return self.stopped or self.released_rounds >= self.rounds

    def show(self) -> dict[str, Any]:
        order = np.argsort(-self.counts, kind="stable")[:TOP].tolist() if self.released_rounds else []
        name = self.mechanism.universe.name
        return {
            "users": self.users,
            "planned": self.rounds * self.mechanism.users,
            "rounds": self.rounds,
            "size": self.mechanism.size,
            "radius": self.rounds * self.mechanism.radius(0.05 / self.rounds),
            "top": [{"item": name(i), "count": float(self.counts[i])} for i in order],
        }
