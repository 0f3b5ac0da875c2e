"""Calibrating from exact losses."""

from __future__ import annotations

from bench.measure import heading, line, megabytes, seconds
from croupier.noise import Binomial, Noise, Poisson, Skellam, SparseBits, likelihoods, ratio
from croupier.privacy import calibrate


def forget() -> None:
    """Drop what earlier calls tabulated."""
    for cached in (likelihoods.directed_pair, likelihoods.worst_pair, ratio._ratio_window):
        cached.cache_clear()


def fresh(family: type[Noise], **target: float) -> Noise:
    """Calibrate with nothing remembered."""
    forget()
    return calibrate(family, **target)  # type: ignore[arg-type]


def main() -> None:
    """Print the lines."""
    heading("Calibrating shuffled bits at δ = 1e-6 (aim: below 0.1 s up to N = 10⁶)")
    for epsilon in (1.0, 0.1, 0.02, 0.006):
        found = fresh(Binomial, epsilon=epsilon, delta=1e-6)
        assert isinstance(found, Binomial)
        took = seconds(lambda e=epsilon: fresh(Binomial, epsilon=e, delta=1e-6), 3)
        peak = megabytes(lambda e=epsilon: fresh(Binomial, epsilon=e, delta=1e-6))
        line(f"ε = {epsilon}: N = {found.trials:,}", f"{took * 1e3:.1f} ms", f"{peak:.1f} MB")
    heading("Other families")
    for family, target in (
        (SparseBits, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 2, "users": 10**6}),
        (SparseBits, {"epsilon": 0.1, "delta": 1e-6, "sensitivity": 2, "users": 10**6}),
        (Poisson, {"epsilon": 0.5, "delta": 1e-6}),
        (Skellam, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 100}),
    ):
        took = seconds(lambda f=family, t=target: fresh(f, **t), 3)
        line(f"{family.__name__} {target}", f"{took * 1e3:.1f} ms")
