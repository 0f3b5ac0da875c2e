"""Private linear contextual bandits: batches that grow, and [TKMS23]'s trees of continual sums (Alg. 4)."""

from croupier.linear.ellipsoid import Confidence, confidence
from croupier.linear.ellipsoid import NoiseBounds as TreeNoiseBounds
from croupier.linear.findings import Findings
from croupier.linear.gains import Gain
from croupier.linear.growing import TUNED, GrowingPlan, first_batch, growing_bandit
from croupier.linear.noise_norms import largest_matrix, longest_vector
from croupier.linear.noise_sum import NoiseSum
from croupier.linear.norms import box_norm, described_norm, usual_norm
from croupier.linear.plan import LinearPlan, balanced_batch, linear_bandit, sequential_linear_bandit
from croupier.linear.server import LinearServer
from croupier.linear.sets import NoiseBounds, Sets
from croupier.linear.statistics import DIAMETER, SCALE, moments, statistics, statistics_dimension

__all__ = [
    "DIAMETER",
    "SCALE",
    "TUNED",
    "Confidence",
    "Findings",
    "Gain",
    "GrowingPlan",
    "LinearPlan",
    "LinearServer",
    "NoiseBounds",
    "NoiseSum",
    "Sets",
    "TreeNoiseBounds",
    "balanced_batch",
    "box_norm",
    "confidence",
    "described_norm",
    "first_batch",
    "growing_bandit",
    "largest_matrix",
    "linear_bandit",
    "longest_vector",
    "moments",
    "sequential_linear_bandit",
    "statistics",
    "statistics_dimension",
    "usual_norm",
]
