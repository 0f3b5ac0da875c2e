"""Somebody with an older Python gets one line, not a traceback."""

import ast
import sys
from pathlib import Path

import pytest

import croupier

SOURCE = Path(croupier.__file__).read_text(encoding="utf-8")


def test_an_older_python_is_told_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(SystemExit) as stop:
        exec(compile(SOURCE, "croupier/__init__.py", "exec"), {})
    assert stop.value.code == "croupier needs Python 3.11 or later; this is Python 3.10"


def test_an_older_python_can_read_the_first_file() -> None:
    ast.parse(SOURCE, feature_version=(3, 4))
