"""Tables for people, as wide as they need to be when nobody's terminal says otherwise."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, right: set[int], title: str = "") -> None:
    """Print a table; columns in `right` are numbers."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(made(headings, rows, right=right, title=title))


def made(headings: Sequence[str], rows: Sequence[Sequence[object]], *, right: set[int], title: str = "") -> Group:
    """A table under its title, not yet printed."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    body = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        body.add_column(heading, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        body.add_row(*(str(cell) for cell in row))
    # Above, not as the table's own: that would be folded to the width of the columns.
    return Group(Text(title, style="italic"), body) if title else Group(body)


def number(value: float, digits: int = 4) -> str:
    """A number as a person would write it: 0.271, 67.7, 1,500, 9.9e+08."""
    if not math.isfinite(value):
        return "infinite"
    if value == 0:
        return "0"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if 1e-4 <= abs(value) < 1e4:
        return f"{value:.{digits}g}"
    return f"{value:.2e}"
