"""What the page about valid reports says, it does."""

import math
import re
from pathlib import Path

import pytest

from cases import liar_table
from croupier import validity
from croupier.service.groups import Reason
from croupier.validity import Refusal, prio3_count, prio3_sum

PAGE = (Path(__file__).parents[2] / "docs/validity.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "validity.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert all(f"`{line}`" in PAGE for line in printed)
    assert len(printed) == 2


def test_types_have_the_bytes_of_the_table():
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` .* \| (\d+), (\d+), (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for name, arguments, *said in rows:
        sizes = getattr(validity, name)(*map(int, filter(None, arguments.split(", ")))).sizes
        assert [sizes.leader, sizes.helper, sizes.public] == list(map(int, said))


def test_every_refusal_is_explained():
    said = re.findall(r"^\| `([\w-]+)` \|", PAGE.partition("## Refusals")[2], re.MULTILINE)
    assert set(said) == set(Refusal)


def test_every_reason_of_the_service_is_explained():
    table = PAGE.partition("| reason | what was wrong |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == [reason.word for reason in Reason]


@pytest.mark.slow
def test_liars_move_a_mean_as_far_as_the_table_says():
    """What is measured is what the page says, and as near to what is computed as the noise of ten batches allows."""
    table = PAGE.partition("| trust, validity |")[2].partition("\n\n")[0].splitlines()[2:]
    said = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table]
    found = []
    for row in liar_table.rows():
        pairs = [(row.computed(liars), row.measured(liars)) for liars in (1, 10)]
        assert all(abs(computed - measured) < 0.02 for computed, measured in pairs)
        worth = "anywhere" if math.isinf(row.worth) else f"{row.worth:.3g}"
        found.append((row.trust, row.name, worth, *(f"{one:.2f}, {two:.2f}" for one, two in pairs)))
    assert said == found


def test_the_chances_of_a_false_proof_are_those_of_the_page():
    # Two polynomials of degree 2 (points - 1) that differ agree at no more points; the outputs are mixed by one more.
    for prio3, said in ((prio3_count(), -62), (prio3_sum(127), -59), (prio3_sum(2**16 - 1), -58)):
        points = prio3.circuit.points
        chance = (2 * (points - 1) + (prio3.circuit.checks > 1)) / (prio3.circuit.field.modulus - points)
        assert said - 1.2 < math.log2(chance) < said
