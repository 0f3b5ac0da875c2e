"""Every registered policy, and the reference ones that only simulations know."""

from typing import Any

from croupier.bandits import POLICIES, Concurrent, Policy
from croupier.protocols import ROWS
from croupier.simulation import ALL_POLICIES, simulated_policy

NAMES = tuple(ALL_POLICIES)
PRIVATE = tuple(name for name in NAMES if ALL_POLICIES[name].notion != "none")
EVERY = [
    (name, constants)
    for name in NAMES
    for constants in (("published", "tight") if ALL_POLICIES[name].protocol else (None,))
]
"""With both constants, where the policy's sums have any."""

PUBLISHED = [name for name, entry in POLICIES.items() if entry.protocol is not None and not entry.tight_only]
PLAIN = [name for name, entry in POLICIES.items() if entry.protocol is None]
"""Baselines without privacy."""
TAKES_NOISE = ["elimination"]
"""Of these, the one whose bounds count noise when a protocol is named."""
SHOWS_NOISE = ["ucb1", "thompson", "uniform"]
"""Those that play as if there were none, and whose intervals count it."""
IN_BLOCKS = [name for name, entry in POLICIES.items() if entry.in_blocks]
OVER_ANY = [name for name in POLICIES if name not in PLAIN or name in TAKES_NOISE]
"""All that can do with noisy sums."""

SUMS = [name for name, row in ROWS.items() if not row.vectors]
"""Protocols that carry a policy's sums."""
FEW_SUMS = ("laplace", "discrete-gaussian", "counted-messages")
"""Of these, noise with heavy tails, with light ones, and of a mean that is not zero."""
SHARED = [name for name in SUMS if "two-servers" in ROWS[name].instead]
"""Those that also do so in shares between two servers."""


def make(name: str, constants: str | None = None, **options: Any) -> Policy:
    """A policy on three arms over 20,000 users."""
    settings = {"arms": 3, "horizon": 20_000, "runs": 5, "binary": True, **privacy(name, **options)}
    return undecided(simulated_policy(name, constants=constants, **settings))


def privacy(name: str, **options: Any) -> dict[str, Any]:
    """The options, with an ε where the policy is private."""
    return ({"epsilon": 0.8} if name in PRIVATE or "protocol_name" in options else {}) | options


def undecided(policy: Policy) -> Policy:
    """The same, but playing until its horizon whatever it could claim."""
    if isinstance(policy, Concurrent):
        policy.may_decide = False
    return policy
