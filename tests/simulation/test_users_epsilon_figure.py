"""The figure of users against ε: the powers are those of [GKM21] Theorems 29 and 30, the numbers are in its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

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


def test_that_many_users_do_suffice_for_theorem_30(body: dict[str, Any]) -> None:
    """Permute-and-flip exactly: one rule with its votes, all others for one rival, the rest of the list without any."""
    size = body["configuration"]["hypotheses"]
    line = body["results"]["lines"]["central-pure"]
    for epsilon, users in zip(body["configuration"]["epsilon"], line["users_needed"], strict=True):
        failure = 0.0
        for votes in range(users + 1):
            chance = binom.pmf(votes, users, 0.9)
            if 2 * votes <= users:
                failure += chance
            elif chance > 1e-12:
                rival, none = np.exp(-epsilon * (2 * votes - users) / 2), np.exp(-epsilon * votes / 2)
                accepted = np.arange(60)
                law = binom.pmf(accepted, size - 2, none)
                won = (1 - rival) * (law / (1 + accepted)).sum() + rival * (law / (2 + accepted)).sum()
                failure += chance * (1 - won)
        assert failure <= 0.1 / 3


def test_picture_numbers_and_table_agree(body: dict[str, Any], tmp_path: Path) -> None:
    picture, numbers = write(body, tmp_path)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert json.loads(numbers.read_text(encoding="utf-8"))["results"] == body["results"]
    headings, rows = table(body)
    assert all(len(row) == len(headings) for row in rows)
    assert rows[0][1] == f"{body['results']['lines']['local']['users_needed'][0]:,}"
