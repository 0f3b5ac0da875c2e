"""Composing exact losses: time and the gap between the two sides of the error; dp-accounting beside it."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting.pld import privacy_loss_distribution as pld

from bench.calibration import forget
from bench.measure import heading, line, megabytes, seconds
from croupier.noise import Binomial, DiscreteGaussian
from croupier.privacy import Loss, privacy_loss


def report(what: str, build: Callable[[], Loss]) -> float:
    """Time ε and its bounds on fresh tables."""

    def work() -> tuple[float, float]:
        forget()
        return build().bounds(1e-6)

    took, (low, high) = seconds(work, 2), work()
    line(what, f"{took:.2f} s", f"ε = {high:.4f}", f"gap {high - low:.4f}", f"{megabytes(work):.0f} MB")
    return took


def main() -> None:
    """Print the lines."""
    heading("ε at δ = 1e-6 of composed releases (aim: a gap of 0.01 within 1 s)")
    for count in (10, 100, 1000, 10_000):
        ours = report(f"{count:,} equal, discrete Gaussian", lambda k=count: k * privacy_loss(DiscreteGaussian(k)))
    peer = seconds(
        lambda: (
            pld.from_discrete_gaussian_mechanism(100.0, 1, value_discretization_interval=1e-4)
            .self_compose(10_000)
            .get_epsilon_for_delta(1e-6)
        ),
        1,
    )
    line("dp-accounting, 10,000 equal, its default grid", f"{peer:.2f} s", f"{peer / ours:.2f} × ours")
    report("10,000 equal, fair bits", lambda: 10_000 * privacy_loss(Binomial(40_000, 0.5)))
    for count in (10, 100, 1000):
        report(
            f"{count:,} distinct, discrete Gaussian",
            lambda k=count: Loss.total(privacy_loss(DiscreteGaussian(k + i)) for i in range(k)),
        )
