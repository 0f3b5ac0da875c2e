"""The tables of errors in docs/histograms.md, from the mechanisms themselves."""

import re
from pathlib import Path

import pytest

from croupier.protocols import Numbers, histogram, selection

PAGE = (Path(__file__).parents[2] / "docs/histograms.md").read_text("utf-8")
USERS = 10_000


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


ERRORS = [[number(cell) for cell in row] for row in re.findall(r"^\|" + r" ([\d.,]+) \|" * 7 + "$", PAGE, re.MULTILINE)]
CHOICES = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([\d,]+) \| [^|]+ \| ([\d,]+) \|$", PAGE, re.MULTILINE)


def test_both_tables_are_found() -> None:
    assert len(ERRORS) == 6
    assert [row[0] for row in CHOICES] == ["shuffle", "central", "central-pure", "local"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ERRORS, ids=lambda row: f"{row[0]:g}-{row[1]:g}")
def test_the_worst_of_all_counts_errs_as_the_page_says(row: list[float]) -> None:
    epsilon, items = row[0], int(row[1])
    models = [{"side": "over"}, {"side": "under"}, {"model": "central"}, {"model": "central-pure"}, {"model": "local"}]
    planned = [histogram(universe=Numbers(items), epsilon=epsilon, **model).plan(USERS) for model in models]
    radii = [mechanism.radius(0.05) for mechanism in planned]
    # Never above the truth, the count errs by the whole noise of an item that somebody holds.
    radii[1] = planned[1].oracle.noise.tail_quantile(0.05 / min(items, USERS))
    assert [round(radius) for radius in radii] == row[2:]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "tight", "published"), CHOICES, ids=[row[0] for row in CHOICES])
def test_the_winner_is_as_near_the_best_as_the_page_says(model: str, tight: str, published: str) -> None:
    within = 1.0 if model in ("local", "central-pure") else 0.99
    for constants, epsilon, cell in (("tight", 1.0, tight), ("published", within, published)):
        mechanism = selection(epsilon=epsilon, size=2**20, model=model, constants=constants).plan(USERS)
        assert mechanism.error(0.05) == number(cell)
