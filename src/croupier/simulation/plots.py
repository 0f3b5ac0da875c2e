"""Small figures for the command line: regret over time, users needed over ε, and experiments that conclude."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from croupier.checks import CroupierError
from croupier.simulation.forecasts import Wait
from croupier.simulation.runner import Run

LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""A palette that colour-blind readers can tell apart; line styles tell them apart in grey."""


def style(index: int) -> dict[str, Any]:
    """How a line is drawn: no two of 49 alike, since each round of the colours begins with another line.

    >>> [style(index)["color"] == style(0)["color"] for index in (0, 7)], style(7)["linestyle"]
    ([True, True], '--')
    """
    turn, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": LINES[(colour + turn) % len(LINES)]}


def new_figure(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    """A figure with one pair of axes, without any global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CroupierError("figures need matplotlib: install croupier[figures]") from None
    figure = Figure(figsize=(width, height), layout="constrained", dpi=200)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def save(figure: Any, path: str | Path) -> Path:
    """Write the figure, making its folder where it is missing."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    except (OSError, ValueError) as error:
        raise CroupierError(f"{path}: the figure could not be written ({error})") from None
    return target


def plot_regret(runs: Sequence[Run], path: str | Path, title: str = "") -> Path:
    """Mean cumulative regret over users, with 95 % bands over runs."""
    figure, axes = new_figure()
    for index, run in enumerate(runs):
        mean = run.curve.mean(axis=0)
        error = 1.96 * run.curve.std(axis=0) / np.sqrt(max(len(run.curve), 1))
        drawn = style(index)
        axes.plot(run.checkpoints, mean, label=run.policy.name, **drawn)
        axes.fill_between(run.checkpoints, mean - error, mean + error, color=drawn["color"], alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("cumulative regret (rewards)")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return save(figure, path)


def plot_curves(curves: dict[str, tuple[Any, Any]], path: str | Path, title: str = "") -> Path:
    """Mean cumulative regret over users of several models, with 95 % bands over runs."""
    figure, axes = new_figure()
    for index, (label, (users, regrets)) in enumerate(curves.items()):
        mean, error = regrets.mean(axis=0), 1.96 * regrets.std(axis=0) / np.sqrt(len(regrets))
        drawn = style(index)
        axes.plot(users, mean, label=label, **drawn)
        axes.fill_between(users, mean - error, mean + error, color=drawn["color"], alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("cumulative regret (rewards)")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return save(figure, path)


def plot_needs(epsilons: Sequence[float], curves: dict[str, list[float]], path: str | Path, title: str = "") -> Path:
    """Users needed over ε, one line a model."""
    figure, axes = new_figure()
    for index, (label, users) in enumerate(curves.items()):
        axes.plot(epsilons, users, marker="osD^v"[index % 5], markersize=4, label=label, **style(index))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("privacy parameter ε")
    axes.set_ylabel("users until the better arm is found")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return save(figure, path)


def plot_waits(waits: dict[str, Wait], path: str | Path, title: str = "") -> Path:
    """Which share of experiments has concluded, over users: one line a trust."""
    figure, axes = new_figure()
    for index, (label, wait) in enumerate(waits.items()):
        ended = wait.users[np.isfinite(wait.users)]
        if not ended.size:
            continue
        users = np.geomspace(ended.min(), ended.max(), 200)
        axes.plot(users, 100.0 * wait.share(users), label=label, **style(index))
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    axes.set_xlabel("users")
    axes.set_ylabel("experiments that have concluded (%)")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return save(figure, path)
