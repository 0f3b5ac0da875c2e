"""The README claims only what runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from croupier.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SERVERS = ("croupier up ", "croupier crowd ")
"""These run until Ctrl-C, or need keys: the page on a first experiment runs them."""
COMMANDS = [line for line in README.splitlines() if line.startswith("croupier ") and not line.startswith(SERVERS)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out


LONG = {
    "croupier count ": "--runs 1",
    "croupier plan ": "--runs 40",
    "croupier price --users 1000 ": "--constants tight",
}
"""What takes seconds as it stands, and how it takes few."""


def cases() -> list[Any]:
    """Every command; the long ones as they stand for `make evidence`."""
    found: list[Any] = []
    for command in COMMANDS:
        shorter = [f"{command} {more}" for start, more in LONG.items() if command.startswith(start)]
        found += [*shorter, pytest.param(command, marks=pytest.mark.evidence if shorter else ())]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", cases())
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


def test_long_commands_are_some_of_them() -> None:
    assert all(any(command.startswith(start) for command in COMMANDS) for start in LONG)


def test_there_is_something_to_run() -> None:
    assert EXAMPLES
    assert len(COMMANDS) >= 3
