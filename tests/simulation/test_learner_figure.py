"""The figure of the private learners: it computes, says how, and shows what [GKM21] says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.cli import main
from croupier_papers import FIGURES, Task, compute, user_level_epsilon, user_level_histograms, write
from croupier_papers.style import CAPTION, QUICK, finish
from croupier_papers.user_level_learners import MODELS, PROBLEMS, Panel, Setting

pytestmark = pytest.mark.slow

NAME = "gkm21-learner-users"
TINY = Setting((Panel("thresholds", (8, 64, 512)), Panel("decision-lists", (200, 1500))), runs=3)


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, NAME, replace(FIGURES[NAME], quick=TINY))
        done: list[float] = []
        made = compute(NAME, Task(seed=1, progress=done.append), quick=True)
    assert sum(done) == pytest.approx(1.0)
    return made


def test_it_has_a_line_for_every_model_and_a_number_for_every_point(body: dict[str, Any]) -> None:
    panels = body["results"]["panels"]
    assert [panel["problem"] for panel in panels] == list(PROBLEMS)
    for panel in panels:
        assert set(panel["lines"]) == set(MODELS)
        for line in panel["lines"].values():
            assert len(line["error"]) == len(panel["users"])
            assert all(0 <= error <= 1 for error in line["error"])
    assert json.loads(json.dumps(body)) == body


def test_the_models_need_users_in_the_order_of_their_trust(body: dict[str, Any]) -> None:
    for panel in body["results"]["panels"]:
        needed = {model: line["users_needed"] for model, line in panel["lines"].items()}
        assert needed["central-pure"] < needed["shuffle"] < needed["local"] / 2
        assert needed["central-pure"] < needed["central"]
        sent = {model: line["messages_per_user"] for model, line in panel["lines"].items()}
        assert sent["local"] == sent["central"] == sent["central-pure"] == 1 < sent["shuffle"]


def test_with_users_enough_the_error_is_below_alpha(body: dict[str, Any]) -> None:
    thresholds = body["results"]["panels"][0]["lines"]
    assert all(line["error"][-1] < body["configuration"]["alpha"] for line in thresholds.values())
    assert thresholds["local"]["error"][0] > thresholds["local"]["error"][-1]


def test_the_same_seed_makes_the_same_numbers() -> None:
    small = Setting((Panel("thresholds", (8, 32)),), runs=2)
    first, second = (FIGURES[NAME].compute(small, Task(seed=3)) for _ in range(2))
    assert first == second
    assert first != FIGURES[NAME].compute(small, Task(seed=4))


def test_picture_and_numbers_are_written(body: dict[str, Any], tmp_path: Path) -> None:
    picture, numbers = write(body, tmp_path)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert json.loads(numbers.read_text(encoding="utf-8"))["configuration"]["runs"] == 3


def test_the_command_prints_its_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = Setting((Panel("thresholds", (8, 32)),), runs=2)
    monkeypatch.setitem(FIGURES, NAME, replace(FIGURES[NAME], quick=tiny))
    assert main(["reproduce", NAME, "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    # A heading may be folded into several lines.
    assert all(word in printed for word in ("users", "that", "suffice"))
    assert f"{NAME}.png" in printed


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_learnt_exactly_by_its_own_target(name: str) -> None:
    problem = PROBLEMS[name]

    class Target:
        def predict(self, rows: np.ndarray) -> np.ndarray:
            return problem.label(rows)

    assert problem.error(Target()) == 0.0


def test_a_shuffled_vote_of_few_errs_as_the_local_one() -> None:
    few = Setting((Panel("decision-lists", (200, 220)),), runs=3)
    lines = FIGURES[NAME].compute(few, Task(seed=2))["results"]["panels"][0]["lines"]
    assert lines["shuffle"]["error"] == lines["local"]["error"]


def test_the_marks_of_the_axis_are_not_printed_over(body: dict[str, Any]) -> None:
    figure = FIGURES[NAME].draw(body)
    figure.draw_without_rendering()
    for panel in figure.subfigs[0].axes:
        assert all(not label.get_text() for label in panel.xaxis.get_ticklabels(minor=True))
        assert any(label.get_text() for label in panel.xaxis.get_ticklabels())


@pytest.mark.parametrize("name", [name for name in FIGURES if name.startswith("gkm21")])
def test_a_title_says_whose_figure_it_is(name: str) -> None:
    """[GKM21] has no figure of its own, so every one is croupier's."""
    figure = FIGURES[name]
    small = {
        NAME: Setting((Panel("thresholds", (8, 16)),), runs=1),
        "gkm21-histogram-error": user_level_histograms.Setting((800, 2_000), (100, 300), 2_000, 100, runs=2),
        "gkm21-users-epsilon": user_level_epsilon.Setting((0.5, 1.0), 1.0),
    }[name]
    drawn = finish(figure.draw(figure.compute(small, Task())), figure.source, quick=True)
    title = drawn.subfigs[0].get_suptitle()
    assert title.splitlines()[0] == figure.source
    assert figure.source.startswith("croupier's own figure, for [GKM21]")
    assert title.count("[GKM21]") == title.count("own figure") == 1
    [caption] = drawn.findobj(lambda artist: artist.get_gid() == CAPTION)
    assert QUICK in caption.get_text()
