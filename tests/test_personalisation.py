"""The page on personalisation claims only what runs: its program, and its commands."""

import re
import shlex
from pathlib import Path

import pytest

from croupier.cli import main

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/personalisation.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [command.replace("\\\n", " ") for command in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_runs(program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(program, "personalisation.md", "exec"), {})
    said = capsys.readouterr().out
    assert "measured" in said
    assert "video age -" in said, "who is older likes the video less"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS[1:])  # the first is compared with its table
def test_the_commands_run(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*shlex.split(command)[1:], "--runs", "1"]) == 0
    assert "mail" in capsys.readouterr().out


def test_there_is_something_to_run() -> None:
    assert len(PROGRAMS) == 1
    assert len(COMMANDS) == 2
