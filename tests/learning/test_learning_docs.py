"""docs/learning.md claims only what runs, and the room is light."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from croupier.learning import Stable, Thresholds, Voting

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
    from croupier.learning import DecisionListQueries, Seed

    number = r" ([\d.,]+) \|"
    rows = re.findall(rf"^\| (shuffle|local|central|central-pure) \|{4 * number}$", TEXT, re.MULTILINE)
    assert len(rows) == 8
    ballots = [
        learner.ballot(columns=columns, seed=Seed.of(0), alpha=0.2, beta=0.1 / 3)
        for learner, columns in (
            (Stable(Thresholds()), 1),
            (Stable(Thresholds(cuts=2**19)), 1),
            (DecisionListQueries(), 10),
        )
    ]
    for model, epsilon, *stated in rows:
        voting = Voting(float(epsilon), model=model)
        found = [voting.users_needed(ballot, agreement=0.9, failure=0.1 / 3) for ballot in ballots]
        assert [int(number.replace(",", "")) for number in stated] == found, (model, epsilon)


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
    )
    assert run(code).split() == ["[]", "True", "True", "True", "False"]
