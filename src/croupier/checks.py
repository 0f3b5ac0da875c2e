"""The one way bad input is refused: the parameter, its value and what is allowed, where it enters."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Container, Iterable
from fractions import Fraction
from functools import wraps
from numbers import Integral, Rational, Real
from typing import ParamSpec, TypeVar

Number = int | float | Fraction
Thing = TypeVar("Thing")
Given = ParamSpec("Given")

LONGEST_SHOWN = 240
"""Characters of a value in a message."""


class CroupierError(Exception):
    """Anything croupier refuses to do, with a message for a person."""


class InvalidParameter(CroupierError, ValueError):
    """A parameter outside its range.

    >>> raise InvalidParameter("epsilon", -1, "a finite number > 0")
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: epsilon = -1 is not allowed: it must be a finite number > 0
    >>> raise InvalidParameter("epsilon", None, "given")
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: epsilon is missing: it must be given
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        missing = value is None and allowed.startswith("given")
        wrong = "is missing" if missing else f"= {shown(value)} is not allowed"
        super().__init__(f"{name} {wrong}: it must be {allowed}")
        self.name, self.value, self.allowed = name, value, allowed

    def __reduce__(self) -> tuple[type[InvalidParameter], tuple[str, object, str]]:
        return type(self), (self.name, self.value, self.allowed)


def shown(value: object) -> str:
    """A value in one line that is not too long, whatever it is.

    >>> shown("a" * 300)[-4:]
    'aaa…'
    """
    try:
        line = " ".join(repr(value).split())
    except Exception:  # of a stranger's type, or a number of too many digits
        line = f"a {type(value).__name__}"
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"


def finite(name: str, value: object, allowed: str = "a finite number") -> Number:
    """Return `value` as an int, float or Fraction, or refuse it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(name, value, allowed)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(value)
    number = float(value)
    if not math.isfinite(number):
        raise InvalidParameter(name, value, allowed)
    return number


def positive(name: str, value: object) -> Number:
    """Return `value` when it is a finite number above zero."""
    allowed = "a finite number > 0"
    number = finite(name, value, allowed)
    if number <= 0:
        raise InvalidParameter(name, value, allowed)
    return number


def integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return `value` as an int when it is a whole number in [least, most]."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value and (most is None or value <= most):
        return value  # nearly always; to ask for all kinds of whole numbers takes ten times as long
    allowed = f"a whole number >= {least}" if most is None else f"a whole number in [{least}, {most}]"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidParameter(name, value, allowed)
    number = int(value)
    if number < least or (most is not None and number > most):
        raise InvalidParameter(name, value, allowed)
    return number


def between(name: str, value: object, low: float, high: float, ends: str = "()") -> Number:
    """Return `value` when it lies in the interval from `low` to `high` with the given ends."""
    allowed = f"a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    number = finite(name, value, allowed)
    inside_low = number >= low if ends[0] == "[" else number > low
    inside_high = number <= high if ends[1] == "]" else number < high
    if not (inside_low and inside_high):
        raise InvalidParameter(name, value, allowed)
    return number


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value` when it is one of `choices`."""
    if value not in choices:
        raise unknown(name, value, choices)
    return value


def several(name: str, things: Iterable[Thing]) -> list[Thing]:
    """Return `things` as a list, or refuse what holds nothing.

    >>> several("reports", 7)
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: reports = 7 is not allowed: it must be a list
    """
    try:
        return list(things)
    except TypeError:
        raise InvalidParameter(name, things, "a list") from None


def unknown(name: str, value: object, choices: Iterable[str]) -> InvalidParameter:
    """The refusal of a word that is none of `choices`, with the one that was probably meant.

    >>> str(unknown("engine", "locall", ["local", "ray"]))
    "engine = 'locall' is not allowed: it must be one of local, ray; did you mean local?"
    """
    choices = tuple(choices)
    return InvalidParameter(name, value, "one of " + ", ".join(choices) + did_you_mean(value, choices))


def unread(
    name: str, value: object, reader: str, read: Iterable[str], elsewhere: Container[str] = ()
) -> InvalidParameter:
    """The refusal of an option that its reader does not take, with those that it takes.

    What is read `elsewhere` is not misspelt, so nothing else was meant.

    >>> str(unread("scalng", 5, "skellam", ["epsilon", "scaling"]))
    'scalng = 5 is not allowed: it must be left out: skellam takes epsilon, scaling; did you mean scaling?'
    """
    read = tuple(read)
    meant = "" if name in elsewhere else did_you_mean(name, read)
    return InvalidParameter(name, value, f"left out: {reader} takes {', '.join(read)}{meant}")


def ignored(name: str, value: object, readers: Iterable[str], meant: str = "") -> InvalidParameter:
    """The refusal of an option that nobody here reads, though others may.

    >>> str(ignored("scaling", 5, ["dp-klucb", "ucb1"]))
    'scaling = 5 is not allowed: it must be left out: none of dp-klucb, ucb1 reads it'
    """
    names = list(dict.fromkeys(readers))
    who = f"{names[0]} does not read it" if len(names) == 1 else f"none of {', '.join(names)} reads it"
    return InvalidParameter(name, value, f"left out: {who}{meant}")


def by_name(function: Callable[Given, Thing]) -> Callable[Given, Thing]:
    """The same function. An option that it does not take is refused like any other bad value, not by a TypeError."""
    taken = inspect.signature(function).parameters

    @wraps(function)
    def checked(*arguments: Given.args, **options: Given.kwargs) -> Thing:
        for name, value in options.items():
            if name not in taken:
                raise unread(name, value, function.__name__, taken)
        return function(*arguments, **options)

    return checked


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """A question after a misspelt word; nothing where no choice is near."""
    near = difflib.get_close_matches(word, list(choices), 1) if isinstance(word, str) and len(word) < 100 else []
    return f"; did you mean {near[0]}?" if near else ""
