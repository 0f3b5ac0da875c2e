"""Streams of values to count: coin tosses, constants, the hard ones of [TKMS23] section 4, and files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, between, did_you_mean, finite, integer
from croupier.continual import repetition_length

Floats = NDArray[np.float64]

KINDS = ("bernoulli", "constant", "hard")
NAMES = "bernoulli:P, constant:P, hard, or a file with one number a line"


def bernoulli_stream(users: int, rate: float, seed: int) -> Floats:
    """Independent ones with probability `rate`."""
    between("rate", rate, 0, 1, "[]")
    generator = np.random.default_rng(integer("seed", seed, 0))
    return (generator.random(integer("users", users, 1)) < rate).astype(np.float64)


def repetitions(users: int, shufflers: int, epsilon: float) -> int:
    """How often a bit repeats ([TKMS23] section 4): rep_{n,k}, rounded, and at least once."""
    return max(1, int(0.5 + repetition_length(users, integer("shufflers", shufflers, 1), epsilon)))


def hard_stream(users: int, shufflers: int, epsilon: float, seed: int) -> Floats:
    """A draw of Δ_{n,k}: at most `repetitions` equal bits, then in turn one fair bit, and one fair bit repeated.

    On such a stream no mechanism with k shufflers errs by less than about `repetitions` ([TKMS23] Theorem 4.1): single
    bits hide behind noise, and repeated ones pile up while a batch is open.

    >>> repetitions(10**6, 1, 1.0)
    24
    >>> hard_stream(10**6, 1, 1.0, seed=3).mean().round(1)
    np.float64(0.5)
    """
    generator = np.random.default_rng(integer("seed", seed, 0))
    repeat = repetitions(users, shufflers, epsilon)
    prefix = np.full(int(generator.integers(0, repeat + 1)), generator.integers(0, 2), dtype=np.float64)
    rounds = math.ceil(users / (1 + repeat))
    bits = generator.integers(0, 2, size=(rounds, 2)).astype(np.float64)
    body = np.repeat(bits, [1, repeat], axis=1).ravel()
    return np.concatenate((prefix, body))[:users]


def file_stream(path: str | Path) -> Floats:
    """One number a line; a line that is none is named."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CroupierError(f"{path}: the stream could not be read ({error})") from None
    values = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values.append(float(finite("line", float(line))))
        except ValueError:
            raise CroupierError(f"{path}, line {number}: {line[:40]!r} is not a number") from None
    if not values:
        raise CroupierError(f"{path}: the file holds no numbers")
    return np.asarray(values)


def stream(text: str, *, users: int, shufflers: int, epsilon: float, seed: int) -> Floats:
    """The stream that a word describes; a file must have exactly `users` numbers or more, of which the first count."""
    kind, _, argument = text.partition(":")
    if text == "hard":
        return hard_stream(users, shufflers, epsilon, seed)
    if kind in KINDS[:2]:
        try:
            rate = float(argument)
        except ValueError:
            raise InvalidParameter("stream", text, NAMES) from None
        if kind == "bernoulli":
            return bernoulli_stream(users, rate, seed)
        return np.full(integer("users", users, 1), float(finite("rate", rate)))
    if not Path(text).is_file():
        raise InvalidParameter("stream", text, NAMES + did_you_mean(kind, KINDS))
    values = file_stream(text)
    if len(values) < users:
        raise InvalidParameter("users", users, f"at most {len(values)}, as many as {text} has numbers")
    return values[:users]
