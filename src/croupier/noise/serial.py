"""Noise as plain data and back: a family's name and its exact parameters."""

from __future__ import annotations

import re
from dataclasses import fields
from fractions import Fraction
from typing import Any

from croupier.checks import InvalidParameter
from croupier.noise import FAMILIES, Noise


def noise_to_dict(noise: Noise) -> dict[str, Any]:
    """Return a noise as JSON-ready data; fractions become "n/d", so nothing is rounded.

    >>> from croupier.noise import Polya
    >>> noise_to_dict(Polya(r=1, scale=20).share(1000))
    {'family': 'Polya', 'r': '1/1000', 'scale': 20}
    """
    parameters = {f.name: getattr(noise, f.name) for f in fields(noise) if f.init}  # type: ignore[arg-type]
    return {"family": type(noise).__name__} | {
        name: _plain(value) for name, value in parameters.items() if value is not None
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Fraction) else value


def _exact(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_exact(entry) for entry in value)
    return _fraction(value) if isinstance(value, str) else value


def _fraction(text: str) -> Fraction:
    """Read "n/d" and nothing longer or fancier: an exponent could ask for a number that fills memory."""
    if len(text) > 1000 or not re.fullmatch(r"[0-9]+(/[0-9]+)?", text):
        raise ValueError(f"{text[:40]!r} is no fraction of whole numbers")
    return Fraction(text)


def noise_from_dict(data: dict[str, Any]) -> Noise:
    """Read a noise back; the result equals the one written."""
    body = dict(data)
    family = body.pop("family", None)
    kind = FAMILIES.find(family)
    try:
        parameters = {name: _exact(value) for name, value in body.items()}
        return kind(**parameters)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InvalidParameter("noise", data, f"the parameters of {family}: {error}") from None
