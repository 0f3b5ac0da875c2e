"""Several numbers of one report, by name: what a device checks before it reports any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from croupier.checks import InvalidParameter

Made = TypeVar("Made")

MOST = 8
"""Numbers that a report may have."""


def each(names: Sequence[str], value: object, made: Callable[[int, Any], Made]) -> list[Made]:
    """What is made of every number, in the order of the names; a missing, unknown or bad one is refused by its name.

    >>> each(["finished", "minutes"], {"minutes": 3, "finished": 1}, lambda place, number: number)
    [1, 3]
    >>> each(["finished", "minutes"], {"finished": 1}, lambda place, number: number)
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: minutes is missing: it must be given: a report has finished and minutes
    """
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    if not isinstance(value, Mapping):
        raise InvalidParameter("value", value, f"several numbers by name: {listed}")
    for name in value:
        if name not in names:
            raise InvalidParameter(str(name), value[name], f"left out: a report has {listed}")
    found = []
    for place, name in enumerate(names):
        if name not in value:
            raise InvalidParameter(name, None, f"given: a report has {listed}")
        with _called(name):
            found.append(made(place, value[name]))
    return found


@contextmanager
def _called(name: str) -> Iterator[None]:
    """Refusals name the number."""
    try:
        yield
    except InvalidParameter as error:
        raise InvalidParameter(name, error.value, error.allowed) from None
