"""docs/learning.md claims only what runs, and the room is light."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from croupier.cli import main
from croupier.learning import DecisionListQueries, Seed, Stable, Thresholds, Voting
from croupier.protocols import selection

TEXT = (Path(__file__).parents[2] / "docs" / "learning.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_there_is_an_example() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_run(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "learning.md", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.slow
def test_the_table_of_users_is_what_is_computed() -> None:
    number = r" ([\d.,]+(?: \*)?) \|"
    rows = re.findall(rf"^\| (shuffle|local|central|central-pure) \|{7 * number}$", TEXT, re.MULTILINE)
    assert len(rows) == 8
    learners = ((Stable(Thresholds()), 1), (Stable(Thresholds(cuts=2**19)), 1), (DecisionListQueries(), 10))
    ballots = [
        learner.ballot(columns=columns, seed=Seed.of(0), alpha=0.2, beta=0.1 / 3) for learner, columns in learners
    ]
    for model, epsilon, *stated in rows:
        voting, found = Voting(float(epsilon), model=model), []
        for ballot in ballots:
            users = voting.users_needed(ballot, agreement=0.9, failure=0.1 / 3)
            election = voting.plan(ballot, users, Seed.of(0))
            sent = election.messages_per_user
            digits = f"{sent:.1f}" if 1 < sent < 10 else f"{sent:,.0f}"
            found += [f"{users:,}", digits + (" *" if election.simulation_only else "")]
        assert stated == found, (model, epsilon)


@pytest.mark.slow
def test_other_numbers_of_the_page_are_what_is_computed() -> None:
    ballot = Stable(Thresholds(cuts=2**19)).ballot(columns=1, seed=Seed.of(0), alpha=0.2, beta=0.1 / 3)
    voting = Voting(1.0, route="bits")
    users = voting.users_needed(ballot, agreement=0.9, failure=0.1 / 3)
    assert f"take {users:,} users with {voting.plan(ballot, users, Seed.of(0)).messages_per_user:.1f} messages" in TEXT
    chosen = {model: selection(epsilon=1.0, size=2, model=model).plan(4) for model in ("local", "shuffle")}
    heard = {model: 1 - mechanism.unanimous_failure for model, mechanism in chosen.items()}
    words = " ".join(TEXT.split())
    assert f"heard in {heard['local']:.0%} of local votes".replace("%", " %") in words
    assert f"and in {heard['shuffle']:.0%} of votes with shuffled noise".replace("%", " %") in words


def test_commands_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    commands = [line for line in TEXT.splitlines() if line.startswith("croupier ")]
    assert commands
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
        assert "Learnt: again is 1 where" in capsys.readouterr().out


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_the_room_is_light_and_works_without_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import croupier.learning as learning\n"
        "from croupier.checks import CroupierError\n"
        "print(sorted(m for m in ('scipy.stats', 'scipy.sparse', 'matplotlib') if m in sys.modules))\n"
        "print(learning.race([0.5, 0.5], learning.Seed.of(1)) in (0, 1))\n"
        "try:\n"
        "    hasattr(learning, 'PrivateClassifier')\n"
        "except ImportError as error:\n"
        "    print(isinstance(error, CroupierError))\n"
        "try:\n"
        "    from croupier.learning import PrivateClassifier\n"
        "except ImportError as error:\n"
        "    print('install croupier[learning]' in str(error))\n"
        "print(hasattr(learning, 'Nothing'))\n"
        "from croupier.learning import *\n"
        "print('Voting' in dir(), 'PrivateClassifier' in dir())\n"
    )
    assert run(code).split() == ["[]", "True", "True", "True", "False", "True", "False"]
    everything: dict[str, object] = {}
    exec("from croupier.learning import *", everything)
    assert {"Voting", "PrivateClassifier"} <= set(everything)
