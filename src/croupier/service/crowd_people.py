"""Who the simulated users of a personalised experiment are: a context each, and what every action is worth to them."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from croupier.checks import CroupierError
from croupier.messages.configuration import Configuration
from croupier.personal import Personal
from croupier.simulation.linear_data import logged_world

Person = tuple[Mapping[str, object], Sequence[float]]

SLOPE = 0.4
"""How much, at most, a feature makes an action better or worse than one in two, where no table says."""


def people(configuration: Configuration, data: str = "") -> Callable[[random.Random], Person]:
    """Who comes next: a row of a table, or somebody with features anywhere in their ranges."""
    personal = Personal.read(configuration.program)
    return _rows(personal, data) if data else _anybody(personal)


def _anybody(personal: Personal) -> Callable[[random.Random], Person]:
    """Action k is better for who has more of feature k, and the next round of actions for who has less."""
    features = personal.context.features

    def comes(rng: random.Random) -> Person:
        places = [rng.uniform(-1.0, 1.0) for _ in features]
        context = {
            one.name: one.low + (one.high - one.low) * (1.0 + place) / 2.0
            for one, place in zip(features, places, strict=True)
        }
        m = len(places)
        means = [0.5 + (-1) ** (k // m) * SLOPE * places[k % m] if m else 0.5 for k in range(len(personal.actions))]
        return context, means

    return comes


def _rows(personal: Personal, path: str) -> Callable[[random.Random], Person]:
    """The rows of a log, with a column of actions and one of rewards beside the features."""
    action, reward = _others(personal, path)
    features = personal.context.features
    ranges = {one.name: (float(one.low), float(one.high)) for one in features}
    world = logged_world(path, action=action, reward=reward, features=personal.context.names, ranges=ranges)
    values = personal.context.values(world.rows[:, :-1]).tolist()
    means = world.means[:, [world.names.index(name) for name in personal.actions]].tolist()

    def comes(rng: random.Random) -> Person:
        row = rng.randrange(len(values))
        inside = (min(max(x, one.low), one.high) for x, one in zip(values[row], features, strict=True))
        return dict(zip(personal.context.names, inside, strict=True)), means[row]

    return comes


def _others(personal: Personal, path: str) -> tuple[str, str]:
    """The columns of actions and rewards: the one that names the experiment's actions, and the one that is left."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            left = [name for name in reader.fieldnames or () if name not in personal.context.names]
            said: dict[str, set[str]] = {name: set() for name in left}
            for row in reader:
                for name, words in said.items():
                    # One word too many, and the column names no actions: no more of them are kept.
                    if len(words) <= len(personal.actions):
                        words.add(row[name])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CroupierError(f"{path} cannot be read: {error}") from None
    named = [name for name, words in said.items() if words == {*personal.actions}]
    if len(left) != 2 or len(named) != 1:
        names, wanted = ", ".join(personal.context.names), f"one of {', '.join(personal.actions)} and one of rewards"
        raise CroupierError(f"{path} has the columns {', '.join(left) or 'none'} beside {names}: it needs {wanted}")
    return named[0], next(name for name in left if name != named[0])
