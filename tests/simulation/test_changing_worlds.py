"""Worlds that change with time: what is drawn, and what regret is told against."""

import json
from pathlib import Path

import numpy as np
import pytest

from croupier.bandits import KLUCB, Ladder, policy
from croupier.bandits.policy import Integers
from croupier.checks import InvalidParameter
from croupier.cli import main
from croupier.simulation import Bernoulli, Changing, Drifting, simulate, simulated_policy, world, worlds
from croupier.simulation.cell import Cell, repeat, run_cell
from croupier.simulation.data import write_synthetic_letor, write_synthetic_open_bandit
from croupier.simulation.sweep import Sweep


class Switch(Changing):
    """The better arm changes after so many users."""

    def __init__(self, after: int) -> None:
        self.after, self.means = after, np.array([0.1, 0.9])

    def means_at(self, run: int, times: Integers) -> np.ndarray:
        return np.where(times[:, None] < self.after, self.means, self.means[::-1])


class Frozen(Changing):
    """A changing world that happens to stay as it is."""

    def __init__(self, means: list[float]) -> None:
        self.means = np.array(means)

    def means_at(self, run: int, times: Integers) -> np.ndarray:
        return np.broadcast_to(self.means, (len(times), len(self.means)))


def test_a_world_that_stays_has_the_regret_of_coins() -> None:
    coins, frozen, start = Bernoulli([0.2, 0.5, 0.9]), Frozen([0.2, 0.5, 0.9]), np.array([0.0, 7.0])
    end = np.array([[3.0, 9.0], [8.0, 20.0]])
    for arm in range(3):
        assert frozen.regret(arm, start, end) == pytest.approx(coins.regret(arm, start, end))
    assert frozen.gaps(2, 5).tolist() == coins.gaps(2, 5).tolist()


def test_a_world_without_a_repr_of_its_own_says_its_name_and_means() -> None:
    assert repr(Frozen([0.2, 0.5, 0.9])) == "Frozen([0.2 0.5 0.9])"


def test_regret_is_against_the_best_arm_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, start = Switch(10), np.array([0.0])
    assert switch.regret(0, start, np.array([[5.0, 10.0, 15.0]])).tolist() == [pytest.approx([4.0, 8.0, 8.0])]
    assert switch.regret(1, start, np.array([[5.0, 10.0, 15.0]])).tolist() == [pytest.approx([0.0, 0.0, 4.0])]
    whole = switch.regret(1, np.array([3.0]), np.array([[3.0, 12.0, 27.0]]))
    monkeypatch.setattr(worlds, "CHUNK", 4)
    assert switch.regret(1, np.array([3.0]), np.array([[3.0, 12.0, 27.0]])).tolist() == [pytest.approx(whole[0])]
    assert switch.gaps(1, 9).tolist() == [[0.8, 0.0]]
    assert switch.gaps(1, 10).tolist() == [[0.0, 0.8]]


def test_a_batch_is_drawn_at_its_own_time() -> None:
    """1,000 batches of 40 users, ten before the change: their mean is within 6 standard errors (2e-9) of the truth."""
    switch, generator = Switch(20), np.random.default_rng(1)
    runs, arms = np.arange(1000), np.zeros(1000, dtype=np.int64)
    now = switch.at(np.full(1000, 10), np.tile([40, 7], (1000, 1)))
    found = now.encoded_sums(runs, arms, 40, 3, generator) / 3
    expected, variance = 10 * 0.1 + 30 * 0.9, 40 * 0.09
    assert abs(found.mean() - expected) < 6 * np.sqrt(variance / 1000)
    assert found.var() == pytest.approx(variance, rel=0.3)
    one_by_one = [now.rewards(0, 0, 40, generator).sum() for _ in range(1000)]
    assert abs(np.mean(one_by_one) - expected) < 6 * np.sqrt(variance / 1000)
    # The second arm's batch begins when the first one's is full, and at the beginning everything is as it was.
    assert now.sums(runs, arms + 1, np.full(1000, 7), generator).mean() < 7 * 0.2
    assert switch.encoded_sums(runs, arms, 20, 1, generator).mean() < 20 * 0.2
    assert switch.rewards(0, 1, 20, generator).mean() > 0.5


@pytest.mark.parametrize("mode", ["law", "users"])
@pytest.mark.parametrize("name", ["elimination", "dist-dp-se"])
def test_the_runner_tells_worlds_when_a_batch_begins(name: str, mode: str) -> None:
    """Coins that are certain say which users a batch had; at this ε there is no noise."""
    certain = Switch(10)
    certain.means = np.array([0.0, 1.0])
    more = {"epsilon": 400.0, "binary": True} if name == "dist-dp-se" else {}
    played = simulated_policy(name, arms=2, horizon=200, runs=3, smallest=4, **more)
    seen: list[list[float]] = []
    run = simulate(played, certain, seed=1, mode=mode, watch=lambda now: seen.append(now.totals[0].round().tolist()))
    # Arm 0 has users 0 to 3, arm 1 users 4 to 7.
    assert seen[0] == [0.0, 4.0]
    # Arm 0 has users 8 to 15, of whom six come after the change; arm 1 users 16 to 23, all after it.
    assert seen[1] == [6.0, 4.0 if played.accumulate else 0.0]
    assert run.regret[0] == run.curve[0, -1]


def test_private_runs_tell_worlds_the_time_too() -> None:
    switch = Switch(2_000)
    private = policy("dp-klucb", arms=2, horizon=4_000, epsilon=2.0, runs=5, binary=True)
    run = simulate(private, switch, seed=3)
    assert run.best_arm_rate in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert (run.regret > 0.8 * 500).all(), "a policy that believes in fixed means pays for the change"
    still = policy("dp-klucb", arms=2, horizon=4_000, epsilon=2.0, runs=5, binary=True)
    assert simulate(still, Bernoulli([0.1, 0.9]), seed=3).regret.max() < 0.8 * 500


def test_drifting_means_go_there_and_back() -> None:
    drifting = Drifting([[0.2, 0.6, 0.8], [0.1, 0.5, 0.3]], period=100)
    assert drifting.means_at(1, np.array([0, 50, 100])).tolist() == [
        pytest.approx(row) for row in ([0.1, 0.5, 0.3], [0.3, 0.5, 0.1], [0.1, 0.5, 0.3])
    ]
    with pytest.raises(InvalidParameter, match="period"):
        Drifting([0.2, 0.8], period=1)
    assert world("drifting", [0.2, 0.8]).binary


def test_a_sweep_knows_drifting_worlds() -> None:
    sweep = Sweep.of({"policy": "kl-ucb", "world": "drifting", "arms": 2, "horizon": 500, "instances": 2, "runs": 2})
    rows = run_cell(sweep.cells[0])
    assert [row["world"] for row in rows] == ["drifting"] * 4
    assert repeat(rows[3]) == rows[3]


def test_simulate_says_what_regret_is_against(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["simulate", "--means", ".2,.8", "--horizon", "2000", "--runs", "3"]
    assert main([*common, "--world", "drifting"]) == 0
    assert "best at each time" in capsys.readouterr().out
    assert main(common) == 0
    assert "best at each time" not in capsys.readouterr().out


@pytest.mark.slow
def test_simulate_and_sweep_replay_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_synthetic_open_bandit("log.csv", rows=500, items=3, seed=1)
    write_synthetic_letor("web.txt", rows=300, features=4, seed=1)
    common = ("--policy", "kl-ucb", "--horizon", "300", "--runs", "2", "--json")
    for data, arms in (("log.csv", ()), ("web.txt", ("--arms", "4"))):
        assert main(["simulate", "--data", data, *arms, *common]) == 0
        assert json.loads(capsys.readouterr().out)[0]["runs"] == 2
        assert main(["sweep", "--data", data, *arms, *common, "--jobs", "1", "--out", f"{data}.parquet"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["runs"] == 2
    cell = Sweep.of({"policy": "kl-ucb", "data": "log.csv", "horizon": 300, "runs": 2}).cells[0]
    assert (cell.world, cell.arms, cell.low, len(cell.data_hash or "")) == (None, 3, None, 64)
    row = run_cell(cell)[1]
    assert repeat(row) == row
    write_synthetic_open_bandit("other.csv", rows=500, items=3, seed=2)
    for wrong in (["--means", ".1,.2"], ["--world", "beta"], ["--low", ".1"], ["--data", "missing.csv"]):
        assert main(["simulate", "--data", "log.csv", *wrong, "--horizon", "9"]) == 2
        assert main(["sweep", "--data", "log.csv", *wrong, "--policy", "kl-ucb", "--out", "x.parquet"]) == 2
        assert capsys.readouterr().err.count("\n") == 2
    moved = Cell.of(row | {"data": "other.csv"})
    with pytest.raises(Exception, match="its SHA-256 is another"):
        run_cell(moved)


def test_policies_are_unaware_of_time() -> None:
    assert KLUCB(2, 100, Ladder(None, 1, 1.3)).wanted().tolist() == [[1, 0]]
