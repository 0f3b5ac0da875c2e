"""Every world by name, made from its arms' means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from croupier.checks import CroupierError, by_name
from croupier.registry import Registry, described
from croupier.simulation.drift import Novelty, Swinging, Trending
from croupier.simulation.levelled import Beta, ClippedGaussian
from croupier.simulation.worlds import Bernoulli, Drifting, World

_OWN: dict[str, Callable[[Any], World]] = {
    "bernoulli": Bernoulli,
    "gaussian": ClippedGaussian,
    "beta": Beta,
    "drifting": Drifting,
    "swinging": Swinging,
    "trending": Trending,
    "novelty": Novelty,
}

WORLDS: Registry[Callable[[Any], World]] = Registry(
    "world",
    "croupier.worlds",
    _OWN,
    lambda thing, _: None if callable(thing) else "a World, or a function that makes one of means",
)
"""Worlds made from means (for clipped Gaussians: from centres)."""


@by_name
def world(name: str, means: ArrayLike) -> World:
    """Make a world by its name in `WORLDS`, as the command line does.

    Parameters
    ----------
    name : as in `--world`: one of croupier's own, or an installed one.
    means : every arm's mean, or one row of them for each run.

    Examples
    --------
    >>> world("bernoulli", [0.3, 0.5])
    Bernoulli([0.3 0.5])
    """
    make = WORLDS.find(name)
    try:
        built = make(means)
    except CroupierError:
        raise
    except Exception as error:
        raise CroupierError(f"world {name!r} cannot be made of means: {described(error)}") from error
    if not isinstance(built, World):
        raise CroupierError(f"world {name!r} makes {type(built).__name__}, not a World")
    return built
