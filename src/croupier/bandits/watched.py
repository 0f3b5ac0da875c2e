"""The metrics beside the primary one: evidence about each, block after block, and what it says of guardrails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from croupier.bandits.batch_sizes import Ladder
from croupier.bandits.metrics import Metric, Metrics
from croupier.bandits.policy import Bools, Integers
from croupier.checks import InvalidParameter
from croupier.comparisons.bets import stakes
from croupier.comparisons.claims import Levels
from croupier.comparisons.comparison import Comparison
from croupier.comparisons.guardrails import Guarded, guarded
from croupier.comparisons.tails import Floats


class Watched:
    """What is known of the metrics that do not decide; there may be none of them.

    Parameters
    ----------
    metrics : all metrics, or None where the reward is the only one.
    arms, runs : how many.
    ladder : of the primary metric's batches; the others are in the same ones.
    typical : users in a typical batch: bets are chosen for it.
    reserve : how likely it may be that some sum of a metric has wrapped around.
    """

    def __init__(
        self, metrics: Metrics | None, arms: int, runs: int, ladder: Ladder, typical: int, reserve: float
    ) -> None:
        self.metrics = metrics
        self.others: tuple[Metric, ...] = () if metrics is None else metrics.others
        self.arms, self.runs = arms, runs
        protocols = () if metrics is None else metrics.protocols[1:]
        self.ladders = [Ladder(protocol, ladder.first, ladder.growth) for protocol in protocols]
        self.comparisons = [
            Comparison(
                arms,
                runs,
                stakes(own.cumulants(typical), typical, metric.unit_margin, metric.unit_rate),
                own.cumulants,
                metric.unit_rate,
                reserve,
            )
            for metric, own in zip(self.others, self.ladders, strict=True)
        ]

        self.harmed: Bools = np.zeros((runs, arms, self.guardrails), dtype=bool)
        """The guardrails for which each arm was taken out."""

    @property
    def guards(self) -> tuple[Metric, ...]:
        """The guardrails among the metrics."""
        return tuple(metric for metric in self.others if metric.guards)

    @property
    def guardrails(self) -> int:
        return len(self.guards)

    def tell(self, sums: Floats | None, counts: Integers, released: Bools) -> None:
        """One more block: the sums of the other metrics mapped to [0, 1], the metrics on the last axis."""
        due = (*counts.shape, len(self.others))
        if (0 if sums is None else sums.shape[-1]) != len(self.others):
            raise InvalidParameter("beside", None if sums is None else sums.shape, f"sums of shape {due}")
        for place, comparison in enumerate(self.comparisons):
            assert sums is not None
            comparison.tell(sums[..., place], counts, released)

    def guarded(self, levels: Levels, control: int) -> list[Guarded]:
        """What may be said of each guardrail."""
        return [
            guarded(comparison, levels, control, metric.unit_margin, higher_is_better=metric.better == "higher")
            for metric, comparison in zip(self.others, self.comparisons, strict=True)
            if metric.unit_margin is not None
        ]

    def safe(self, states: Sequence[Guarded]) -> Bools:
        """Which arms are safe in every guardrail."""
        every = np.ones((self.runs, self.arms), dtype=bool)
        return np.asarray(np.logical_and.reduce([every, *(state.safe for state in states)]))

    def take_out(self, states: Sequence[Guarded], among: Bools) -> Bools:
        """Note which arms among these are shown to harm a guardrail, and return them."""
        harmed = np.stack([state.harmed & among for state in states], axis=-1) if states else self.harmed & False
        self.harmed = self.harmed | harmed
        return np.asarray(harmed.any(axis=-1))

    @property
    def out(self) -> Bools:
        """The arms that were taken out."""
        return np.asarray(self.harmed.any(axis=-1))

    def harms(self, run: int = 0) -> tuple[tuple[int, str], ...]:
        """The arms of a run that were taken out, and why."""
        places = np.argwhere(self.harmed[run]).tolist()
        return tuple((arm, self.guards[guard].name) for arm, guard in places)

    def violated(self, means: Sequence[Floats], control: int) -> Bools:
        """Which arms are truly worse than the control by the margin or more, from the true means of all others."""
        found = np.zeros((self.runs, self.arms), dtype=bool)
        for metric, mean in zip(self.others, means, strict=True):
            if metric.unit_margin is not None:
                table = np.broadcast_to(mean, found.shape)
                worse = (table[:, [control]] - table) * (1.0 if metric.better == "higher" else -1.0)
                found |= worse >= metric.unit_margin - 1e-12
        return found

    def rows(self, primary: Comparison, levels: Levels, control: int, run: int = 0) -> list[dict[str, Any]]:
        """Every metric of every arm against the control, in the metric's own unit, a row each.

        An interval holds at every look and for all arms of its metric together; it is not corrected for there being
        several metrics.
        """
        if self.metrics is None:
            return []
        guards = zip(self.guards, self.guarded(levels, control), strict=True)
        states = {metric.name: state for metric, state in guards}
        rows = []
        for metric, comparison in zip(self.metrics, (primary, *self.comparisons), strict=True):
            lower, upper = comparison.intervals(levels.pair)
            for arm in range(self.arms):
                if arm != control:
                    ran = comparison.weight[run, arm, control] > 0
                    tables = (comparison.differences, lower, upper)
                    ends = [float(metric.span * each[run, arm, control]) if ran else None for each in tables]
                    rows.append(_row(metric, arm, control, ends, states.get(metric.name), run))
        return rows

    def add_arm(self) -> None:
        for comparison in self.comparisons:
            comparison.add_arm()
        self.harmed = np.pad(self.harmed, ((0, 0), (0, 1), (0, 0)))
        self.arms += 1


def _row(
    metric: Metric, arm: int, control: int, ends: list[float | None], state: Guarded | None, run: int
) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "role": metric.role,
        "arm": arm,
        "control": control,
        **dict(zip(("difference", "lower", "upper"), ends, strict=True)),
        "better": metric.better,
        "margin": metric.margin,
        "state": None if state is None else state.state(run, arm),
    }
