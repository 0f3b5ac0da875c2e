"""Tables for people: 80 columns where no terminal says otherwise, with what they cite beneath."""

from __future__ import annotations

import math
import re
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
"""A column of names is folded down to this, where there is no other way, and then the table is wider."""

BREAKS = (r"\s+", r"(?<=[^\W\d]{2}-)(?=\w)", r"(?<=[^\W\d][.:_/])(?=[^\W\d])")
"""Where words give way, one after the other: at spaces, at hyphens, in names such as `module:name`."""
INSIDE = len(BREAKS) + 1
"""And last of all anywhere."""

LONG = (1e7, 1e6)
"""From where on whole numbers are written shorter if a table does not fit, and then, if it still does not."""

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
    where.print(build(headings, rows, right=right, title=title, width=where.width), crop=False)
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

    written = [[str(cell) for cell in row] for row in rows]
    cells, widths = _fitted(headings, written, right, width)
    needed = sum(widths) + GAP * (len(widths) - 1)
    body = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        width=needed if needed > width else None,
    )
    for index, wide in enumerate(widths):
        # Folded, never cut: two names may differ at their ends alone.
        justify: JustifyMethod = "right" if index in right else "left"
        body.add_column(Text(_folded(headings[index], wide)), justify=justify, width=wide, overflow="fold")
    for row in cells:
        body.add_row(*(Text(_folded(cell, wide)) for cell, wide in zip(row, widths, strict=True)))
    # Above, not as the table's own: that would be folded to the width of the columns.
    return Group(Text(title, style="italic"), body) if title else Group(body)


def _fitted(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: set[int], room: int
) -> tuple[Sequence[Sequence[str]], list[int]]:
    """Cells and how wide each column is: where broken names do not make room, long numbers are written shorter."""
    shorter = rows
    for long in (math.inf, *LONG):
        shorter = [[_shorter(cell, long) if index in right else cell for index, cell in enumerate(row)] for row in rows]
        # With shorter numbers names may be whole again.
        widths = _widths(headings, shorter, right, room, len(BREAKS))
        if sum(widths) + GAP * (len(widths) - 1) <= room:
            return shorter, widths
    return shorter, _widths(headings, shorter, right, room, INSIDE)


def _shorter(cell: str, long: float) -> str:
    """A whole number that is at least so long in few digits; a mark behind it stays.

    >>> _shorter("6,353,724,956", 1e7), _shorter("1,004,628*", 1e6), _shorter("1,004,628", 1e7)
    ('6.354e9', '1.005e6*', '1,004,628')
    """
    whole = re.fullmatch(r"(\d{1,3}(?:,\d{3})+)(\*?)", cell)
    if whole is None or (value := float(whole[1].replace(",", ""))) < long:
        return cell
    digits, exponent = f"{value:.3e}".split("e+")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}{whole[2]}"


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]], right: set[int], room: int, ways: int) -> list[int]:
    """How wide each column is where words may be broken in the first so many ways: the widest gives way first.

    No number is ever broken: what is left is wider than the room.
    """
    columns = [[heading, *(row[index] for row in rows)] for index, heading in enumerate(headings)]
    widths = [max(map(len, column)) for column in columns]
    room -= GAP * (len(headings) - 1)
    every = range(len(widths))
    floors = [
        [
            max(_longest(cell, 0 if index in right and place else depth) for place, cell in enumerate(columns[index]))
            for index in every
        ]
        for depth in range(1, min(ways, len(BREAKS)) + 1)
    ]
    if ways == INSIDE:
        floors.append([low if index in right else min(low, NARROW) for index, low in enumerate(floors[-1])])
    for least in floors:
        while sum(widths) > room and (spare := [index for index in every if widths[index] > least[index]]):
            widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


def _longest(text: str, depth: int) -> int:
    """How long the longest piece of a text is, broken in the first so many ways."""
    return max(map(len, re.split("|".join(BREAKS[:depth]), text) if depth else [text]))


def _folded(text: str, width: int) -> str:
    """A text in lines of this width: a word that is longer is broken at a hyphen, else at what joins it, else inside.

    >>> _folded("the thompson:ENTRY", 10).splitlines()
    ['the', 'thompson:', 'ENTRY']
    """
    if len(text) <= width:
        return text
    lines = [""]
    for word in text.split():
        gap = " " if lines[-1] else ""
        for piece in _pieces(word, width):
            if len(lines[-1]) + len(gap) + len(piece) <= width:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
            gap = ""
    return "\n".join(lines[0 if lines[0] else 1 :])


def _pieces(word: str, width: int, depth: int = 1) -> list[str]:
    """A word, in as many parts as it takes for each to be no longer than that."""
    if len(word) <= width:
        return [word]
    if depth == len(BREAKS):
        return textwrap.wrap(word, width)
    return [piece for part in re.split(BREAKS[depth], word) for piece in _pieces(part, width, depth + 1)]


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
