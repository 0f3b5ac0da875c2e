"""Worlds for linear bandits from CSV files: a log of who was given what and how it went, or rows with a right answer.

A log says how one action went for each row. For the other actions a row stands in with those of its nearest rows that
were given them. That is right where actions were given at random, and no linear parameter need be true of it.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, did_you_mean, integer
from croupier.personal import Context, Feature
from croupier.simulation.data import Anywhere, _read
from croupier.simulation.linear_worlds import Table

Floats = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float]]
Row = tuple[int, list[str]]
"""A line's number, and its cells."""

NEIGHBOURS = 20
"""Rows that tell how an action would go for a row, itself included where it was given that action."""

MOST_ROWS = 20_000
"""Of longer files so many are drawn, always the same: every row is compared with every other."""

SEED = 0

CHUNK = 500
"""Rows that are compared at once."""


def logged_world(
    path: Anywhere,
    *,
    action: str,
    reward: str,
    features: Sequence[str] | None = None,
    ranges: Ranges | None = None,
    neighbours: int = NEIGHBOURS,
) -> Table:
    """The world of a log: a column of actions, one of rewards from 0 to 1, and features that are numbers.

    Ranges that are not given are the file's own. A live experiment has to name them beforehand.
    """
    names, table, (actions, rewards) = _columns(path, features, action, reward)
    given = sorted(set(actions))
    if len(given) < 2:
        raise CroupierError(f"{path}: column {action} holds {given[0]!r} alone; two actions are needed")
    earned = _numbers(path, reward, rewards)
    if not ((earned >= 0.0) & (earned <= 1.0)).all():
        line = int(np.argmin((earned >= 0.0) & (earned <= 1.0))) + 2
        raise CroupierError(f"{path}, line {line}, column {reward}: {earned[line - 2]:g} is not a number in [0, 1]")
    context = _context(path, names, table, ranges)
    described, taken = context.rows(table), np.asarray(actions)
    integer("neighbours", neighbours, 1)
    means = np.column_stack([_imputed(described, taken == name, earned, neighbours) for name in given])
    return Table(context, table, means, given, Path(path).name)


def labelled_world(
    path: Anywhere, *, label: str, features: Sequence[str] | None = None, ranges: Ranges | None = None
) -> Table:
    """The world of a table whose rows have a right answer: it earns 1, and any other 0."""
    names, table, (labels,) = _columns(path, features, label)
    given = sorted(set(labels))
    if len(given) < 2:
        raise CroupierError(f"{path}: column {label} holds {given[0]!r} alone; two actions are needed")
    means = np.asarray([[float(own == name) for name in given] for own in labels])
    return Table(_context(path, names, table, ranges), table, means, given, Path(path).name)


def _columns(
    path: Anywhere, features: Sequence[str] | None, *others: str
) -> tuple[tuple[str, ...], Floats, list[list[str]]]:
    """The features by name and as a table, and the other columns as text."""
    with _read(Path(path)) as (stream, _):
        reader = csv.reader(TextIOWrapper(stream, "utf-8-sig", newline=""))
        try:
            header = next(reader, [])
            wanted = _wanted(path, header, features, others)
            kept = _sample(_rows(path, reader, len(header)))
        except (csv.Error, UnicodeDecodeError) as error:
            raise CroupierError(f"{path}, after line {reader.line_num}: not CSV text: {error}") from None
    if len(kept) < 2:
        raise CroupierError(f"{path}: {len(kept)} rows; at least two are needed")
    texts = {name: [row[header.index(name)].strip() for _, row in kept] for name in (*others, *wanted)}
    for name in others:
        if "" in texts[name]:
            raise CroupierError(f"{path}, line {kept[texts[name].index('')][0]}, column {name}: nothing is there")
    table = np.column_stack([_numbers(path, name, texts[name], [line for line, _ in kept]) for name in wanted])
    return tuple(wanted), table, [texts[name] for name in others]


def _wanted(path: Anywhere, header: list[str], features: Sequence[str] | None, others: Sequence[str]) -> list[str]:
    """The columns that describe a user."""
    wanted = [name for name in header if name not in others] if features is None else list(features)
    for name in (*others, *wanted):
        if name not in header:
            known = ", ".join(header) or "none: the file is empty"
            raise InvalidParameter("column", name, f"one of {path}, which has {known}{did_you_mean(name, header)}")
    if not wanted or set(wanted) & set(others) or len(set(wanted)) < len(wanted):
        raise InvalidParameter("features", wanted, "other columns than those of actions and rewards, each once")
    return wanted


def _rows(path: Anywhere, reader: Any, columns: int) -> Iterator[Row]:
    """Line by line, each with its number; a row with other cells than columns is refused."""
    for row in reader:
        if row and len(row) != columns:
            raise CroupierError(f"{path}, line {reader.line_num}: {len(row)} cells under {columns} columns")
        if row:
            yield reader.line_num, row


def _sample(rows: Iterable[Row]) -> list[Row]:
    """All rows in order, or of very many `MOST_ROWS`, each set of rows as likely; no more are ever held.

    Every hundredth row would not do: files have their own rhythm, such as actions in turn.
    """
    kept: list[Row] = []
    draw = random.Random(SEED)
    for place, row in enumerate(rows):
        if place < MOST_ROWS:
            kept.append(row)
        elif (other := draw.randrange(place + 1)) < MOST_ROWS:
            kept[other] = row
    return sorted(kept)


def _numbers(path: Anywhere, name: str, texts: list[str], lines: list[int] | None = None) -> Floats:
    found = np.empty(len(texts))
    for place, text in enumerate(texts):
        try:
            found[place] = float(text)
        except ValueError:
            found[place] = math.nan
        if not math.isfinite(found[place]):
            line = place + 2 if lines is None else lines[place]
            missing = "nothing" if not text else repr(text)
            raise CroupierError(f"{path}, line {line}, column {name}: {missing} is there, and not a number")
    return found


def _context(path: Anywhere, names: Sequence[str], table: Floats, ranges: Ranges | None) -> Context:
    """The features with their ranges; a value outside a given one is moved to its end, as a device would."""
    given = dict(ranges or {})
    for name in given:
        if name not in names:
            raise InvalidParameter("range", name, f"a feature: {', '.join(names)}{did_you_mean(name, names)}")
    features = []
    for name, column in zip(names, table.T, strict=True):
        low, high = given.get(name, (float(column.min()), float(column.max())))
        if not low < high:
            raise CroupierError(f"{path}: column {name} is {low:g} throughout: give its range, or leave it out")
        features.append(Feature(name, low, high))
    return Context(tuple(features), clip=True)


def _imputed(described: Floats, own: NDArray[np.bool_], earned: Floats, neighbours: int) -> Floats:
    """How an action goes for every row: the mean of its nearest rows among those that were given it."""
    given, rewards = described[own], earned[own]
    count = min(neighbours, len(given))
    squares = np.einsum("ij,ij->i", given, given)
    means = np.empty(len(described))
    for start in range(0, len(described), CHUNK):
        part = described[start : start + CHUNK]
        distances = squares - 2.0 * part @ given.T
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        means[start : start + CHUNK] = rewards[nearest].mean(axis=1)
    return means
