"""Extreme values on the command line: a result, or one line in the words of who typed them, within ten seconds."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from croupier.cli import main
from croupier.cli.options import MOST_USERS
from croupier.protocols import ROWS
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.simulation import ALL_POLICIES
from croupier.simulation.baselines import reads

PATIENCE = 10.0
"""Seconds of this process's own time: other work on the machine does not count."""

EPSILONS = ("1e-4", "1e-6", "1e-300", "500")
SCALARS = [name for name, row in ROWS.items() if not row.vectors]
SHARED = [name for name in SCALARS if "two-servers" in ROWS[name].trusts]
OVER = [name for name in SCALARS if name != "counted-messages"]
"""What a counter can use: its errors must not all be to one side."""
MEANS = ("--means", "0.3,0.7", "--horizon", "2000")
Case = tuple[str, ...]


def simulations() -> list[Case]:
    few = ("--means", "0.3,0.7", "--horizon", "20000", "--runs", "3", "--json")
    return [
        ("simulate", "--policy", name, "--epsilon", e, *constants, *few)
        for name in ALL_POLICIES
        for e in EPSILONS
        for constants in ([("--constants", kind) for kind in CONSTANTS] if "constants" in reads(name, None) else [()])
    ] + [
        ("simulate", "--policy", "split", "--protocol", name, "--trust", "two-servers", "--epsilon", e, *few)
        for name in SHARED
        for e in EPSILONS
    ]


def prices() -> list[Case]:
    usual = [("price", name, "--users", "1000", "--epsilon", e) for name in ROWS for e in EPSILONS]
    crowds = [("price", name, "--users", str(10**12), "--epsilon", e) for name in ROWS for e in ("1", *EPSILONS)]
    return usual + crowds


def plans() -> list[Case]:
    few = ("--arms", "3", "--lift", "0.2", "--runs", "3")
    over = [*SCALARS, *(f"{name} --trust two-servers" for name in SHARED)]
    return [("plan", *few, "--protocol", *name.split(), "--epsilon", e) for name in over for e in EPSILONS]


def audits() -> list[Case]:
    few = ("--users", "20", "--trials", "60")
    return [("audit", name, *few, "--epsilon", e) for name in ROWS for e in EPSILONS]


def counts() -> list[Case]:
    few = ("--users", "1000", "--runs", "2")
    most = ("count", "--users", str(MOST_USERS), "--epsilon", "1", "--runs", "1")
    over = [*OVER, *(f"{name} --trust two-servers" for name in SHARED)]
    return [most, *(("count", *few, "--over", *name.split(), "--epsilon", e) for name in over for e in EPSILONS)]


def histograms() -> list[Case]:
    return [
        ("histogram", "FILE", "--buckets", "4", "--seed", "1", "--model", model, "--epsilon", e)
        for model in ("shuffle", "local", "central", "central-pure")
        for e in EPSILONS
    ]


WHOLE: dict[str, Callable[[], list[Case]]] = {
    "simulate": simulations,
    "price": prices,
    "plan": plans,
    "audit": audits,
    "count": counts,
    "histogram": histograms,
}

QUICK: list[Case] = [
    *(
        ("simulate", "--policy", "dist-rdp-se", "--epsilon", "500", "--constants", constants, *MEANS)
        for constants in CONSTANTS
    ),
    ("simulate", "--policy", "shuffle-dp-se", "--epsilon", "500", *MEANS),
    ("simulate", "--policy", "dp-klucb", "--epsilon", "1e-300", *MEANS),
    ("price", "laplace", "--users", str(10**12), "--epsilon", "1"),
    ("price", "laplace-vectors", "--users", "1000", "--epsilon", "1e-300"),
    ("price", "laplace-vectors", "--users", "1000", "--epsilon", "1e-100"),
    *(("price", name, "--users", "1000", "--epsilon", e) for name in SCALARS for e in ("1e-300", "500")),
    ("price", "skellam", "--users", str(10**12), "--epsilon", "1"),
    ("plan", "--arms", "3", "--lift", "0.2", "--runs", "3", "--protocol", "local-laplace", "--epsilon", "1e-300"),
    ("audit", "central-laplace", "--users", "20", "--trials", "60", "--epsilon", "1e-300"),
    *(("count", "--users", "1000", "--runs", "2", "--over", name, "--epsilon", "1e-6") for name in OVER),
    ("count", "--users", "1000", "--runs", "2", "--over", "skellam", "--epsilon", "500"),
    ("count", "--users", str(10**9), "--runs", "1", "--epsilon", "1"),
    *(
        ("count", "--users", "1000", "--runs", "2", "--over", name, "--trust", "two-servers", "--epsilon", "500")
        for name in SHARED
    ),
    *(
        ("simulate", "--policy", "sdp-ae", "--protocol", name, "--trust", "two-servers", "--epsilon", "500", *MEANS)
        for name in SHARED
    ),
    ("plan", "--arms", "2", "--lift", "1e-9", "--runs", "5", "--epsilon", "1"),
    ("plan", "--arms", "2", "--lift", "1e-14", "--runs", "5", "--epsilon", "1", "--policy", "dp-klucb"),
]


class TooLate(BaseException):
    """Nothing that a command may catch."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Break off what takes more of this process's own time than that."""

    def late(*_: object) -> None:
        raise TooLate(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def check(case: Case, capsys: pytest.CaptureFixture[str], items: str) -> None:
    """A result; or one short line that names a value as it was given."""
    start = time.process_time()
    with patience(PATIENCE):
        status = main([items if word == "FILE" else word for word in case])
    assert time.process_time() - start < PATIENCE
    said = capsys.readouterr()
    if status in (0, 1):
        assert said.out.strip()
        assert "Traceback" not in said.err
        return
    line = said.err.strip()
    assert status == 2
    assert "\n" not in line
    assert len(line) < 400
    given = dict(pairwise(case))
    named = re.findall(r"\b(epsilon|users|lift) = ([-+.,e\d]+|inf|nan)", line)
    assert named, line
    for name, value in named:
        assert float(value.rstrip(".,").replace(",", "")) == float(given[f"--{name}"]), line


@pytest.fixture
def items(tmp_path) -> str:
    path = tmp_path / "items.txt"
    path.write_text("\n".join("abc"[i % 3] for i in range(300)))
    return str(path)


@pytest.mark.parametrize("case", QUICK, ids=" ".join)
def test_an_extreme_value_ends_in_a_result_or_in_the_users_words(case: Case, capsys, items) -> None:
    check(case, capsys, items)


@pytest.mark.evidence
@pytest.mark.parametrize("command", WHOLE)
def test_every_extreme_value_ends_in_a_result_or_in_the_users_words(command: str, capsys, items) -> None:
    failures = []
    for case in WHOLE[command]():
        try:
            check(case, capsys, items)
        except (Exception, TooLate) as error:
            failures.append(f"{' '.join(case)}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
