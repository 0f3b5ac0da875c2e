"""The concurrent shuffle model and counters under continual observation ([TKMS23])."""

from croupier.continual.counter import Counter
from croupier.continual.deviation import gaussian_deviation
from croupier.continual.lower_bound import (
    large_batch,
    lower_bound_delta,
    lower_bound_users,
    repetition_length,
    secrecy,
)
from croupier.continual.plan import CounterPlan
from croupier.continual.planning import SMALLEST, best_counter, counter, tight_levels
from croupier.continual.shufflers import Batch, ConcurrentShufflers
from croupier.continual.tree import Tree, Weights, binary_tree, prefixes, shuffler_tree

__all__ = [
    "SMALLEST",
    "Batch",
    "ConcurrentShufflers",
    "Counter",
    "CounterPlan",
    "Tree",
    "Weights",
    "best_counter",
    "binary_tree",
    "counter",
    "gaussian_deviation",
    "large_batch",
    "lower_bound_delta",
    "lower_bound_users",
    "prefixes",
    "repetition_length",
    "secrecy",
    "shuffler_tree",
    "tight_levels",
]
