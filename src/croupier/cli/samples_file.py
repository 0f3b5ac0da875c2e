"""Users' labelled samples from a CSV file: a row is a sample, one column says whose it is, one what it is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from croupier.checks import CroupierError, InvalidParameter, did_you_mean
from croupier.learning import Samples
from croupier.learning.samples import Floats


@dataclass(frozen=True)
class Table:
    """What a file holds: the names of its features, and the samples with features in their public ranges."""

    features: tuple[str, ...]
    samples: Samples


def read(path: str, *, user: str, label: str, features: Sequence[str] | None, labels: tuple[str, str]) -> Table:
    """The rows of a file; every feature must be a number, and every label one of the two public ones, no and yes."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CroupierError(f"data = {path!r} could not be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CroupierError(f"data = {path!r} is not UTF-8 text") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = list(reader.fieldnames or [])
        chosen = _features(names, user, label, features)
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise CroupierError(f"{path}, line {reader.line_num}: is not CSV ({error})") from None
    if not rows:
        raise CroupierError(f"data = {path!r} holds a header at most, and no sample")
    users, answers = [], []
    table = np.empty((len(rows), len(chosen)))
    for place, (line, row) in enumerate(rows):
        where = f"{path}, line {line}"
        if None in row or None in row.values():
            raise CroupierError(f"{where}: has {_width(row)} values, where the header has {len(names)}")
        if not row[user].strip():
            raise CroupierError(f"{where}: {user} = '' is not allowed: it must name a user")
        if row[label].strip() not in labels:
            allowed = f"it must be {labels[0]!r} (no) or {labels[1]!r} (yes); --labels NO,YES names others"
            raise CroupierError(f"{where}: {label} = {row[label].strip()!r} is not allowed: {allowed}")
        users.append(row[user].strip())
        answers.append(row[label].strip() == labels[1])
        table[place] = [_number(where, name, row[name]) for name in chosen]
    return Table(tuple(chosen), Samples.of(table, answers, groups=users))


def _features(names: list[str], user: str, label: str, wanted: Sequence[str] | None) -> list[str]:
    """The columns to learn from: those asked for, or all that are neither the user nor the label."""
    for option, name in (
        ("user_column", user),
        ("label_column", label),
        *(("features", name) for name in wanted or ()),
    ):
        if name not in names:
            known = ", ".join(names) or "none: the file is empty"
            raise InvalidParameter(option, name, f"a column of the file, which has {known}{did_you_mean(name, names)}")
    if user == label:
        raise InvalidParameter("label_column", label, "another column than that of the users")
    chosen = list(wanted) if wanted is not None else [name for name in names if name not in (user, label)]
    if not chosen or {user, label} & set(chosen) or len(set(chosen)) < len(chosen):
        raise InvalidParameter("features", chosen, "columns besides the user's and the label's, each once")
    return chosen


def _width(row: dict[str, str]) -> int:
    """How many values a line has that does not fit its header."""
    extra = row.get(None, [])  # type: ignore[call-overload]
    return sum(value is not None for name, value in row.items() if name is not None) + len(extra)


def _number(where: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        advice = "categories are not read: write one column of 0 and 1 for each, or leave it out by --features"
        raise CroupierError(f"{where}: {name} = {text.strip()!r} is not allowed: it must be a number ({advice})")
    return value


def ranges(given: Sequence[str], features: Sequence[str], low: float, high: float) -> Floats:
    """The public range of every feature: NAME=LOW:HIGH where it is given, else the common one."""
    found = dict.fromkeys(features, (low, high))
    for text in given:
        name, _, ends = text.rpartition("=")
        parts = ends.split(":")
        try:
            found_range = (float(parts[0]), float(parts[1])) if len(parts) == 2 else (math.nan, math.nan)
        except ValueError:
            found_range = (math.nan, math.nan)
        if name not in found or not all(map(math.isfinite, found_range)):
            meant = "" if name in found else did_you_mean(name, features)
            raise InvalidParameter("range", text, f"NAME=LOW:HIGH with NAME one of {', '.join(features)}{meant}")
        found[name] = found_range
    for name, (bottom, top) in found.items():
        if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
            raise InvalidParameter("range", f"{name}={bottom:g}:{top:g}", "NAME=LOW:HIGH with LOW below HIGH")
    return np.asarray([found[name] for name in features])
