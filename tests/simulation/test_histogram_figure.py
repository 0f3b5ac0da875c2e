"""[GKM21]'s histogram figure: it computes, says how, and shows what the paper proves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from croupier_papers import FIGURES, Task, compute, user_level_histograms, write
from croupier_papers.user_level_histograms import LINES, Setting

pytestmark = pytest.mark.slow

NAME = "gkm21-histogram-error"


def body_of(setting: Setting, seed: int = 0) -> dict:  # type: ignore[type-arg]
    """The figure's numbers for one setting."""
    parts: list[float] = []
    body = user_level_histograms.compute_errors(setting, Task(seed, progress=parts.append))
    assert sum(parts) == pytest.approx(1.0)
    return body


def test_the_picture_is_drawn_from_the_numbers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Setting((800, 2_000), (100, 300), 2_000, 100, runs=2)
    monkeypatch.setitem(FIGURES, NAME, replace(FIGURES[NAME], quick=tiny))
    body = compute(NAME, Task(), quick=True)
    assert body["configuration"]["runs"] == 2
    picture, numbers = write(body, tmp_path)
    assert picture.stat().st_size > 10_000
    assert numbers.stat().st_size > 1_000
    headings, rows = FIGURES[NAME].table(body)  # type: ignore[misc]
    assert {len(row) for row in rows} == {len(headings)}
    assert [row[0] for row in rows] == list(LINES)


def test_the_same_seed_gives_the_same_numbers() -> None:
    tiny = Setting((800,), (100,), 800, 100, runs=2)
    assert body_of(tiny, 3) == body_of(tiny, 3) != body_of(tiny, 4)


def test_local_grows_as_the_root_of_the_users_and_shuffle_not_with_the_universe() -> None:
    setting = Setting((2_000, 50_000), (100, 100_000), 10_000, 1_000, runs=12)
    found = body_of(setting)["results"]

    def errors(name: str, panel: str) -> np.ndarray:
        return np.asarray([point["error"] for point in found[name][panel]])

    local = errors("local", "users")
    # A ratio of 5; the mean of twelve maxima varies by about a tenth.
    assert 3.5 < local[1] / local[0] < 7.0
    for name in ("shuffle, under, tight", "shuffle, under, coins", "central, stable"):
        flat = errors(name, "items")
        assert 0.6 < flat[1] / flat[0] < 1.4, name
    stable = errors("central, stable", "items")
    assert np.all(errors("shuffle, under, tight", "items") < 4 * stable)
    assert np.all(errors("shuffle, unbiased, tight", "items") < 4 * stable)
    assert np.all(errors("shuffle, as published", "items") > 3 * errors("shuffle, under, tight", "items"))
    for name, panels in found.items():
        for points in panels.values():
            assert all(point["error"] <= point["radius"] for point in points), name
