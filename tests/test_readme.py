"""The README claims only what runs."""

import re
import shlex
from pathlib import Path

import pytest

from croupier.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for line in README.splitlines() if line.startswith("croupier ")]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


def test_there_is_something_to_run() -> None:
    assert EXAMPLES
    assert len(COMMANDS) >= 3
