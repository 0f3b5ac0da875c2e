"""Worlds for linear bandits: what actions a user is offered, as features, and how they would like each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, integer, one_of
from croupier.linear import blocks, with_constant

Floats = NDArray[np.float64]

TABLES = ("breast-cancer", "iris", "wine")


@dataclass(frozen=True, eq=False)
class Offers:
    """Users' actions: features (users, actions, d), and the mean reward of each (users, actions)."""

    features: Floats
    means: Floats


class LinearWorld(ABC):
    """Users who come with their own actions; rewards are 0 or 1."""

    dimension: int
    actions: int
    theta: Floats | None = None
    """The true parameter, where there is one."""

    @abstractmethod
    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        """The next users' actions."""


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
        drawn = generator.standard_normal((users, self.actions, self.dimension - 1))
        features = with_constant(drawn / np.sqrt(np.einsum("...i,...i->...", drawn, drawn))[..., None])
        assert self.theta is not None
        # Rounding may leave a mean a hair outside.
        return Offers(features, np.clip(features @ self.theta, 0.0, 1.0))


class Table(LinearWorld):
    """A classification table as a bandit: users are its rows, drawn again and again; actions are its classes.

    A user is described by `components` principal components and a constant, scaled to norm one; the feature of a class
    is that description in the class's own block. The right class earns 1, any other 0, so no linear parameter is
    quite true and some regret stays for ever.
    """

    def __init__(self, name: str, components: int = 4) -> None:
        rows, labels = _load(one_of("table", name, TABLES))
        self.name = name
        integer("components", components, 1, min(rows.shape))
        centred = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][:components]
        described = np.column_stack((centred @ axes.T, np.ones(len(rows))))
        described[:, :-1] /= np.abs(described[:, :-1]).max(axis=0)
        self.rows = described / np.linalg.norm(described, axis=1, keepdims=True)
        self.labels = labels
        self.actions = int(labels.max()) + 1
        self.dimension = self.actions * self.rows.shape[1]

    def offer(self, users: int, generator: np.random.Generator) -> Offers:
        picked = generator.integers(0, len(self.rows), users)
        features = blocks(self.rows[picked], self.actions)
        return Offers(features, (self.labels[picked, None] == np.arange(self.actions)).astype(np.float64))


def _load(name: str) -> tuple[Floats, NDArray[np.int64]]:
    try:
        from sklearn import datasets
    except ImportError:
        raise CroupierError("tables need scikit-learn: install croupier[learning]") from None
    loader = getattr(datasets, f"load_{name.replace('-', '_')}")
    rows, labels = loader(return_X_y=True)
    return np.asarray(rows, dtype=np.float64), np.asarray(labels, dtype=np.int64)


def linear_world(text: str, *, dimension: int, actions: int, seed: int) -> LinearWorld:
    """The world that a word names: sphere, or one of `TABLES`."""
    if text == "sphere":
        return Sphere(dimension, actions, seed)
    if text not in TABLES:
        raise InvalidParameter("world", text, "one of sphere, " + ", ".join(TABLES))
    return Table(text)
