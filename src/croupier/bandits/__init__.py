"""Policies: programs that choose arms from noisy sums of batches, and never see a reward.

`POLICIES` lists them; `policy(name, ...)` makes one. A new one is an `Entry` and, where it is new in kind, a class.
"""

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.catalogue import POLICIES
from croupier.bandits.concurrent import Concurrent
from croupier.bandits.elimination import Elimination, SubExponentialRadius, SubGaussianRadius
from croupier.bandits.entry import Entry, Request
from croupier.bandits.in_blocks import (
    ConcurrentElimination,
    ConcurrentIMED,
    ConcurrentIndex,
    ConcurrentKLUCB,
    TopTwo,
)
from croupier.bandits.index import IMED, KLUCB, UCB1, IndexPolicy
from croupier.bandits.making import policy
from croupier.bandits.metrics import Metric, Metrics
from croupier.bandits.policy import Policy
from croupier.bandits.regret_bounds import (
    sdp_ae_batch,
    sdp_ae_minimax,
    sdp_ae_regret,
    shuffled_bits_sigma,
    vb_sdp_ae_minimax,
    vb_sdp_ae_regret,
)
from croupier.bandits.split import Split
from croupier.bandits.terms import Terms
from croupier.bandits.thompson import Thompson, Uniform

__all__ = [
    "IMED",
    "KLUCB",
    "POLICIES",
    "UCB1",
    "Concurrent",
    "ConcurrentElimination",
    "ConcurrentIMED",
    "ConcurrentIndex",
    "ConcurrentKLUCB",
    "Elimination",
    "Entry",
    "IndexPolicy",
    "Ladder",
    "Metric",
    "Metrics",
    "Policy",
    "Request",
    "Split",
    "SubExponentialRadius",
    "SubGaussianRadius",
    "Terms",
    "Thompson",
    "TopTwo",
    "Uniform",
    "policy",
    "sdp_ae_batch",
    "sdp_ae_minimax",
    "sdp_ae_regret",
    "shuffled_bits_sigma",
    "vb_sdp_ae_minimax",
    "vb_sdp_ae_regret",
]
