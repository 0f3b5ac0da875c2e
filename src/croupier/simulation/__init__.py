"""Worlds, runners, reference baselines, sweeps and figures."""

from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.data import ratings, ratings_from_letor, ratings_from_open_bandit
from croupier.simulation.prices import price, prices
from croupier.simulation.runner import Run, simulate
from croupier.simulation.worlds import (
    WORLDS,
    Bernoulli,
    Beta,
    Changing,
    ClippedGaussian,
    Drifting,
    Ratings,
    World,
    uniform_means,
    world,
)

__all__ = [
    "ALL_POLICIES",
    "WORLDS",
    "Bernoulli",
    "Beta",
    "Changing",
    "ClippedGaussian",
    "Drifting",
    "Ratings",
    "Run",
    "World",
    "price",
    "prices",
    "ratings",
    "ratings_from_letor",
    "ratings_from_open_bandit",
    "simulate",
    "simulated_policy",
    "uniform_means",
    "world",
]
