"""How figures look: one hand for all of them, readable in grey and by colour-blind readers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from croupier.checks import CroupierError
from croupier.references import cited

Style = tuple[str, Any, str]

BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)
GREY = "#5A5A5A"

REFERENCES = 0.42
"""Inches under a caption: two lines for papers, one that says a figure is quick."""

STYLES: dict[str, Style] = {
    "DP-SE": (BLACK, "-", "o"),
    "CDP-SE": (BLACK, "-", "o"),
    "Dist-DP-SE": (BLUE, (0, (6, 2)), "s"),
    "Dist-RDP-SE (s = 10)": (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^"),
    "Dist-RDP-SE (s = 100)": (GREEN, (0, (1.5, 1.5)), "D"),
    "Dist-CDP-SE (s = 10)": (PURPLE, (0, (3, 1.5)), "v"),
    "LDP-SE": (ORANGE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "<"),
    "SDP-AE": (BLUE, "-", "s"),
    "VB-SDP-AE": (PURPLE, (0, (3, 1.5)), "v"),
    "DP-KLUCB": (VERMILION, "-", "^"),
    "DP-IMED": (GREEN, (0, (6, 1.5, 1.5, 1.5)), "D"),
    "KL-UCB": (BLACK, (0, (1.5, 1.5)), "o"),
    "KL-UCB, less": (SKY, (0, (5, 1, 1, 1, 1, 1)), "P"),
    "k = 1": (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^"),
    "k = 2": (GREEN, (0, (3, 1.5)), "D"),
    "k = 3": (PURPLE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "v"),
    "binary tree": (BLUE, "-", "s"),
    "central square root": (BLACK, (0, (1.5, 1.5)), "o"),
    "local": (ORANGE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "<"),
    "LinUCB, no privacy": (BLACK, (0, (1.5, 1.5)), "o"),
    "central tree": (SKY, (0, (6, 2)), "P"),
    "concurrent, binary tree": (BLUE, "-", "s"),
    "concurrent, k = 2": (GREEN, (0, (3, 1.5)), "D"),
    "sequential": (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^"),
    "central, growing": (GREY, (0, (1, 1, 4, 1)), "X"),
    "growing batches": (PURPLE, (0, (1.5, 1)), "v"),
    "growing, proven": (PURPLE, (0, (1.5, 1)), "v"),
    "growing, tuned": (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^"),
    "growing, proven, two servers": (GREEN, (0, (3, 1.5)), "D"),
    "growing, tuned, two servers": (ORANGE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "<"),
    "growing, capped": (SKY, (0, (6, 2)), "P"),
    "growing by 2": (PURPLE, (0, (1.5, 1)), "v"),
    "growing by 1.3": (ORANGE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "<"),
    "published, shuffled bits": (VERMILION, (0, (6, 1.5, 1.5, 1.5)), "^"),
    "tight, shuffled bits": (BLUE, "-", "s"),
    "tight, shuffled Laplace": (GREEN, (0, (3, 1.5)), "D"),
    "KL-UCB, no privacy": (BLACK, (0, (1.5, 1.5)), "o"),
    "noise from a trusted analyzer": (SKY, (0, (5, 1, 1, 1, 1, 1)), "P"),
    "noise from the devices": (BLUE, (0, (6, 2)), "s"),
    "noise from both servers": (VERMILION, "-", "^"),
    "noise in every report (local)": (ORANGE, (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "<"),
}
"""Colour, line and marker of each curve; no two in one figure share any of the three."""


def power_of_ten(value: float) -> str:
    """10⁹ as a caption writes it.

    >>> power_of_ten(1e-6)
    '$10^{-6}$'
    """
    return f"$10^{{{round(math.log10(value))}}}$"


def scientific(value: float, digits: int = 1) -> str:
    r"""2·10¹² as a caption writes it; numbers near one as they are.

    >>> print(scientific(2e12), scientific(1e-6), scientific(0.0123, 2))
    $2\cdot10^{12}$ $10^{-6}$ 0.012
    """
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.{max(digits, 2)}g}"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"$10^{{{int(power)}}}$" if float(mantissa) == 1.0 else f"${mantissa}\\cdot10^{{{int(power)}}}$"


def sheet(
    columns: int,
    *,
    title: str,
    width: float,
    height: float,
    strip: float,
    share_y: bool = True,
    rows: Sequence[float] = (1.0,),
) -> Any:
    """A figure of panels side by side above a strip, `strip` inches high, for the legend and the caption.

    The strip has room for the papers that the figure cites besides. `rows` are the relative heights of rows of panels,
    where there is more than one.
    """
    strip += REFERENCES
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CroupierError("figures need matplotlib: install croupier[figures]") from None
    figure = Figure(figsize=(width, height + strip), dpi=200, layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(height, strip))
    upper, lower = parts
    axes = upper.subplots(len(rows), columns, sharey=share_y, squeeze=False, height_ratios=rows).ravel()
    upper.suptitle(title, fontsize=9.5, fontweight="bold")
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#DDDDDD", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8)
    return figure, list(axes), lower


CAPTION = "caption"
"""What a figure's caption is found by."""


def _is_text(artist: Any) -> bool:
    return hasattr(artist, "get_text")


QUICK = "Made with --quick: fewer runs, users or points than the whole figure has."


def finish(figure: Any, source: str, *, quick: bool = False) -> Any:
    """What every figure gets at last: whose it is, above its title; what it cites, at its end; calm ticks.

    No figure says in its own title whose it is: `source` is the first line of every one.
    """
    for title in [part._suptitle for part in (figure, *figure.subfigs) if part._suptitle is not None][:1]:
        title.set_text(f"{source}\n{title.get_text()}")
    said = " ".join(text.get_text() for text in figure.findobj(_is_text))
    for caption in figure.findobj(lambda artist: artist.get_gid() == CAPTION):
        ends = [*([QUICK] if quick else []), *map(str, cited(said))]
        lines = [line for end in ends for line in folded(end, _characters(caption.figure))]
        caption.set_text("\n".join([caption.get_text(), *lines]))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                _calm(axis)
    return figure


def _calm(axis: Any) -> None:
    """Label major ticks only; where fewer than two of them are in view, take 1, 2 and 5 of every power."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    low, high = sorted(axis.get_view_interval())
    base = axis.get_transform().base
    majors = math.floor(math.log(high, base) + 1e-9) - math.ceil(math.log(low, base) - 1e-9) + 1
    if majors < 2 and not isinstance(axis.get_major_locator(), FixedLocator):
        axis.set_major_locator(LogLocator(base, subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value >= 1e-4 else f"{value:.0e}"))


def _characters(strip: Any) -> int:
    """How many characters of a caption fit side by side."""
    return int(strip.bbox.width / strip.dpi * 17)


def folded(text: str, width: int) -> list[str]:
    r"""Lines of at most so many characters that are seen: what only mathematics is written with takes no room.

    >>> folded(r"it begins at $2\cdot10^{12}$ users", 20)
    ['it begins at $2\\cdot10^{12}$', 'users']
    """
    lines: list[list[str]] = [[]]
    room = width
    for word in text.split(" "):
        seen = len(re.sub(r"\\[a-z]+|[$^_{}]", "", word))
        if lines[-1] and seen > room:
            lines.append([])
            room = width
        lines[-1].append(word)
        room -= seen + 1
    return [" ".join(line) for line in lines]


def explain(strip: Any, handles: Sequence[Any], caption: str, *, columns: int) -> None:
    """The legend and, under it, the caption."""
    height = strip.bbox.height / strip.dpi
    rows = -(-len(handles) // columns) if handles else 0
    if handles:
        strip.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            handlelength=3.2,
            columnspacing=1.4,
            borderaxespad=0.0,
            borderpad=0.2,
        )
    top = 1.0 - (0.19 * rows + 0.07) / height
    text = "\n".join(folded(caption, _characters(strip)))
    strip.text(0.5, top, text, ha="center", va="top", fontsize=7, color=GREY, linespacing=1.3, gid=CAPTION)


def curve(
    axes: Any, x: Any, mean: Any, error: Any, label: str, *, marks: Sequence[int], name: str | None = None
) -> Any:
    """A line with its 95 % band, and markers at the given points; returns the line."""
    colour, line, marker = STYLES[name or label]
    axes.fill_between(x, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.14, linewidth=0)
    (drawn,) = axes.plot(
        x,
        mean,
        color=colour,
        linestyle=line,
        linewidth=1.5,
        marker=marker,
        markersize=4.5,
        markerfacecolor="white",
        markeredgewidth=1.1,
        markevery=list(marks),
        label=label,
    )
    return drawn
