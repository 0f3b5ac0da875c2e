"""Valid reports: Prio3, which proves to two servers that a value in shares is in range, and shows neither the value.

A device needs `prio3_count` and its kin, without NumPy; a server needs `Verifier` too, which is loaded when it is asked
for.
"""

from typing import TYPE_CHECKING, Any

from croupier.validity.prio3 import (
    Prio3,
    Sizes,
    prio3_count,
    prio3_histogram,
    prio3_number,
    prio3_ranges,
    prio3_sum,
    prio3_sum_vec,
)

if TYPE_CHECKING:
    from croupier.validity.groups import Prepared, Verified, Verifier, shard_group
    from croupier.validity.verdicts import Refusal

__all__ = [
    "Prepared",
    "Prio3",
    "Refusal",
    "Sizes",
    "Verified",
    "Verifier",
    "prio3_count",
    "prio3_histogram",
    "prio3_number",
    "prio3_ranges",
    "prio3_sum",
    "prio3_sum_vec",
    "shard_group",
]


def __getattr__(name: str) -> Any:
    """What a server needs."""
    if name in __all__:
        from croupier.validity import groups

        return getattr(groups, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
