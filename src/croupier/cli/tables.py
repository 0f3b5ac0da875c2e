"""Tables for people: 80 columns where no terminal says otherwise, with what they cite beneath."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from croupier.references import cited

if TYPE_CHECKING:
    from rich.console import Console, Group, JustifyMethod

WIDTH = 80
GAP = 2
NARROW = 8
"""A column of names is folded down to this before any number is."""

STANDARD_ERROR = "± is one standard error of the mean."
"""What the column ± holds, wherever there is one."""


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: set[int],
    title: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Print a table; columns in `right` are numbers. Notes stand beneath it, then the papers that it cites."""
    where = console()
    where.print(build(headings, rows, right=right, title=title, width=where.width))
    cells = [title, *headings, *notes, *(str(cell) for row in rows for cell in row)]
    say(*notes, *map(str, cited(" ".join(cells))))


def say(*lines: str) -> None:
    """Print lines of words, folded to the width of the tables."""
    for line in lines:
        print(textwrap.fill(line, console().width, subsequent_indent="  ", break_on_hyphens=False))


def console() -> Console:
    """Where tables are printed."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH)


def build(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: set[int],
    title: str = "",
    width: int = WIDTH,
) -> Group:
    """A table under its title, not yet printed."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    cells = [[str(cell) for cell in row] for row in rows]
    body = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, wide in enumerate(_widths(headings, cells, right, width)):
        # Folded, never cut: two names may differ at their ends alone.
        justify: JustifyMethod = "right" if index in right else "left"
        body.add_column(Text(headings[index]), justify=justify, width=wide, overflow="fold")
    for row in cells:
        body.add_row(*map(Text, row))
    # Above, not as the table's own: that would be folded to the width of the columns.
    return Group(Text(title, style="italic"), body) if title else Group(body)


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]], right: set[int], room: int) -> list[int]:
    """How wide each column is: the widest gives way first, no word while there is room, and a number last of all."""
    columns = [[row[index] for row in rows] for index in range(len(headings))]
    widths = [max(map(len, [heading, *column])) for heading, column in zip(headings, columns, strict=True)]
    words = [
        max(map(len, [*heading.split(), *(column if index in right else " ".join(column).split())]), default=1)
        for index, (heading, column) in enumerate(zip(headings, columns, strict=True))
    ]
    room -= GAP * (len(headings) - 1)
    while sum(widths) > room:
        every = range(len(widths))
        spare = [index for index in every if widths[index] > words[index]]
        names = [index for index in every if index not in right and widths[index] > NARROW]
        widest = max(spare or names or every, key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def spread(error: float, mean: float) -> str:
    """A standard error; what is only the rounding of doubles is 0.

    >>> spread(0.1234, 10.0), spread(3e-13, 1500.0)
    ('0.123', '0')
    """
    return number(error if error > 1e-9 * abs(mean) else 0.0, 3)


def number(value: float, digits: int = 4) -> str:
    """A number as a person would write it.

    >>> number(0.2714), number(67.7), number(1500.2), number(9.91e8, 3), number(1e-6)
    ('0.2714', '67.7', '1,500', '9.91e8', '1e-6')
    """
    if not math.isfinite(value):
        return "infinite"
    if value == 0:
        return "0"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if 1e-4 <= abs(value) < 1e3:
        return f"{value:.{digits}g}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
