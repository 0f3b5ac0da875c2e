"""Worlds, runners, reference baselines, sweeps and figures."""

from croupier.simulation.baselines import ALL_POLICIES, simulated_policy
from croupier.simulation.data import ratings, ratings_from_letor, ratings_from_open_bandit
from croupier.simulation.drift import Novelty, Swinging, Trending
from croupier.simulation.levelled import Beta, ClippedGaussian, Ratings
from croupier.simulation.prices import price, prices
from croupier.simulation.reporting import Delayed, Silent
from croupier.simulation.runner import Run, simulate
from croupier.simulation.world_names import WORLDS, world
from croupier.simulation.worlds import Bernoulli, Changing, Drifting, World, checked_means, uniform_means

__all__ = [
    "ALL_POLICIES",
    "WORLDS",
    "Bernoulli",
    "Beta",
    "Changing",
    "ClippedGaussian",
    "Delayed",
    "Drifting",
    "Novelty",
    "Ratings",
    "Run",
    "Silent",
    "Swinging",
    "Trending",
    "World",
    "checked_means",
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
