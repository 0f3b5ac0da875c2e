"""Results as people use them: rows, DataFrames, tables in notebooks, and reprs worth reading."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from croupier.bandits import POLICIES, policy
from croupier.continual import counter
from croupier.frames import Rows
from croupier.noise import seeded
from croupier.protocols import Items, counted_messages, histogram, laplace, shuffled_bits, shuffled_vectors
from croupier.simulation import Bernoulli, Run, prices, simulate
from croupier.simulation.counting import CountingError, TreeSum
from croupier.simulation.linear_runner import LinearRun, simulate_linear
from croupier.simulation.linear_worlds import Sphere


@pytest.fixture
def run() -> Run:
    played = policy("dp-klucb", arms=2, horizon=500, epsilon=1.0, runs=3, binary=True)
    return simulate(played, Bernoulli([0.2, 0.8]), seed=1, checkpoints=5)


@pytest.fixture
def linear() -> LinearRun:
    return simulate_linear("linucb", Sphere(3, 5, seed=1), 320, seed=1)


@pytest.fixture
def counted() -> CountingError:
    plan = counter(1000, 2, epsilon=1.0)
    return CountingError.measure(lambda run: TreeSum(plan, seeded(run)), np.ones(1000), runs=3)


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for pandas: a DataFrame is the rows that it was given."""
    frame = SimpleNamespace(DataFrame=lambda rows: SimpleNamespace(rows=rows, set_index=lambda key: (key, rows)))
    monkeypatch.setitem(sys.modules, "pandas", frame)


def test_every_result_has_a_frame(run: Run, linear: LinearRun, counted: CountingError, pandas: None) -> None:
    assert [row["run"] for row in run.frame().rows] == [0, 1, 2]
    assert run.frame().rows[1]["regret"] == run.regret[1]
    key, curve = run.curve_frame()
    assert (key, len(curve)) == ("users", len(run.checkpoints))
    assert curve[-1]["run 2"] == run.curve[2, -1]
    release = laplace(epsilon=1.0).plan(100).run(np.full(100, 0.25), seeded(1))
    assert release.frame().rows[0]["sum"] == release.sum
    mechanism = histogram(universe=Items(("a", "b")), epsilon=1.0).plan(100)
    counts = mechanism.run(["a"] * 60 + ["b"] * 40, seeded(1))
    assert [row["item"] for row in counts.frame().rows] == ["a", "b"]
    assert len(prices(100, epsilon=0.5, constants=["tight"]).frame().rows) == 17
    assert linear.frame().rows[-1] == {"users": 320, "regret": linear.regret[-1]}
    assert len(linear.frame().rows) == len(linear.users)
    (errors,) = counted.frame().rows
    assert errors["rms_error_worst"] == counted.rms_error_worst
    assert "within" not in errors


def test_without_pandas_one_line_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        run.frame()


def test_real_pandas_takes_the_rows(run: Run, linear: LinearRun, counted: CountingError) -> None:
    import pandas

    for result in (run, linear, counted):
        assert isinstance(result.frame(), pandas.DataFrame)
        assert result.frame().to_dict("records") == result.rows
    assert list(run.curve_frame().columns) == ["run 0", "run 1", "run 2"]


def test_notebooks_show_a_table_and_no_markup_of_strangers(run: Run, linear: LinearRun, counted: CountingError) -> None:
    assert "<th>regret_mean</th>" in run._repr_html_()
    assert "<th>held</th>" in linear._repr_html_()
    assert linear._repr_html_().count("<tr>") == 2, "a long run is one line"
    assert "<th>rms_error_worst</th>" in counted._repr_html_()
    assert "<script>" not in Rows([{"<script>": "<script>"}])._repr_html_()


def test_a_release_says_its_estimate() -> None:
    release = laplace(epsilon=1.0).plan(100).run(np.full(100, 0.25), seeded(1))
    low, high = release.interval()
    assert low < release.sum < high
    assert repr(release) == f"{release.sum:.1f} ± 3.2 (95 %) of 100 users, 1-DP when one report is replaced, laplace"
    over = counted_messages(epsilon=1.0).plan(100).run(np.ones(100), seeded(1))
    assert " + 0 (95 %) of 100 users, (1, 1e-6)-DP when one report is replaced, counted-messages" in repr(over)
    vectors = shuffled_vectors(epsilon=1.0, dimension=2).plan(30).run(np.zeros((30, 2)), seeded(1))
    assert repr(vectors).startswith("[")
    assert len(vectors.rows) == 2


def test_a_histogram_says_its_largest_counts() -> None:
    mechanism = histogram(universe=Items(("a", "b", "c", "d")), epsilon=1.0).plan(100)
    text = repr(mechanism.run(["a"] * 60 + ["b"] * 40, seeded(1)))
    assert text.startswith("a ")
    assert "of 100 users, (1, 1e-6)-DP when one report is replaced, histogram in the shuffle model" in text


def test_protocols_and_policies_show_no_addresses() -> None:
    target = shuffled_bits(epsilon=0.5, honest_fraction=0.9)
    assert repr(target).startswith("shuffled-bits(epsilon=0.5, delta=1e-06, constants='tight', honest_fraction=0.9; ")
    for thing in (target, target.row, POLICIES["dp-klucb"]):
        assert "0x" not in repr(thing)


def test_a_run_says_what_came_of_it(run: Run) -> None:
    assert repr(run).startswith("dp-klucb in Bernoulli([0.2 0.8]): regret ")
    assert "one standard error, 3 runs of 500 users" in repr(run)


def test_a_notebook_table_that_cites_a_paper_ends_with_author_and_title() -> None:
    shown = Rows([{"protocol": "laplace", "paper": "[CZ23] Thm 1"}])._repr_html_()
    assert shown.endswith("ICLR 2023, arXiv 2206.05772.</p>")
    assert "Chowdhury, Zhou: Distributed Differential Privacy" in shown


def test_a_run_that_ended_with_its_decision_tells_how_many_users_it_had() -> None:
    options = {"epsilon": 1.0, "binary": True, "trust": "two-servers"}
    run = simulate(policy("split", arms=2, horizon=6000, runs=5, **options), Bernoulli([0.3, 0.6]), seed=1)
    users = [row["users"] for row in run.rows]
    assert run.summary()["horizon"] == 6000
    assert run.summary()["users_mean"] == np.mean(users)
    assert f"5 runs of {min(users)} to {max(users)} users" in repr(run)
