"""The published rule: all that a device needs to choose by itself, as a value and as one line of JSON.

Where all actions share one parameter, a user comes with a feature vector for each action. Where each action has a
parameter of its own, the user comes with one vector, their context. Either way the score of an action is its estimated
mean plus how far that can be off: optimism ([APS11], [TKMS23] Alg. 4). Sets of earlier times still hold, so of several
the one counts that leaves an action the least.

A whole batch of optimists would try the same unknown direction, where a few of them suffice. So a share of the devices,
drawn by each, is pessimistic: it plays the action whose mean is surely largest. With w the width of the optimist's
action, either loses at most 2w: the best mean is at most the optimist's upper bound, and the pessimist's lower bound is
no less than the lower bound of the optimist's action.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter, between, integer, positive
from croupier.noise import Source
from croupier.noise.source import bernoulli, residues
from croupier.personal.belief import Belief
from croupier.personal.features import check_features

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

VERSION = 1


class Played(NamedTuple):
    """The numbers of the actions that were played, and whether each user was in the control share."""

    actions: Integers
    control: NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """What users choose by: the score of LinUCB [APS11], or the least of several.

    Parameters
    ----------
    beliefs : what is known of the parameter that all actions share, or of each action's own: the newest, then others
        that still say more in some direction.
    optimists : the share of devices that choose optimistically, all others pessimistically.
    exploration : scales how far an estimate is trusted to be off; only 1 is proven.
    blank : whether nothing is known yet: then every action is as likely.
    control : the share of users who play `single` instead, drawn on the device. While `blank` they are drawn all the
        same and play like the others: whoever reports late is then of either kind with the same chance as everybody.
    single : the action that is taken for the best one for everybody.

    Examples
    --------
    >>> known = Belief((0.0, 0.5), ((1.0, 0.0), (0.0, 1.0)), (4.0, 100.0), radius=1.0)
    >>> rule = Rule(((known,),))
    >>> rule.choose([[0.6, 0.0], [0.0, 0.8]])
    array(1)
    >>> Rule.from_json(rule.to_json()) == rule
    True
    """

    beliefs: tuple[tuple[Belief, ...], ...]
    exploration: float = 1.0
    optimists: float = 1.0
    blank: bool = False
    control: float = 0.0
    single: int | None = None

    def __post_init__(self) -> None:
        sizes = {belief.dimension for own in self.beliefs for belief in own}
        if not self.beliefs or not all(self.beliefs) or len(sizes) > 1:
            raise InvalidParameter("beliefs", len(self.beliefs), "one or more of each parameter, all of one dimension")
        positive("exploration", self.exploration)
        if not isinstance(self.blank, bool):
            raise InvalidParameter("blank", self.blank, "true or false")
        between("optimists", self.optimists, 0, 1, "(]")
        between("control", self.control, 0, 1, "[)")
        if self.control and self.single is None and not self.blank:
            raise InvalidParameter("single", None, "the number of an action, for the control share to play")
        if self.single is not None:
            integer("single", self.single, 0, None if self.shared else len(self.beliefs) - 1)

    @property
    def shared(self) -> bool:
        """Whether all actions share one parameter."""
        return len(self.beliefs) == 1

    @property
    def dimension(self) -> int:
        return self.beliefs[0][0].dimension

    @property
    def theta(self) -> tuple[float, ...]:
        """The estimate of the shared parameter."""
        return self._only.theta

    @property
    def root(self) -> tuple[tuple[float, ...], ...]:
        """A root of its V⁻¹."""
        return self._only.root

    @property
    def radius(self) -> float:
        """Its β."""
        return self._only.radius

    @cached_property
    def _only(self) -> Belief:
        if not self.shared:
            raise InvalidParameter("beliefs", len(self.beliefs), "one: here every action has a parameter of its own")
        return self.beliefs[0][0]

    def scores(self, features: ArrayLike, hopeful: ArrayLike = True) -> Floats:
        """What each action is worth at best, for one user or many; at worst for those who are not `hopeful`.

        `features` has a vector for each action on its second to last axis, or one vector where actions have their own
        parameters. The actions are on the last axis of the result.
        """
        x = check_features(features, self.dimension)
        sign = np.where(hopeful, 1.0, -1.0).astype(x.dtype)
        if self.shared:
            sign = sign[..., None]
        # Whatever a rule says, every device chooses: one whose numbers leave all range must not silence some of them.
        with np.errstate(all="ignore"):
            parts = [np.minimum.reduce([self._bound(belief, x, sign) for belief in own]) for own in self.beliefs]
        return np.asarray(sign * parts[0] if self.shared else sign[..., None] * np.stack(parts, axis=-1))

    def _bound(self, belief: Belief, x: Floats, sign: Floats) -> Floats:
        """How far up, or down, the set of one belief lets a mean be."""
        return sign * belief.estimates(x) + x.dtype.type(self.exploration) * belief.reach(x)

    def estimates(self, features: ArrayLike) -> Floats:
        """The estimated mean of each action, less what rewards are centred at."""
        parts = [own[0].estimates(features) for own in self.beliefs]
        return parts[0] if self.shared else np.stack(parts, axis=-1)

    def choose(self, features: ArrayLike) -> Integers:
        """The number of the best action, for one user or many, on their own devices."""
        self._check_offer(features)
        return np.asarray(np.argmax(self.scores(features), axis=-1), dtype=np.int64)

    def play(self, features: ArrayLike, source: Source) -> Played:
        """The same with a device's draws: whether it is hopeful, or in the control share; any action while `blank`."""
        offered = self._check_offer(features)
        x = check_features(features, self.dimension)
        users = x.shape[:-2] if self.shared else x.shape[:-1]
        if self.blank:
            return Played(residues(offered, users, source), self._drawn(self.control, users, source))
        hopeful = self._drawn(self.optimists, users, source)
        chosen = np.asarray(np.argmax(self.scores(x, hopeful), axis=-1), dtype=np.int64)
        control = self._drawn(self.control, users, source)
        if self.single is None:
            return Played(chosen, control)
        integer("single", self.single, 0, offered - 1)
        return Played(np.where(control, self.single, chosen), control)

    @staticmethod
    def _drawn(share: float, users: tuple[int, ...], source: Source) -> NDArray[np.bool_]:
        """Whether each user is one of a share; certainty needs no draw."""
        if share in (0.0, 1.0):
            return np.full(users, bool(share))
        return bernoulli(np.full(users, share), source).astype(bool)

    def _check_offer(self, features: ArrayLike) -> int:
        """How many actions there are to choose from."""
        shape = np.shape(features)
        if not self.shared:
            return len(self.beliefs)
        if len(shape) < 2 or not shape[-2]:
            raise InvalidParameter("features", f"shape {shape}", "a list of at least one action's feature vector")
        return int(shape[-2])

    def holds(self, theta: ArrayLike) -> bool:
        """Whether the true parameter, or every action's, lies in its set."""
        parameters = np.asarray(theta, dtype=np.float64).reshape(len(self.beliefs), self.dimension)
        known = zip(self.beliefs, parameters, strict=True)
        return all(belief.holds(truth) for own, truth in known for belief in own)

    def near(self, other: Rule) -> bool:
        """Whether two machines may have computed both from the same sums: all numbers that matter are alike.

        Axes are compared by the matrix that they make, since each may be turned around.
        """
        said = [(rule.exploration, rule.optimists, rule.blank, rule.control, rule.single) for rule in (self, other)]
        if said[0] != said[1] or [*map(len, self.beliefs)] != [*map(len, other.beliefs)]:
            return False
        pairs = zip(self.beliefs, other.beliefs, strict=True)
        return all(one.near(two) for own, its in pairs for one, two in zip(own, its, strict=True))

    def to_json(self) -> str:
        """One line of JSON. Every number is written so that it is read back as it was."""
        return json.dumps({"version": VERSION} | asdict(self), separators=(",", ":"), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Rule:
        """Read a rule back; anything unknown, missing or inconsistent is refused."""
        try:
            body: dict[str, Any] = json.loads(text)
            if body.pop("version") != VERSION:
                raise InvalidParameter("version", text[:60], str(VERSION))
            beliefs = tuple(tuple(_belief(part) for part in own) for own in body.pop("beliefs"))
            return cls(beliefs, **body)
        except InvalidParameter:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidParameter("rule", text[:60], f"version {VERSION} of a published rule ({error!r})") from None


def _belief(part: dict[str, Any]) -> Belief:
    body = dict(part)
    theta, values = (tuple(map(float, body.pop(name))) for name in ("theta", "values"))
    axes = tuple(tuple(map(float, row)) for row in body.pop("axes"))
    return Belief(theta, axes, values, **body)
