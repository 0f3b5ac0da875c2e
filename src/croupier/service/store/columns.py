"""Columns of the stores' tables, several a line: those of a key, and those that are never empty."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, String


def keys(**kinds: Any) -> list[Column[Any]]:
    """The columns of a primary key, with their types.

    >>> from sqlalchemy import BigInteger
    >>> [column.name for column in keys(batch=BigInteger, part=BigInteger)]
    ['batch', 'part']
    """
    return [Column(name, kind, primary_key=True) for name, kind in kinds.items()]


def of_experiment(**kinds: Any) -> list[Column[Any]]:
    """The columns of a primary key that begins with the experiment's name."""
    return keys(experiment=String(63), **kinds)


def filled(**kinds: Any) -> list[Column[Any]]:
    """Columns that are never empty, with their types."""
    return [Column(name, kind, nullable=False) for name, kind in kinds.items()]
