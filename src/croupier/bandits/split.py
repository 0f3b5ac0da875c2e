"""A plain A/B/n test: users are split by fixed shares."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.concurrent import Concurrent
from croupier.bandits.terms import Terms
from croupier.checks import InvalidParameter
from croupier.comparisons.tails import Floats


class Split(Concurrent):
    """An A/B/n test: odds that change only when they are told to. An arm that comes late gets the mean share."""

    reads: ClassVar[tuple[str, ...]] = ("decision", "shares")
    shares: Floats

    def __init__(self, arms: int, horizon: int | None, ladder: Ladder, terms: Terms, **more: Any) -> None:
        super().__init__(arms, horizon, ladder, terms, **more)
        self.shares = np.ones(arms) if terms.shares is None else np.asarray(terms.shares)
        if len(self.shares) != arms:
            raise InvalidParameter("shares", terms.shares, f"{arms} numbers, one an arm")

    def allocation(self) -> Floats:
        return np.broadcast_to(self.shares, (self.runs, self.arms))

    def split_anew(self, shares: Floats) -> None:
        if shares.shape != (self.arms,) or not (shares > 0).all():
            raise InvalidParameter("shares", shares.tolist(), f"{self.arms} positive numbers, one an arm")
        self.shares = shares

    def add_arm(self) -> int:
        self.shares = np.append(self.shares, self.shares.mean())
        return super().add_arm()
