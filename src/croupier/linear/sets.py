"""From the moments of released batches to what is known of each parameter (docs/personalisation.md has the proof).

The sums are Σxxᵀ + N and Σxz + h. With a ridge λ, V = Σxxᵀ + N + λI and θ̂ = V⁻¹(Σxz + h), so

    θ̂ - θ = V⁻¹(Σxη + (h - Nθ) - λθ).

On the event that ‖N‖ <= B and ‖h - Nθ‖ <= b, and that Σxη keeps the self-normalised bound [APS11] at ρ, every x has

    |⟨x, θ̂ - θ⟩| <= c·‖V⁻¹x‖_{V + lI} + (b + λS)·‖V⁻¹x‖,   l = (B + ρ - λ)⁺,
    c = σ√(2 log(1/α') + log det((V + lI)/ρ)),

since Σxxᵀ + ρI <= V + lI. It holds for every λ at once and for every ρ of a list, each with its part α' of the failure
probability; so the sums themselves may choose both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.checks import between, positive
from croupier.personal import Belief
from croupier.personal.belief import as_rows

Floats = NDArray[np.float64]

RIDGES = np.append(np.geomspace(1e-3, 2.0, 28), 0.0)
"""Ridges that are tried, over the bound on the noise of the matrix."""

LEVELS = 4.0 ** np.arange(13)
"""ρ of the self-normalised bound: from one user to sixteen million; the g-th has a part 1/(g(g+1)) of the chance."""

LEAST = 1e-3
"""No eigenvalue of V is below this part of B: nothing would be known along it."""


@dataclass(frozen=True)
class NoiseBounds:
    """At one time: `matrix` bounds ‖N‖, and `joint` bounds ‖h - Nθ‖."""

    matrix: float
    joint: float


@dataclass(frozen=True)
class Sets:
    """Confidence sets of parameters: how likely one misses is `failure`, all times and parameters together.

    `norm` is S, the largest norm of a parameter; `reward_noise` is σ, the sub-Gaussian scale of a reward, ½ for rewards
    in [0, 1]. A third of the failure probability is for rewards, the others for the two bounds on the noise.
    """

    failure: float
    parameters: int = 1
    norm: float = 1.0
    reward_noise: float = 0.5

    def __post_init__(self) -> None:
        between("failure", self.failure, 0, 1)
        positive("norm", self.norm)
        positive("reward_noise", self.reward_noise)

    @property
    def part(self) -> float:
        """Of the failure probability, for one of the three events and one parameter."""
        return self.failure / (3.0 * self.parameters)

    def nothing(self, dimension: int) -> Belief:
        """What is known before anything was released: the norm."""
        axes = np.eye(dimension)
        return Belief((0.0,) * dimension, as_rows(axes), (1.0,) * dimension, self.norm)

    def belief(self, pulled: Floats, matrix: Floats, noise: NoiseBounds) -> Belief:
        """What these sums say of one parameter: the ridge and the ρ with the narrowest set, on average over axes."""
        eigenvalues, axes = np.linalg.eigh(matrix)
        ridges = noise.matrix * RIDGES if noise.matrix else np.asarray([1e-6 * (1.0 + eigenvalues[-1])])
        # N >= -B, so an eigenvalue below that is noise beyond its bound; V stays positive definite whatever comes.
        values = np.maximum(eigenvalues, -noise.matrix)[None] + ridges[:, None]
        sound = values.min(axis=1) >= max(LEAST * noise.matrix, 1e-12)
        ridges, values = ridges[sound], values[sound]
        lift = np.maximum(noise.matrix + LEVELS[None] - ridges[:, None], 0.0)
        raised = values[:, None] + lift[..., None]
        growth = np.log(raised).sum(axis=-1) - values.shape[1] * np.log(LEVELS)
        place = np.arange(1, len(LEVELS) + 1)
        odds = 2.0 * np.log(place * (place + 1) / self.part)
        radius = self.reward_noise * np.sqrt(odds + np.maximum(growth, 0.0))
        push = noise.joint + ridges * self.norm
        heard = radius * np.sqrt((raised / values[:, None] ** 2).sum(axis=-1))
        width = heard + (push * np.sqrt((values**-2.0).sum(axis=-1)))[:, None]
        ridge, level = np.unravel_index(int(np.argmin(width)), width.shape)
        chosen = values[ridge]
        theta = axes @ ((axes.T @ pulled) / chosen)
        return Belief(
            tuple(theta.tolist()),
            as_rows(axes),
            tuple(chosen.tolist()),
            float(radius[ridge, level]),
            float(push[ridge]),
            float(lift[ridge, level]),
        )


def chance_at(batch: int) -> float:
    """Which part of a failure probability the bounds after the j-th batch have: 1/(j(j+1)), which add up to one.

    >>> round(sum(chance_at(j) for j in range(1, 100_000)), 3)
    1.0
    """
    return 1.0 / (batch * (batch + 1.0))
