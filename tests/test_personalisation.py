"""The page on personalisation claims only what runs: its program, and its commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cases.service.processes import home_of
from croupier.cli import main
from croupier.client import Client, Limits
from croupier.service import keys as key_files
from croupier.service.experiment import read_plan
from croupier.service.processes import both

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/personalisation.md").read_text(encoding="utf-8")
PROGRAM, APP = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PLAN, COMPARE, UP = [command.replace("\\\n", " ") for command in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
[EXPERIMENT] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def quick(users: int = 300) -> str:
    """The page's experiment for few users, whose reports are due at once."""
    few = EXPERIMENT.replace("users = 20000", f"users = {users}\nfirst = 60\nratio = 2.0")
    at_once = few.replace("report_within = 20 ", "report_within = 600 ").replace("[0, 0.2]", "[0, 0]")
    return at_once.replace("deadline = 10 ", "deadline = 3600 ")


@pytest.mark.slow
def test_the_program_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(PROGRAM, "personalisation.md", "exec"), {})
    said = capsys.readouterr().out
    assert "measured" in said
    assert "video age -" in said, "who is older likes the video less"


@pytest.mark.slow
def test_the_commands_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert PLAN, "which is compared with its table"
    assert main([*shlex.split(COMPARE)[1:], "--runs", "1"]) == 0
    assert "mail" in capsys.readouterr().out


def test_the_experiment_is_the_example_s() -> None:
    example = (ROOT / "examples/tips.toml").read_text(encoding="utf-8")
    assert example.endswith(EXPERIMENT)
    assert read_plan(str(ROOT / "examples/tips.toml")).parameters["kind"] == "linear"
    assert UP.strip() in example


@pytest.mark.slow
def test_the_live_experiment_runs_with_fewer_users(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, words = tmp_path / "tips.toml", shlex.split(UP)[1:]
    file.write_text(quick(130).replace("epsilon = 1.0", "epsilon = 8.0"), encoding="utf-8")
    words[words.index("examples/tips.toml")] = str(file)
    words[words.index("examples/tips.csv")] = str(ROOT / "examples/tips.csv")
    words[words.index("30000")] = "300"
    assert main([*words, "--port", "0", "--no-browser"]) == 0
    said = capfd.readouterr().out
    assert "tips: every line follows; the run is finished" in said
    assert re.search(r"mean age .* mean sessions", said)
    assert re.search(r"video +│? *age|Nothing is known of the coefficients yet", said)
    assert re.search(r"[Pp]ersonalisation|[Nn]o gain is shown|control share", said)


@pytest.mark.slow
def test_the_app_plays_and_reports(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    file = tmp_path / "tips.toml"
    file.write_text(quick(), encoding="utf-8")
    shown: list[str] = []

    def show(action: str) -> int:
        shown.append(action)
        return 1

    with both(home, [str(file)], front={"openers": 0}, analyzer={"openers": 0}):
        keys = {server: key_files.load(home.directory / server / "keys").verify for server in ("analyzer", "front")}
        app = APP.replace("https://analyzer.example", home.analyzer_url)
        names = {"KEYS": keys, "show": show}
        exec(compile(app.replace("croupier.json", str(tmp_path / "account.json")), "personalisation.md", "exec"), names)
        with Client(home.analyzer_url, account=tmp_path / "account.json", keys=keys, background=False) as client:
            client.send_due()
            assert client.turns == [], "the report is sent"
            assert client.left < Limits().epsilon_per_period
    turn: Any = names["turn"]
    assert (turn.is_default, turn.offer.arm) == (False, None)
    assert shown == [turn.arm_name]
