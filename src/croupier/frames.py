"""Results as rows: a list of plain dicts, which pandas takes as a DataFrame and a notebook shows as a table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from croupier.references import cited


class Rows(list[dict[str, Any]]):
    """Rows of a result, one dict each; anything that takes a list of dicts takes these.

    >>> rows = Rows([{"policy": "dp-klucb", "regret": 12.25}])
    >>> rows[0]["regret"]
    12.25
    >>> print(rows._repr_html_())
    <table><tr><th>policy</th><th>regret</th></tr><tr><td>dp-klucb</td><td>12.25</td></tr></table>
    """

    def frame(self) -> Any:
        """A pandas DataFrame, one row each; an ImportError that says what to install where pandas is missing."""
        try:
            import pandas
        except ImportError:
            raise ImportError("a DataFrame needs pandas, which is not installed: pip install pandas") from None
        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        keys = list(dict.fromkeys(key for row in self for key in row))
        lines = [_line("th", keys), *(_line("td", [_shown(row, key) for key in keys]) for row in self)]
        cells = " ".join(_shown(row, key) for row in self for key in keys)
        beneath = [f"<p>{escape(str(reference))}</p>" for reference in cited(cells)]
        return f"<table>{''.join(lines)}</table>{''.join(beneath)}"


class Tabular:
    """A result that has rows."""

    @property
    def rows(self) -> Rows:
        """The result as plain dicts."""
        raise NotImplementedError

    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.rows.frame()

    def _repr_html_(self) -> str:
        return self.rows._repr_html_()


def _line(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _shown(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
