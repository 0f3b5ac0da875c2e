"""Tables in the documents are what their commands print, cell by cell.

Above such a table stands a comment that names the commands, one a line, and for each column of the table the heading
that it has in print. Every row must be among those printed; a document may leave rows and columns out.

    <!-- printed by:
    croupier price --users 1000
    columns: protocol; radius -->

`printed at length by` marks what takes more than a few seconds: `make evidence` runs it. A line `within 2 %` before the
columns is for numbers that another processor rounds otherwise, so that a run of many steps ends a little elsewhere.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import croupier_papers
from croupier.cli import main, tables

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
COMMENT = re.compile(
    r"<!-- printed (at length )?by:\n((?:croupier .*\n)+)(?:within (\d+) %\n)?"
    r"columns: (.*?) -->\n+(\|.*\n\|[-| :]+\n(?:\|.*(?:\n|$))+)"
)
NUMBER = re.compile(r"\d+(\.\d+)?")
WRITES = ("reproduce", "sweep")
"""Commands that must be told where to write."""


@dataclass(frozen=True)
class Promise:
    """One table of a document, and what it says about itself."""

    document: str
    commands: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    within: float
    """How far a number may be off, relative to it."""

    def is_kept_by(self, row: tuple[str, ...], shown: set[tuple[str, ...]]) -> bool:
        return row in shown or any(all(map(self._alike, row, one)) for one in shown)

    def _alike(self, said: str, shown: str) -> bool:
        if said == shown or not self.within:
            return said == shown
        numbers = [cell.replace(",", "") for cell in (said, shown)]
        if not all(NUMBER.fullmatch(number) for number in numbers):
            return False
        return abs(float(numbers[0]) - float(numbers[1])) <= self.within * float(numbers[1])


def cells(line: str) -> tuple[str, ...]:
    """One line of a table, without emphasis."""
    return tuple(cell.strip().replace("**", "").strip("`") for cell in line.strip().strip("|").split("|"))


def promises() -> list[Any]:
    """Every table that names its commands, the long ones for `make evidence`."""
    found = []
    for path in DOCUMENTS:
        for long, commands, within, columns, table in COMMENT.findall(path.read_text(encoding="utf-8")):
            promise = Promise(
                str(path.relative_to(ROOT)),
                tuple(commands.splitlines()),
                tuple(columns.split("; ")),
                tuple(cells(line) for line in table.strip().splitlines()[2:]),
                int(within or 0) / 100,
            )
            name = "-".join((path.name, *shlex.split(commands)[1:3])).replace("--", "")
            marks = [pytest.mark.evidence] if long else [pytest.mark.slow]
            found.append(pytest.param(promise, id=name, marks=marks))
    return found


def printed(command: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Every row of every table that a command prints, by heading; the picture beside it is left out."""
    rows: list[dict[str, str]] = []
    build = tables.build

    def listen(headings: Any, body: Any, **options: Any) -> Any:
        rows.extend(dict(zip(headings, map(str, row), strict=True)) for row in body)
        return build(headings, body, **options)

    monkeypatch.setattr(tables, "build", listen)
    monkeypatch.setattr(croupier_papers, "save", lambda figure, path: path)
    words = shlex.split(command)[1:]
    where = out / "numbers.parquet" if words[0] == "sweep" else out
    assert main([*words, "--out", str(where)] if words[0] in WRITES else words) == 0
    monkeypatch.undo()
    return rows


@pytest.mark.parametrize("promise", promises())
def test_a_table_is_what_its_commands_print(
    promise: Promise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    rows = []
    for number, command in enumerate(promise.commands):
        (tmp_path / str(number)).mkdir()
        rows += printed(command, tmp_path / str(number), monkeypatch)
    shown = {tuple(row[column] for column in promise.columns) for row in rows if set(promise.columns) <= set(row)}
    record_property("commands", list(promise.commands))
    assert [row for row in promise.rows if not promise.is_kept_by(row, shown)] == [], sorted(shown)


def test_there_are_tables_to_check() -> None:
    found = promises()
    assert len({promise.values[0].document for promise in found}) >= 3
    short = [promise for promise in found if promise.marks[0].name == "slow"]
    assert len(short) >= 2
    for promise in found:
        assert {len(row) for row in promise.values[0].rows} == {len(promise.values[0].columns)}


def test_a_comment_that_is_no_promise_is_found_out() -> None:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert text.count("<!-- printed") == len(COMMENT.findall(text)), path.name


@pytest.mark.slow
def test_a_wrong_number_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = printed("croupier reproduce tkms23-tree", tmp_path, monkeypatch)
    shown = {(row["tree"], row["in the sum"]) for row in rows}
    assert ("k = 2", "8") in shown
    assert ("k = 2", "9") not in shown


def test_within_some_per_cent_is_not_within_more() -> None:
    exact, loose = (Promise("", (), (), (), within) for within in (0.0, 0.02))
    shown = {("a", "1,000", "0.17")}
    assert exact.is_kept_by(("a", "1,000", "0.17"), shown)
    assert not exact.is_kept_by(("a", "1,001", "0.17"), shown)
    assert loose.is_kept_by(("a", "1,019", "0.17"), shown)
    for row in (("a", "1,021", "0.17"), ("a", "979", "0.17"), ("b", "1,000", "0.17"), ("a", "-", "0.17")):
        assert not loose.is_kept_by(row, shown)
