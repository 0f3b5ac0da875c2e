"""What `docs/wire.md` and `docs/format.md` say in tables and numbers is what the code does."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from cases import wire_vectors as making
from croupier.bandits import Metrics
from croupier.client import steps
from croupier.client.limits import Limits
from croupier.messages import signing, wire
from croupier.messages.sealing import SUITES
from croupier.noise import FAMILIES
from croupier.privacy.composition import _step
from croupier.protocols import histogram, padding, shuffled_laplace
from croupier.protocols.histograms.universe import UNIVERSES
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.service import front_for_devices, http_operations
from croupier.service.groups import Reason
from croupier.service.problems import PROBLEMS
from croupier.validity import prio3_count, prio3_histogram, prio3_sum

DOCS = Path(__file__).parents[2] / "docs"
WIRE, FORMAT = ((DOCS / name).read_text(encoding="utf-8") for name in ("wire.md", "format.md"))


def table(text, header):
    """The rows of the table under this header, as cells."""
    lines = text[text.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_default_limits_are_those_of_the_code():
    said = {"true": True, "false": False, "all three": tuple(SUITES)}
    rows = {
        words(name)[0]: said[value] if value in said else tuple(words(value)) or float(value)
        for name, value, _ in table(WIRE, "| limit | default")
    }
    assert rows == asdict(Limits())


def test_the_suites_are_those_of_the_code():
    rows = table(WIRE, "| number | suite")
    assert [(int(row[0]), words(row[1])[0], int(row[5])) for row in rows] == [
        (suite.number, name, suite.overhead) for name, suite in SUITES.items()
    ]


def test_every_refusal_that_a_client_can_meet_is_in_the_table():
    paths = {
        "/experiments/{name}/assignments",
        "/experiments/{name}/reports",
        "/experiments/{name}/configurations/{hash}",
    }
    asked = [one for one in http_operations.FRONT if one.path in paths]
    asked += [one for one in http_operations.ANALYZER if (one.method, one.path) == ("get", "/experiments/{name}")]
    assert len(asked) == 4
    told = {token for row in table(WIRE, "| TOKEN |") for token in words(row[0])}
    assert {token for one in asked for token in one.problems} <= told <= set(PROBLEMS)
    for row in table(WIRE, "| TOKEN |"):
        for token, status in re.findall(r"`([\w-]+)` \((\d+)\)", row[0]):
            assert PROBLEMS[token].status == int(status)


@pytest.mark.parametrize(
    ("phrase", "value"),
    [
        ("more than {} slots", padding.MOST_SLOTS),
        ("at most 2^{} bytes", round(math.log2(wire.LONGEST_UPLOAD))),
        ("longer than 2^{} characters", round(math.log2(signing.LONGEST))),
        ("{} seconds at most", f"{front_for_devices.LONGEST_HOLD:g}"),
        ("h ≥ {} and", SplitAndMix.least_users),
        ("P(Z > cap) ≤ {}·δ", padding.CAP_SHARE),
        ("The reference tries {} times", steps.ATTEMPTS),
        ("{} seconds apart at first", steps.FIRST_PAUSE),
        ("never more than {}.", f"{steps.LONGEST_PAUSE:g}"),
    ],
)
def test_numbers_in_the_text_are_the_codes_constants(phrase, value):
    assert phrase.format(value) in WIRE.replace("\n", " ").replace("  ", " ")


def test_the_step_of_the_grid_is_the_codes():
    assert "s = 0.004/√(11.51·k)" in WIRE
    assert all(_step(k) == pytest.approx(0.004 / math.sqrt(11.51 * k), rel=2e-4) for k in (1, 2, 20))


def test_what_the_text_says_of_samplers_is_arithmetic():
    cost = {bits: (1.0 + math.e) * 2.0**-bits for bits in (53, 96)}
    assert f"{1e4 * cost[53]:.0e}" == "4e-12"
    assert 1e4 * cost[53] > shuffled_laplace(epsilon=1.0).delta
    assert 1e6 * cost[96] < 1e-22


def test_the_keys_of_mechanisms_are_those_of_the_tables():
    described = {
        word for row in table(FORMAT, "| key | meaning |\n|---|---|\n| `version` | 1 |") for word in words(row[0])
    }
    assert described == set(shuffled_laplace(epsilon=1.0).plan(users=40).to_dict())
    body = histogram(epsilon=1.0, universe=("a", "b")).plan(users=100).to_dict()
    rows = table(FORMAT, "| key | meaning |\n|---|---|\n| `version`, `kind` |")
    described = {word for row in rows for word in words(row[0])}
    assert {word for word in described if "." not in word} == set(body)
    assert {f"ballot.{key}" for key in body["ballot"] if key != "kind"} == described - set(body)
    universes = next(row for row in rows if row[0] == "`universe`")[1]
    assert {json.loads(f'"{kind}"') for kind in re.findall(r'"kind":"(\w+)"', universes)} == set(UNIVERSES)
    rows = table(FORMAT, "| key | meaning |\n|---|---|\n| `kind`, `version` |")
    several = Metrics.of({"a": {"role": "primary"}, "b": {}}, 1.0).plan(users=40).to_dict()
    assert {word for row in rows for word in words(row[0])} == set(several)


def test_the_families_named_are_families_of_the_code():
    named = {words(row[0])[0] for row in table(WIRE, "| family | P(X = x)")}
    assert named == {"Binomial", "SparseBits", "Poisson", "Polya", "PolyaDifference"} <= set(FAMILIES)


def test_every_group_of_vectors_is_in_the_table_and_every_link_leads_somewhere():
    told = {word for row in table(WIRE, "| name | what it holds") for word in words(row[0])} - {"MECHANISM SUITE"}
    assert told == set(making.GROUPS)
    for text in (WIRE, FORMAT):
        for target in re.findall(r"\]\(([^)]+)\)", text):
            file, _, heading = target.partition("#")
            found = (DOCS / file).read_text(encoding="utf-8") if file else text
            headings = {
                re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in re.findall(r"^#+ (.*)$", found, re.M)
            }
            assert not heading or heading in headings, target


def test_proofs_have_the_bytes_and_reasons_of_the_page():
    sizes = {"Prio3Count": prio3_count().sizes, "Prio3Sum": prio3_sum(127).sizes}
    for _, kind, _, leader, helper, public in table(WIRE, "| the numbers | type |")[:2]:
        found = sizes[kind.split(",")[0]]
        assert (int(leader.split(" ")[0]), int(helper), int(public)) == (found.leader, found.helper, found.public)
    shown = dict(table(WIRE, "| verifier share | bytes |"))
    assert [int(shown[kind]) for kind in sizes] == [found.verifier for found in sizes.values()]
    for length in (1, 2, 3, 5, 20, 32, 100, 1000):
        histogram = prio3_histogram(length)
        chunk, points = histogram.circuit.chunk_length, histogram.circuit.points
        assert histogram.sizes.leader == 16 * (length + 2 * chunk + 2 * points - 1) + 32
        assert histogram.sizes.verifier == 16 * (2 * chunk + 2) + 32
        choices = {-(-length // (2**k - 1)) for k in range(1, length.bit_length() + 1)}
        cost = {one: 2 * one + 2 * 2 ** (-(-length // one)).bit_length() for one in choices}
        assert chunk == min(choices, key=lambda one: (cost[one], one))
    assert "5 items: c = 2, 288 bytes; 32: c = 5; 65,536: c = 258." in WIRE
    assert [prio3_histogram(length).circuit.chunk_length for length in (5, 32, 65_536)] == [2, 5, 258]
    reasons = re.findall(r"`0([1-9])` (\w+)", table(WIRE, "| length | content |\n|---|---|\n| 1 a report")[0][1])
    assert [(int(code), word) for code, word in reasons] == [(reason.value, reason.word) for reason in Reason]
