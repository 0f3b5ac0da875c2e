"""Worlds for linear bandits: who comes, described by features, and how they would like each action."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.personal import Context, Feature, blocks

Floats = NDArray[np.float64]

TABLES = ("breast-cancer", "iris", "wine")
SPHERE, TABLE = "sphere", "table:"


@dataclass(frozen=True, eq=False)
class Offers:
    """Users' features, and the mean reward of each action (users, actions).

    Where actions share a parameter the features are (users, actions, d), else (users, d): one vector each.
    """

    features: Floats
    means: Floats


class LinearWorld(ABC):
    """Users who come with their own features; rewards are 0 or 1. The last number of every vector is √½."""

    dimension: int
    """Of a feature vector."""
    actions: int
    places: int = 1
    """How many parameters there are: one that all actions share, or one for each."""
    theta: Floats | None = None
    """The true parameter of all mean rewards, where there is one."""
    names: tuple[str, ...] = ()
    """What the actions are called."""
    context: Context | None = None
    """What the features are, where they have names."""
    single: int | None = None
    """The action that is best for everybody, where actions are the same for all."""
    single_mean = linear_mean = math.nan
    """What a user earns of that action, and of the best linear rule, or nearly."""

    @abstractmethod
    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        """The next users' features and means."""

    @property
    def wide(self) -> int:
        """The dimension of a parameter that holds every action's, as [TKMS23] has it."""
        return self.places * self.dimension

    @property
    def centred(self) -> Floats | None:
        """The parameter of mean rewards less ½, a row for each place: the constant's coefficient takes it up."""
        if self.theta is None:
            return None
        own = self.theta.reshape(self.places, self.dimension).copy()
        own[:, -1] -= math.sqrt(0.5)
        return own


def widened(world: LinearWorld, features: Floats) -> Floats:
    """Features for one parameter that all actions share: a block for each where they have their own."""
    return features if world.places == 1 else blocks(features, world.places)


class Sphere(LinearWorld):
    """Actions drawn afresh for every user, uniformly on a sphere; mean reward (1 + ⟨θ, a⟩)/2 for a hidden unit θ.

    The feature of an action is (a, 1)/√2 and the parameter (θ, 1)/√2: both have norm one, and means lie in [0, 1].
    """

    def __init__(self, dimension: int, actions: int, seed: int) -> None:
        self.dimension = integer("dimension", dimension, 2)
        self.actions = integer("actions", actions, 2)
        hidden = np.random.default_rng(seed).normal(size=dimension - 1)
        self.theta = np.append(hidden / np.linalg.norm(hidden), 1.0) / np.sqrt(2.0)

    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        # Single precision halves what is moved about, and nothing here is that fine.
        drawn = generator.standard_normal((users, self.actions, self.dimension - 1), dtype=np.float32)
        return self._offers(drawn)

    def _offers(self, drawn: NDArray[np.float32]) -> Offers:
        """Features along these directions, and their means."""
        features = np.empty((*drawn.shape[:-1], self.dimension), dtype=np.float32)
        lengths = np.sqrt(2.0 * np.einsum("...i,...i->...", drawn, drawn))
        np.maximum(lengths, 1e-30, out=lengths)  # in single precision a draw on a line may be zero
        np.divide(drawn, lengths[..., None], out=features[..., :-1])
        features[..., -1] = math.sqrt(0.5)
        assert self.theta is not None
        # Rounding may leave a mean a hair outside.
        return Offers(features, np.clip(features @ self.theta.astype(np.float32), 0.0, 1.0))


class LateDirections(Sphere):
    """A sphere whose actions lie in the first half of the directions, and from user `appears` on in the other half.

    Both halves of θ are equally long; `turned` has the late one point the other way. The world counts its users, so it
    is good for one run.
    """

    def __init__(self, dimension: int, actions: int, appears: int, seed: int, *, turned: bool = False) -> None:
        super().__init__(dimension, actions, seed)
        self.appears, self._half, self._seen = appears, (dimension - 1) // 2, 0
        hidden = np.random.default_rng(seed).normal(size=dimension - 1)
        for part in (hidden[: self._half], hidden[self._half :]):
            part /= np.linalg.norm(part) * math.sqrt(2.0)
        hidden[self._half :] *= -1.0 if turned else 1.0
        self.theta = np.append(hidden, 1.0) / math.sqrt(2.0)

    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        drawn = generator.standard_normal((users, self.actions, self.dimension - 1), dtype=np.float32)
        late = np.arange(self._seen, self._seen + users) >= self.appears
        self._seen += users
        drawn[late, :, : self._half] = 0.0
        drawn[~late, :, self._half :] = 0.0
        return self._offers(drawn)


class Table(LinearWorld):
    """Users are the rows of a table, drawn again and again; each action has a mean reward for each row.

    A row is described by its features in their ranges, and every action has coefficients of its own. No linear
    parameter need be true of it.
    """

    def __init__(self, context: Context, rows: Floats, means: Floats, names: Sequence[str], name: str = "") -> None:
        self.context, self.name, self.names = context, name, tuple(names)
        self.rows, self.means = context.rows(rows), np.asarray(means, dtype=np.float64)
        if self.means.shape != (len(self.rows), len(self.names)):
            raise InvalidParameter("means", f"shape {self.means.shape}", f"{(len(self.rows), len(self.names))}")
        if not ((self.means >= 0.0) & (self.means <= 1.0)).all():
            raise InvalidParameter("means", "a number outside", "numbers in [0, 1]")
        self.actions = self.places = integer("actions", len(self.names), 2)
        self.dimension = context.dimension

        self.single = int(np.argmax(self.means.mean(axis=0)))
        self.single_mean = float(self.means.mean(axis=0).max())
        self.linear_mean = max(self._fitted_mean(), self.single_mean)

    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        picked = generator.integers(0, len(self.rows), users)
        return Offers(self.rows[picked], self.means[picked])

    def _fitted_mean(self) -> float:
        """What a user earns of the rule by least squares on all means."""
        fitted = np.linalg.lstsq(self.rows, self.means, rcond=None)[0]
        chosen = (self.rows @ fitted).argmax(axis=1)
        return float(self.means[np.arange(len(chosen)), chosen].mean())


def class_table(name: str, components: int = 4) -> Table:
    """A classification table as a bandit: its classes are the actions. The right one earns 1, any other 0.

    Rows are described by `components` principal components of their standardised columns, each in its range.
    """
    rows, labels = _load(one_of("table", name, TABLES))
    integer("components", components, 1, min(rows.shape))
    centred = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    described = centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
    reach = np.abs(described).max(axis=0)
    features = [Feature(f"component {i + 1}", -float(end), float(end)) for i, end in enumerate(reach)]
    classes = [f"class {label}" for label in range(int(labels.max()) + 1)]
    return Table(Context(tuple(features)), described, np.eye(len(classes))[labels], classes, name)


def _load(name: str) -> tuple[Floats, NDArray[np.int64]]:
    try:
        from sklearn import datasets
    except ImportError:
        raise CroupierError("tables need scikit-learn: install croupier[learning]") from None
    loader = getattr(datasets, f"load_{name.replace('-', '_')}")
    rows, labels = loader(return_X_y=True)
    return np.asarray(rows, dtype=np.float64), np.asarray(labels, dtype=np.int64)


def linear_world(text: str, *, dimension: int, actions: int, seed: int) -> LinearWorld:
    """The world that a word names: sphere, or table: and one of `TABLES`."""
    if text == SPHERE:
        return Sphere(dimension, actions, seed)
    known = (SPHERE, *(TABLE + name for name in TABLES))
    return class_table(one_of("world", text, known).removeprefix(TABLE))
