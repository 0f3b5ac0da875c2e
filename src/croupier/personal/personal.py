"""How the devices of one experiment choose, and what each of them reports: all that its signed configuration says.

Where every action has a parameter of its own, a user is one vector, the context. Where actions are described by numbers
in [-1, 1] and share one parameter, a user comes with a vector for each action: every number of the context (and one)
times every number of the description, and a constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.checks import InvalidParameter, between
from croupier.noise import Source
from croupier.personal.context import Context, Feature
from croupier.personal.features import with_constant
from croupier.personal.rule import Rule
from croupier.protocols import Moments, Values

Floats = NDArray[np.float64]


class Chosen(Protocol):
    """What a device chose: the action, whether as one of the control share, and its user's vector for that action.

    It stays on the device.
    """

    @property
    def action(self) -> int: ...
    @property
    def control(self) -> bool: ...
    @property
    def vector(self) -> tuple[float, ...]: ...


@dataclass(frozen=True)
class Personal:
    """Features with ranges, actions, how they combine, and what rewards are.

    Examples
    --------
    >>> tips = Personal(("video", "mail"), Context((Feature("age", 18, 80),)))
    >>> tips.places, tips.dimension, tips.vectors({"age": 49}).round(2).tolist()
    (2, 2, [0.0, 0.71])
    """

    actions: tuple[str, ...]
    context: Context
    described: tuple[tuple[float, ...], ...] = ()
    reward: Values = field(default_factory=Values)
    control: float = 0.0

    def __post_init__(self) -> None:
        if len(self.actions) < 2:
            raise InvalidParameter("arms", list(self.actions), "at least two: a device chooses between them")
        if not self.described:
            return
        sizes = {len(numbers) for numbers in self.described}
        if len(self.described) != len(self.actions) or len(sizes) != 1 or 0 in sizes:
            raise InvalidParameter("described", len(self.described), "as many numbers for each arm, and one at least")
        for numbers in self.described:
            for number in numbers:
                between("described", number, -1, 1, "[]")

    @classmethod
    def read(cls, program: Mapping[str, Any]) -> Personal:
        """What the program of a signed configuration says; one that is no personalised program is refused."""
        try:
            return cls._read(program)
        except InvalidParameter:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InvalidParameter("program", program.get("kind"), f"a personalised one ({error!r})") from None

    @classmethod
    def _read(cls, program: Mapping[str, Any]) -> Personal:
        features = tuple(Feature(**entry) for entry in program["features"])
        described = tuple(tuple(map(float, numbers)) for numbers in program.get("described", ()))
        context = Context(features, clip=bool(program.get("clip", False)))
        actions, control = tuple(program["actions"]), float(program.get("control", 0.0))
        return cls(actions, context, described, Values(**program["reward"]), control)

    @property
    def places(self) -> int:
        """Parameters: one that all actions share, or one for each action."""
        return 1 if self.described else len(self.actions)

    @property
    def dimension(self) -> int:
        """Numbers of a user's vector."""
        return self.context.dimension * len(self.described[0]) + 1 if self.described else self.context.dimension

    @cached_property
    def _descriptions(self) -> Floats:
        """Of norm at most one each."""
        return np.asarray(self.described, dtype=np.float64) / math.sqrt(len(self.described[0]))

    def vectors(self, context: Mapping[str, object]) -> Floats:
        """A user's vector, or one for each action; what is missing, unknown or out of range is refused by name."""
        own = self.context.vector(context)
        return self.combined(own[None])[0] if self.described else own

    def combined(self, contexts: Floats) -> Floats:
        """Of many users' contexts, each a row, the vectors for each action."""
        mixed = contexts[:, None, :, None] * self._descriptions[None, :, None, :]
        return with_constant(mixed.reshape(*mixed.shape[:2], -1))

    def check_moments(self, values: object) -> Moments:
        """What a report sums must be what this experiment is about."""
        if not isinstance(values, Moments) or (values.features, values.places, values.centred) != (
            self.dimension,
            self.places,
            True,
        ):
            due = f"the moments of {self.dimension} numbers in {self.places} places"
            raise InvalidParameter("values", values, due)
        return values

    def check_rule(self, rule: Rule) -> Rule:
        """A rule that is about something else is refused."""
        if (rule.dimension, len(rule.beliefs)) != (self.dimension, self.places):
            told = f"{len(rule.beliefs)} parameters of {rule.dimension} numbers"
            raise InvalidParameter("rule", told, f"{self.places} parameters of {self.dimension} numbers")
        if rule.control > self.control:
            raise InvalidParameter("rule.control", rule.control, f"at most {self.control:g}, as was signed")
        if rule.single is not None and rule.single >= len(self.actions):
            raise InvalidParameter("rule.single", rule.single, f"an action below {len(self.actions)}")
        return rule

    def choose(self, rule: Rule, context: Mapping[str, object], source: Source) -> tuple[int, bool, tuple[float, ...]]:
        """Choose by the rule, with the device's own draws: the parts of what was `Chosen`."""
        vectors = self.vectors(context)
        played = self.check_rule(rule).play(vectors, source)
        action = int(played.actions)
        own = vectors[action] if self.described else vectors
        return action, bool(played.control), tuple(own.tolist())

    def report(self, chosen: Chosen, reward: object, values: object) -> list[float]:
        """The vector that a device reports of a reward in its own units."""
        moments = self.check_moments(values)
        place = 0 if self.described else chosen.action
        vector: list[float] = moments.of(chosen.vector, self.unit(reward), place, chosen.control).tolist()
        return vector

    def unit(self, reward: object) -> float:
        """A reward as a number in [0, 1], or a refusal."""
        if isinstance(reward, str | bytes | list | tuple | dict | type(None)):
            raise InvalidParameter("value", reward, f"a number in [{self.reward.low:g}, {self.reward.high:g}]")
        return float(self.reward.unit(reward))  # type: ignore[arg-type]
