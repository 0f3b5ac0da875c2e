"""The papers: one table, which the code cites by key and the document agrees with."""

import re
from pathlib import Path

import pytest

from croupier.protocols import ROWS
from croupier.references import KEY, REFERENCES, cited
from croupier.simulation import ALL_POLICIES

ROOT = Path(__file__).parent.parent
PAPERS = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
PLAIN = " ".join(PAPERS.split())


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda reference: reference.key)
def test_the_document_says_the_same_of_every_paper(reference) -> None:
    places = [match.end() for match in re.finditer(re.escape(f"[{reference.key}]"), PLAIN)]
    stated = f"{reference.authors}. *{reference.title}.*"
    entry = next(PLAIN[place : place + 700] for place in places if stated in PLAIN[place : place + 20 + len(stated)])
    assert str(reference.year) in entry
    assert not reference.arxiv or reference.arxiv in entry


def test_every_key_in_the_document_is_in_the_table() -> None:
    assert set(KEY.findall(PAPERS)) == set(REFERENCES)


def test_a_paper_is_cited_once_and_an_unknown_key_not_at_all() -> None:
    unknown = "[" + "XYZ99]"
    assert [reference.key for reference in cited(f"[GKM21], [CZ23] Thm 1, [CZ23], {unknown}")] == ["GKM21", "CZ23"]


def test_a_family_name_keeps_its_small_words() -> None:
    assert str(REFERENCES["Neu51"]).startswith("[Neu51] von Neumann: ")
    assert str(REFERENCES["FNNT22"]).startswith("[FNNT22] Feldman, Nelson, Nguyễn, Talwar: ")


def test_a_row_prints_no_key_that_nobody_explains() -> None:
    rows = [*ROWS.values(), *ALL_POLICIES.values()]
    assert any(KEY.findall(row.paper) for row in rows)
    assert not any(KEY.findall(repr(row)) for row in rows)
