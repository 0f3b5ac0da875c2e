"""The page on a first experiment claims only what runs: all its commands and programs, one after another."""

import json
import math
import re
import shlex
import subprocess
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases.service.browser_pages import site
from cases.service.browser_world import chromium, launched
from croupier.cli import main
from croupier.service.experiment import plan
from croupier.service.processes import COMMAND

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "first-experiment.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(toml|sh|python|js)\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE = ROOT / "examples" / "first-experiment.toml"
HERE = "http://127.0.0.1:8400"
MEANS, FAR = "--means 0.4,0.48", "--means 0.1,0.9"
"""How good the screens of the page are, and two that are told apart by few."""


def test_the_file_is_the_one_that_is_printed_and_may_go_on_with_the_winner():
    printed, then = (tomllib.loads(text) for kind, text in BLOCKS if kind == "toml")
    assert printed == tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    printed["decision"] |= then["decision"]
    assert plan(printed).program().policy.terms.then == "exploit"


@contextmanager
def servers(directory):
    """Both, as `croupier up` starts them, in this directory; their address."""
    command = [*COMMAND, "up", str(EXAMPLE), "--port", "0", "--no-browser", "--origins", "*"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as up:
        try:
            yield next(line for line in up.stdout if line.startswith("dashboard")).split()[1].rstrip("/")
        finally:
            up.terminate()
            up.wait(40)


def in_a_page(directory, code):
    """What a program prints on the console of a page."""
    with site(directory / "site") as origin, launched() as browser:
        page, said = browser.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        here = code.replace('"croupier-client"', '"./croupier.js"').replace("armName)", "armName, turn.isDefault)")
        (directory / "site" / "program.js").write_text(here)
        page.goto(f"{origin}/empty.html")
        page.evaluate("() => import('/program.js')")
    return said


@pytest.mark.slow
@pytest.mark.parametrize("means", [FAR, pytest.param(MEANS, marks=pytest.mark.evidence)])
def test_all_of_it_runs(tmp_path, capsys, monkeypatch, means):
    chromium()
    assert MEANS in PAGE
    monkeypatch.chdir(tmp_path)
    said, keys = "", {}
    with servers(tmp_path) as url:
        for kind, text in BLOCKS:
            here = text.replace(HERE, url).replace(MEANS, means)
            for server, key in keys.items():
                here = here.replace(f"{server.upper()}_KEY", key)
            if kind == "python":
                exec(compile(here, "first-experiment.md", "exec"), names := {})
                assert f"showing {names['turn'].arm_name}" in capsys.readouterr().out
                assert not names["turn"].is_default, names["turn"].why
            elif kind == "js":
                assert in_a_page(tmp_path, here)[-1] in ("showing old false", "showing new false"), "the default"
            elif kind == "sh":
                # The plan's table is compared elsewhere.
                for command in (line for line in here.splitlines() if not line.startswith("croupier plan")):
                    said += run(command, url, capsys)
            if "serve keys" in text:
                keys = dict(re.findall(r"croupier-data/(\w+)/keys: signing key ([\w-]+)", said))
    assert set(keys) == {"analyzer", "front"}
    assert "every line follows" in said
    assert "among those who reported" in said
    assert {"batches.csv", "curve.json", "new-screen.jsonl"} <= {path.name for path in tmp_path.iterdir()}


def run(command, url, capsys):
    words = shlex.split(command)
    assert words[0] == "croupier"
    # Where the page says nothing the analyzer is at the usual port.
    there = ["--analyzer", url] if words[1] == "crowd" else []
    status = main([*words[1:], *there])
    said = capsys.readouterr()
    # It may be decided before the page's next crowd comes: nearly always if screens are far apart, at times elsewhere.
    assert status == 0 or (words[1] == "crowd" and "has ended" in said.err), f"{command}: {said.err}"
    return said.out


@pytest.mark.slow
def test_what_epsilon_means_and_costs_is_what_is_computed(capsys):
    (planned,) = (line for line in PAGE.splitlines() if line.startswith("croupier plan") and "--runs" in line)
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == ["0.5", "1", "2"]
    for epsilon, times, reports in rows:
        assert f"{math.exp(float(epsilon)):.2f}" == times
        assert main([*shlex.split(planned)[1:], "--epsilon", epsilon, "--json"]) == 0
        first = json.loads(capsys.readouterr().out)[0]
        assert (first["trust"], f"{first['users_power']:,.0f}") == ("two-servers", reports)


def test_there_is_something_to_run():
    assert [kind for kind, _ in BLOCKS].count("sh") >= 5
    assert {"python", "js", "toml"} <= {kind for kind, _ in BLOCKS}
