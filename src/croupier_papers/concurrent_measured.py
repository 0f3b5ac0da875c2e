"""How the error of a counter is measured for [TKMS23]'s figures: the root mean square over runs at the worst time.

Which time that is follows from the plan and the stream, so it is known before anything runs, and the error is measured
there. The largest of the errors measured at all times would be biased upwards, and the more so the longer the stream.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from croupier.continual import CounterPlan
from croupier.noise import seeded
from croupier.privacy import gaussian_scale
from croupier.simulation.counting import CountingError, TreeSum, mean_squares
from croupier.simulation.reference_sums import SquareRoot
from croupier.simulation.streams import Floats
from croupier_papers.experiment import Body, Task

CENTRAL = "central square root"


def worst_moment(plan: CounterPlan, values: Floats) -> tuple[int, float]:
    """After how many users of a stream the root mean square error is largest, and that error, exactly."""
    squares = mean_squares(plan, values)
    moment = int(np.argmax(squares))
    return moment + 1, float(np.sqrt(squares[moment]))


def measure_counter(plan: CounterPlan, values: Floats, runs: int, seed: int, tell: Callable[[], None]) -> Body:
    """Run a counter up to its worst moment, again and again."""
    (moment, exact), source = worst_moment(plan, values), seeded(seed)
    error = CountingError.measure(lambda run: TreeSum(plan, source), values[:moment], runs, tell)
    return _row(error, exact, plan.noise_std)


def measure_central(
    values: Floats, runs: int, seed: int, tell: Callable[[], None], *, epsilon: float, delta: float
) -> Body:
    """The square-root factorization of a trusted server: its variance S_n S_t σ² is largest at the end."""
    central = SquareRoot(len(values), seeded(seed), epsilon=epsilon, delta=delta)
    factors = np.cumprod(1.0 - 0.5 / np.arange(1, len(values)))
    exact = (1.0 + float(np.square(factors).sum())) * gaussian_scale(epsilon, delta)
    return _row(CountingError.measure(lambda run: central, values, runs, tell), exact, exact)


def _row(error: CountingError, exact: float, noise_std: float) -> Body:
    return {
        "rms_error": error.rms_error_last,
        "exact": exact,
        "noise_std": noise_std,
        "rms_error_largest_over_time": error.rms_error_largest,
        "largest_error": error.max_error_mean,
    }


def teller(task: Task, part: float) -> Callable[[], None]:
    """Tells that so much was done, whenever it is called."""
    return lambda: task.progress(part)
