"""Worlds, runners, reference baselines, sweeps and figures."""

from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.data import ratings_from_letor, ratings_from_open_bandit
from croupier.simulation.runner import Run, simulate
from croupier.simulation.worlds import Bernoulli, Beta, ClippedGaussian, Ratings, World, uniform_means

__all__ = [
    "ALL_POLICIES",
    "Bernoulli",
    "Beta",
    "ClippedGaussian",
    "Ratings",
    "Run",
    "World",
    "ratings_from_letor",
    "ratings_from_open_bandit",
    "simulate",
    "simulated_policy",
    "uniform_means",
]
