"""Private linear contextual bandits over continual sums ([TKMS23] Alg. 4)."""

from croupier.linear.bandit import LinearPlan, LinearServer, linear_bandit, sequential_linear_bandit
from croupier.linear.ellipsoid import Confidence, NoiseBounds, Rule, confidence
from croupier.linear.features import blocks, with_constant
from croupier.linear.statistics import DIAMETER, SCALE, moments, statistics, statistics_dimension

__all__ = [
    "DIAMETER",
    "SCALE",
    "Confidence",
    "LinearPlan",
    "LinearServer",
    "NoiseBounds",
    "Rule",
    "blocks",
    "confidence",
    "linear_bandit",
    "moments",
    "sequential_linear_bandit",
    "statistics",
    "statistics_dimension",
    "with_constant",
]
