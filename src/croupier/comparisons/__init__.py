"""Evidence about differences between arms, valid at every look: what a decision can rest on.

`Comparison` is told block after block; `claim` says what follows, `Decision` in words, `Silence` who did not report.
"""

from croupier.comparisons.bets import Stakes, best_stake, stakes
from croupier.comparisons.claims import Claims, Levels, claim
from croupier.comparisons.comparison import Comparison
from croupier.comparisons.decision import KINDS, Decision
from croupier.comparisons.guardrails import Guarded, guarded
from croupier.comparisons.lift import ratio
from croupier.comparisons.silence import Silence, tipping_point

__all__ = [
    "KINDS",
    "Claims",
    "Comparison",
    "Decision",
    "Guarded",
    "Levels",
    "Silence",
    "Stakes",
    "best_stake",
    "claim",
    "guarded",
    "ratio",
    "stakes",
    "tipping_point",
]
