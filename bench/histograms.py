"""Histograms and selections with every user's exact noise, against bare NumPy; how their cost grows."""

from __future__ import annotations

import numpy as np

from bench.measure import heading, line, megabytes, seconds
from croupier.noise import secure
from croupier.protocols import HistogramMechanism, Numbers, histogram, selection


def planned(users: int, items: int, **options: str) -> HistogramMechanism:
    """A tight histogram at ε = 1 (and δ = 1e-6 where there is one)."""
    return histogram(epsilon=1.0, universe=Numbers(items), **options).plan(users)  # type: ignore[arg-type]


def batch(users: int, items: int) -> np.ndarray:
    """One item for every user, a few of them far more popular than the rest."""
    return (np.random.default_rng(1).random(users) ** 4 * items).astype(np.int64)


def whole_way(mechanism: HistogramMechanism, items: np.ndarray) -> object:
    """Every device's report, the shuffler's count, the analyzer's reading."""
    return mechanism.analyze(mechanism.collect(mechanism.randomize_all(items, secure())))


def bare(mechanism: HistogramMechanism, items: np.ndarray) -> np.ndarray:
    """As many messages of an inexact generator, drawn and counted: what NumPy alone needs."""
    generator = np.random.default_rng(1)
    extra = generator.poisson(mechanism.messages_per_user - 1.0, len(items))
    labels = generator.integers(0, mechanism.size, int(extra.sum()))
    return np.bincount(np.concatenate((items, labels)), minlength=mechanism.size)


def main() -> None:
    """Print the lines."""
    heading("A shuffled histogram of 10⁶ users over 10⁵ items, every device's noise exact (aim: below 10 s)")
    mechanism, items = planned(10**6, 10**5), batch(10**6, 10**5)
    ceiling = seconds(lambda: bare(mechanism, items), 3)
    for name, call in (
        ("every report made, sorted, collected, read", lambda: whole_way(mechanism, items)),
        ("the same, counted as it is made", lambda: mechanism.run(items, secure())),
    ):
        took = seconds(call, 2)
        line(name, f"{took:.2f} s", f"{took / ceiling:.1f} × bare NumPy")
    sent = mechanism.messages_per_user * mechanism.users
    reports = mechanism.randomize_all(items, secure())
    counting = seconds(lambda: np.bincount(reports.labels, minlength=mechanism.size), 3)
    line("np.bincount of the same messages", f"{counting:.3f} s", f"{sent / 1e6:.1f} M messages")
    heading("A selection among 2²⁰ items by 10⁴ users (aim: below 5 s)")
    votes = batch(10**4, 2**20)
    for model in ("shuffle", "local", "central", "central-pure"):
        chosen = selection(epsilon=1.0, size=2**20, model=model).plan(10**4)
        took = seconds(lambda m=chosen: m.run(votes, secure()), 2)
        line(model, f"{took:.2f} s", f"{chosen.messages_per_user:,.0f} messages a user")
    heading("Growth with the users (10⁴ items): what a user costs falls to a constant")
    for users in (10**4, 10**5, 10**6):
        _growth(users, 10**4)
    heading("Growth with the universe (10⁵ users): linear, as the messages are")
    for size in (10**3, 10**4, 10**5, 10**6):
        _growth(10**5, size)


def _growth(users: int, size: int) -> None:
    items = batch(users, size)
    parts = []
    for model in ("shuffle", "local", "central"):
        mechanism = planned(users, size, model=model)
        mechanism.run(items, secure())  # tables once
        parts.append(f"{model} {seconds(lambda m=mechanism: m.run(items, secure()), 2) * 1e3:.0f} ms")
    shuffled = planned(users, size)
    peak = megabytes(lambda: shuffled.run(items, secure()))
    simulated = seconds(lambda: shuffled.simulate(np.bincount(items, minlength=size), secure()), 2)
    line(f"{users:,} users, {size:,} items", *parts, f"law {simulated * 1e3:.1f} ms", f"{peak:.0f} MB")
