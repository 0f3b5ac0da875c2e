"""The figure of batches that grow: drawn from its numbers alone, and its order is that of the noises."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from croupier_papers import FIGURES, Task, write
from croupier_papers.growing_linear import MODELS, TREE, Case, Setting

pytestmark = pytest.mark.slow

TINY = Setting((Case(4_000, 3, 1.0, 3), Case(2_000, 2, 2.0, 2)))


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    parts: list[float] = []
    computed = FIGURES["linear-growing"].compute(TINY, Task(5, progress=parts.append))
    assert math.fsum(parts) == pytest.approx(1.0)
    return {"figure": "linear-growing"} | computed


def test_it_is_drawn_from_its_json_alone(body: dict[str, Any], tmp_path: Path) -> None:
    read = json.loads(json.dumps(body, allow_nan=False))
    assert read == body
    picture, numbers = write(read, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text(encoding="utf-8")) == body


def test_its_table_says_of_every_case_what_the_tree_loses_and_the_others_over_it(body: dict[str, Any]) -> None:
    table = FIGURES["linear-growing"].table
    assert table is not None
    headings, rows = table(body)
    assert [row[:3] for row in rows] == [["4,000", "3", "1"], ["2,000", "2", "2"]]
    for row, case in zip(rows, body["results"]["cases"], strict=True):
        told, models = dict(zip(headings, row, strict=True)), case["models"]
        tree = models[TREE]["regret"]
        assert told["tree"] == f"{tree:,.0f}"
        assert told["tuned, two servers"] == f"{models['growing, tuned, two servers']['regret'] / tree:.2f}"
        assert sum(heading in {label.removeprefix("growing, ") for label in MODELS} for heading in headings) == 4


def test_no_privacy_loses_least_and_proven_sets_hold(body: dict[str, Any]) -> None:
    for case in body["results"]["cases"]:
        models = case["models"]
        assert min(models, key=lambda label: models[label]["regret"]) == "LinUCB, no privacy"
        assert all(models[label]["held"] == 1.0 for label in models if "proven" in label)
