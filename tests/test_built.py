"""The page that lists what is built of the papers: its functions, tests and commands are there."""

import importlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from croupier.bandits import POLICIES
from croupier.cli import main, parser
from croupier_papers import FIGURES

ROOT = Path(__file__).resolve().parent.parent
ROWS = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.+) \|$", (ROOT / "docs/built.md").read_text("utf-8"), re.MULTILINE)
ITEMS = [row for row in ROWS if row[0] != "item"]
QUOTED = re.compile(r"`([^`]+)`")


@cache
def _tests_of(path: Path) -> set[str]:
    """The functions of a file that are tests."""
    return set(re.findall(r"^def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE))


def _named(name: str) -> Any:
    """What a dotted name stands for: a policy, a module, or something in one."""
    if name in POLICIES.own or name in FIGURES or name == "growth":
        return name
    for package in ("croupier", "croupier_papers"):
        rest = name.split(".")
        thing = importlib.import_module(package)
        for part in rest:
            if not hasattr(thing, part):
                try:
                    importlib.import_module(f"{thing.__name__}.{part}")
                except (ImportError, AttributeError):
                    break
            thing = getattr(thing, part)
        else:
            return thing
    raise AssertionError(f"docs/built.md names {name}, which is nowhere")


def test_the_page_has_every_paper() -> None:
    assert len(ITEMS) > 50


@pytest.mark.parametrize("row", ITEMS, ids=lambda row: row[0][:40])
def test_functions_tests_and_commands_of_an_item_are_there(row: tuple[str, str, str, str]) -> None:
    item, where, tests, command = row
    assert QUOTED.findall(where) or "not " in where or "no construction" in where or "none" in where, item
    for name in QUOTED.findall(where):
        assert _named(name) is not None
    for test in QUOTED.findall(tests):
        path, _, function = test.partition("::")
        assert function in _tests_of(ROOT / "tests" / path), test
    for line in QUOTED.findall(command):
        program, *arguments = shlex.split(line)
        assert program == "croupier"
        options = parser().parse_args(arguments)
        if options.command == "reproduce":
            assert options.name in FIGURES


@pytest.mark.parametrize(
    "row",
    [row for row in ITEMS if QUOTED.findall(row[1]) and not QUOTED.findall(row[3])],
    ids=lambda row: row[0][:40],
)
def test_what_no_command_shows_has_an_example_that_runs(row: tuple[str, str, str, str]) -> None:
    """Docstrings' examples are tests themselves; here one must be there."""
    named = [_named(name) for name in QUOTED.findall(row[1]) if not name.isidentifier() or name in POLICIES.own]
    assert any(">>>" in (getattr(thing, "__doc__", None) or "") for thing in named), row[0]


COMMANDS = sorted({line for row in ITEMS for line in QUOTED.findall(row[3])})


@pytest.mark.evidence
@pytest.mark.parametrize("line", [line for line in COMMANDS if line.split()[1] not in ("reproduce", "up")])
def test_a_command_of_the_page_ends_well(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have tests of their own, and so has the service."""
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(line)[1:]) == 0
