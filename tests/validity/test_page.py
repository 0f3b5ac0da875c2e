"""What the page about valid reports says, it does."""

import math
import re
from pathlib import Path

from croupier import validity
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
    assert set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)) == set(Refusal)


def test_the_chances_of_a_false_proof_are_those_of_the_page():
    # Two polynomials of degree 2 (points - 1) that differ agree at no more points; the outputs are mixed by one more.
    for prio3, said in ((prio3_count(), -62), (prio3_sum(127), -59), (prio3_sum(2**16 - 1), -58)):
        points = prio3.circuit.points
        chance = (2 * (points - 1) + (prio3.circuit.checks > 1)) / (prio3.circuit.field.modulus - points)
        assert said - 1.2 < math.log2(chance) < said
