"""The figure of users against ε: the powers are those of [GKM21] Theorems 29 and 30, the numbers are in its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from croupier.learning import Seed, Stable, Thresholds, Voting
from croupier_papers import FIGURES, Task, write
from croupier_papers.user_level_epsilon import Setting, table
from croupier_papers.user_level_learners import MODELS

pytestmark = pytest.mark.slow

NAME = "gkm21-users-epsilon"


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    done: list[float] = []
    made = FIGURES[NAME].compute(Setting((0.02, 0.04, 0.08, 1.0), 0.08), Task(progress=done.append))
    assert sum(done) == pytest.approx(1.0)
    return {"figure": NAME} | made


def test_the_powers_of_epsilon_are_those_of_the_theorems(body: dict[str, Any]) -> None:
    lines = body["results"]["lines"]
    assert set(lines) == set(MODELS)
    assert lines["local"]["slope"] == pytest.approx(-2, abs=0.05)
    assert lines["central-pure"]["slope"] == pytest.approx(-1, abs=0.08)
    assert lines["central"]["slope"] == pytest.approx(-1, abs=0.08)
    assert lines["shuffle"]["slope"] == pytest.approx(-1, abs=0.15)


def test_the_numbers_are_what_is_planned(body: dict[str, Any]) -> None:
    ballot = Stable(Thresholds()).ballot(columns=1, seed=Seed.of(0), alpha=0.2, beta=0.1 / 3)
    for model in ("local", "central-pure", "shuffle"):
        voting = Voting(1.0, model=model)
        needed = voting.users_needed(ballot, agreement=0.9, failure=0.1 / 3)
        line = body["results"]["lines"][model]
        assert line["users_needed"][-1] == needed
        sent = voting.plan(ballot, needed, Seed.of(0)).messages_per_user
        assert line["messages_per_user"][-1] == pytest.approx(sent, rel=1e-5)


def test_picture_numbers_and_table_agree(body: dict[str, Any], tmp_path: Path) -> None:
    picture, numbers = write(body, tmp_path)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert json.loads(numbers.read_text(encoding="utf-8"))["results"] == body["results"]
    headings, rows = table(body)
    assert all(len(row) == len(headings) for row in rows)
    assert rows[0][1] == f"{body['results']['lines']['local']['users_needed'][0]:,}"
