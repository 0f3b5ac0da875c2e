"""From noisy sums to a rule that users choose by: ridge regression, its confidence set, and optimism ([TKMS23] Alg. 4).

The sums are Σxxᵀ + N and Σxy + h, with noise N and h. With a ridge λ, V = Σxxᵀ + N + λI and θ̂ = V⁻¹(Σxy + h), and

    θ̂ - θ = V⁻¹(Σxη + h - (N + λI)θ).

Published ([TKMS23] Theorem C.2): where ρ_min I <= N + λI <= ρ_max I and ‖h‖ <= γ√ρ_min, ‖θ̂ - θ‖_V is at most
β = σ√(2 log(2/α) + d log(ρ_max/ρ_min + t/(dρ_min))) + √ρ_max + γ, which stays as large as noise can be, however many
users came. Tight: on the same kind of event ‖N‖ <= B and ‖h - Nθ‖ <= b, and with μ the least eigenvalue of V,

    β = √κ·σ√(2 log(2/α) + log det(V + (B+1-λ)⁺I)) + (b + λ)/√μ,   κ = 1 + (B+1-λ)⁺/μ,

since Σxxᵀ + I <= κV. (Where λ > B, √(λ+B) + ‖h‖/√(λ-B) may replace the last term.) It holds for every λ at once, so the
best one may be chosen by the sums themselves; as users come in, μ grows and the price of privacy goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between, integer, positive
from croupier.linear.statistics import SCALE, moments, statistics_dimension
from croupier.personal import Belief, Rule
from croupier.personal.belief import as_rows

Floats = NDArray[np.float64]


LARGEST_NET = 700.0
"""The logarithm of the largest net of directions: doubles hold no more."""


class NoisySums(Protocol):
    """What the confidence set must know of the sums: how far noise can push them, at all times at once."""

    def deviation(self, failure: float, *, directions: float = 1.0, strength: float = 1.0) -> float: ...


@dataclass(frozen=True)
class NoiseBounds:
    """`matrix` bounds ‖N‖, `vector` bounds ‖h‖, `joint` bounds ‖h - Nθ‖; all at all times."""

    matrix: float
    vector: float
    joint: float

    @classmethod
    def by_entry(cls, sums: NoisySums, dimension: int, failure: float) -> NoiseBounds:
        """The paper's way: a bound σ' on every entry at once, times d ([TKMS23] Theorem C.3)."""
        entry = SCALE * sums.deviation(failure, directions=statistics_dimension(dimension))
        return cls(dimension * entry, dimension * entry, 2.0 * dimension * entry)

    @classmethod
    def by_direction(cls, sums: NoisySums, dimension: int, failure: float) -> NoiseBounds:
        """Over a net of directions: within ν of every unit vector there is one of (1 + 2/ν)^d.

        Along a unit vector v, vᵀNv combines the noises of the triangle with coefficients v_i² and 2v_i v_j, of at most
        one, whose squares add up to at most 2; vᵀ(h - Nθ) has 3 at most. What holds on the net holds everywhere with
        1/(1 - 2ν) times the bound for a matrix (v and -v count once), and 1/(1 - ν) times for a vector.
        """
        part = failure / 3.0
        nets: list[float] = [
            net for net in np.geomspace(0.01, 0.45, 40).tolist() if dimension * math.log1p(2.0 / net) < LARGEST_NET
        ]
        if not nets:
            return cls.by_entry(sums, dimension, failure)

        def of_vector(strength: float) -> float:
            bounds = [
                sums.deviation(part, directions=(1.0 + 2.0 / net) ** dimension, strength=strength) / (1.0 - net)
                for net in nets
            ]
            return min(bounds)

        matrix = min(
            sums.deviation(part, directions=0.5 * (1.0 + 2.0 / net) ** dimension, strength=2.0) / (1.0 - 2.0 * net)
            for net in nets
        )
        return cls(SCALE * matrix, SCALE * of_vector(1.0), SCALE * of_vector(3.0))


@dataclass(frozen=True)
class Confidence:
    """How sums become a rule: the ridge λ (in tight mode only where nothing is known yet), and what β is made of."""

    dimension: int
    ridge: float
    noise: NoiseBounds
    failure: float
    reward_noise: float = 0.5
    published: bool = False
    exploration: float = 1.0

    def __post_init__(self) -> None:
        integer("dimension", self.dimension, 1)
        positive("ridge", self.ridge)
        between("failure", self.failure, 0, 1)
        positive("reward_noise", self.reward_noise)
        positive("exploration", self.exploration)

    @property
    def least(self) -> float:
        """ρ_min: what the ridge surely leaves of itself under the noise."""
        return self.ridge - self.noise.matrix

    @property
    def most(self) -> float:
        """ρ_max."""
        return self.ridge + self.noise.matrix

    def published_radius(self, users: int) -> float:
        """β of [TKMS23] Theorem C.2."""
        growth = self.dimension * math.log(self.most / self.least + users / (self.dimension * self.least))
        known = self.reward_noise * math.sqrt(2.0 * math.log(2.0 / self.failure) + growth)
        return known + math.sqrt(self.most) + self.noise.vector / math.sqrt(self.least)

    def tight_radii(self, eigenvalues: Floats, ridges: Floats) -> Floats:
        """β for each ridge, from the eigenvalues of the noisy Σxxᵀ."""
        values = eigenvalues[None] + ridges[:, None]
        least = values.min(axis=1)
        lifted = np.maximum(self.noise.matrix + 1.0 - ridges, 0.0)
        growth = np.log(values + lifted[:, None]).sum(axis=1)
        heard = np.sqrt((1.0 + lifted / least) * (2.0 * math.log(2.0 / self.failure) + np.maximum(growth, 0.0)))
        pushed = (self.noise.joint + ridges) / np.sqrt(least)
        # A ridge above the noise allows the bound of [TKMS23] on that term too.
        spare = ridges - self.noise.matrix
        apart = np.sqrt(ridges + self.noise.matrix) + self.noise.vector / np.sqrt(np.maximum(spare, 1e-300))
        return np.asarray(self.reward_noise * heard + np.where(spare > 0, np.minimum(pushed, apart), pushed))

    def rule(self, sums: Floats, users: int) -> Rule:
        """What users choose by after `users` of them were summed."""
        vector, matrix = moments(np.asarray(sums, dtype=np.float64), self.dimension)
        eigenvalues, axes = np.linalg.eigh(matrix)
        if self.published:
            ridge, radius = self.ridge, self.published_radius(users)
        else:
            certain = np.maximum(eigenvalues, -self.noise.matrix)
            fixed = float(self.tight_radii(certain, np.asarray([self.ridge]))[0])
            ridge, radius = self._best_ridge(eigenvalues, fixed)
        # Only noise beyond its bound could leave an eigenvalue below ρ_min; V stays positive definite whatever comes.
        values = np.maximum(eigenvalues + ridge, self.least if ridge == self.ridge else 0.0)
        theta = axes @ ((axes.T @ vector) / values)
        belief = Belief(tuple(theta.tolist()), as_rows(axes), tuple(values.tolist()), radius)
        return Rule(((belief,),), self.exploration)

    def _best_ridge(self, eigenvalues: Floats, radius: float) -> tuple[float, float]:
        """The ridge with the narrowest intervals, β√tr(V⁻¹): the fixed one, or one that the sums allow."""
        ridges = np.append(self.ridge * np.geomspace(1e-4, 1.0, 24), 0.0)
        ridges = ridges[ridges + eigenvalues[0] > 1e-3 * self.ridge]
        fixed = np.maximum(eigenvalues + self.ridge, self.least)
        width, best = radius * math.sqrt(float((1.0 / fixed).sum())), (self.ridge, radius)
        if len(ridges):
            radii = self.tight_radii(eigenvalues, ridges)
            widths = radii * np.sqrt((1.0 / (eigenvalues[None] + ridges[:, None])).sum(axis=1))
            narrowest = int(np.argmin(widths))
            if widths[narrowest] < width:
                best = (float(ridges[narrowest]), float(radii[narrowest]))
        return best


def confidence(
    sums: NoisySums | None,
    dimension: int,
    *,
    failure: float,
    reward_noise: float = 0.5,
    published: bool = False,
    exploration: float = 1.0,
) -> Confidence:
    """The ridge and radius for these sums (None: no noise, λ = 1).

    Published: λ = 2σ'd with σ' the bound on an entry. Tight: bounds along directions, and until the sums allow less the
    λ that makes √ρ_max + γ least.
    """
    between("failure", failure, 0, 1)
    if sums is None:
        return Confidence(dimension, 1.0, NoiseBounds(0.0, 0.0, 0.0), failure, reward_noise, published, exploration)
    if published:
        noise = NoiseBounds.by_entry(sums, dimension, failure / 2.0)
        ridge = 2.0 * noise.matrix
    else:
        noise = NoiseBounds.by_direction(sums, dimension, failure / 2.0)
        margins = noise.matrix * np.geomspace(0.01, 10.0, 400)
        cost = np.sqrt(margins + 2.0 * noise.matrix) + noise.vector / np.sqrt(margins)
        ridge = noise.matrix + max(float(margins[np.argmin(cost)]), 1.0)
    return Confidence(dimension, ridge, noise, failure, reward_noise, published, exploration)
