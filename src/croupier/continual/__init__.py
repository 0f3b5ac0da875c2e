"""The concurrent shuffle model and counters under continual observation (002)."""

from croupier.continual.counter import Counter, CounterPlan
from croupier.continual.planning import best_counter, counter, tight_levels
from croupier.continual.shufflers import Abandoned, Activated, Arrived, Batch, ConcurrentShufflers, Released
from croupier.continual.tree import Tree, Weights, binary_tree, prefixes, shuffler_tree

__all__ = [
    "Abandoned",
    "Activated",
    "Arrived",
    "Batch",
    "ConcurrentShufflers",
    "Counter",
    "CounterPlan",
    "Released",
    "Tree",
    "Weights",
    "best_counter",
    "binary_tree",
    "counter",
    "prefixes",
    "shuffler_tree",
    "tight_levels",
]
