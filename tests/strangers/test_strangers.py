"""What docs/write-your-own.md shows works from outside the package, by `module:name`, wherever names are taken."""

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from croupier.bandits import POLICIES
from croupier.checks import CroupierError
from croupier.cli import main
from croupier.noise import FAMILIES, DiscreteGaussian, DiscreteLaplace, seeded
from croupier.noise.serial import noise_from_dict, noise_to_dict
from croupier.privacy import privacy_loss
from croupier.programs.bandit import BanditProgram
from croupier.protocols import ROWS, Protocol, SumMechanism
from croupier.service.experiment import read_plan
from croupier.simulation import WORLDS, Bernoulli, simulate, simulated_policy, world

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "write-your-own.md"
OWN = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))


class Words:
    """A source of repeatable words, which are compared with exact probabilities as secret ones are."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self.generator.integers(0, 2**64, count, dtype=np.uint64)

    def renew(self) -> None:
        """Nothing to renew."""


@pytest.fixture(autouse=True)
def _as_somebody_in_this_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Modules are found on the path, as they would be in the folder of somebody who wrote them."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(tmp_path)
    for registry, name in ((POLICIES, "thompson:ENTRY"), (WORLDS, "seasons:Seasons"), (ROWS, "trusted:ROW")):
        monkeypatch.setattr(registry, "_added", {})
        registry.admit(name)


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_each_is_short_and_uses_no_private_hook(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    own = set(re.findall(r"def (_[a-z]\w*)", text))
    assert set(re.findall(r"(?:self|super\(\))\.(_[a-z]\w*)", text)) <= own


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_each_comes_in_by_the_front_doors(path: Path) -> None:
    """croupier.checks is a room of one module."""
    rooms = re.findall(r"^from (croupier\.[\w.]+) import", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert rooms
    assert [room for room in rooms if room.count(".") > 1] == []


def test_a_strangers_draws_follow_from_the_seed_that_is_logged() -> None:
    def draws(seed: int) -> list[float]:
        return simulated_policy("thompson:ENTRY", arms=4, horizon=500, epsilon=1.0, seed=seed).draw(0).tolist()

    assert draws(5) == draws(5) != draws(6)


def test_the_document_shows_the_files_as_they_are() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for path in OWN:
        assert path.read_text(encoding="utf-8") in text, path.name


def test_the_names_that_the_document_gives_are_free() -> None:
    """A package whose entry points are those of the document gets its things known by these names."""
    [offered] = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    groups = tomllib.loads(offered)["project"]["entry-points"]
    for registry in (POLICIES, WORLDS):
        for name, value in groups[registry.group].items():
            assert name not in registry
            module, _, thing = value.partition(":")
            registry.add(name, getattr(import_module(module), thing))
            assert name in registry


@pytest.mark.slow
def test_the_policy_finds_the_best_arm(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--means", ".2,.5,.8", "--horizon", "20000", "--runs", "20", "--epsilon", "1")
    [mine] = rows(capsys, "simulate", "--policy", "thompson:ENTRY", *common)
    assert mine["best_arm_rate"] == 1.0
    assert mine["regret_mean"] < 0.1 * 20_000 * 0.3
    [over] = rows(capsys, "simulate", "--policy", "thompson:ENTRY", "--protocol", "skellam", *common)
    assert (over["notion"], over["best_arm_rate"]) == ("renyi", 1.0)


def test_the_policy_replays_from_what_was_released(tmp_path: Path) -> None:
    """It draws, and yet the same sums open the same batches."""
    parameters = {"name": "thompson:ENTRY", "arms": 3, "horizon": 3000, "epsilon": 1.0, "binary": True}
    first, again = BanditProgram(parameters), BanditProgram(parameters)
    rng = np.random.default_rng(1)
    while not first.finished:
        batch, *_ = first.open
        total = int(rng.binomial(batch.mechanism.users, [0.2, 0.5, 0.8][batch.arm]))
        assert first.open == again.open
        for program in (first, again):
            program.released(batch.batch, total)
    assert again.finished


def test_the_policy_carries_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\narms = ["a", "b"]\n[program]\nhorizon = 1000\npolicy = "thompson:ENTRY"\n')
    assert read_plan(str(path)).program().wanted[0].batches[0][1].users == 32


@pytest.mark.slow
def test_the_world_changes_and_regret_follows_it() -> None:
    seasons = world("seasons:Seasons", [0.4, 0.5])
    assert seasons.gaps(1, 0).argmin() != seasons.gaps(1, 2_500).argmin()
    played = simulated_policy("kl-ucb", arms=2, horizon=20_000, runs=5)
    still = simulated_policy("kl-ucb", arms=2, horizon=20_000, runs=5)
    assert simulate(played, seasons, seed=1).regret.min() > simulate(still, Bernoulli([0.4, 0.5]), seed=1).regret.max()


@pytest.mark.parametrize(("epsilon", "width"), [(1.0, 10), (0.3, 1), (3.0, 7)])
def test_the_noise_keeps_its_promise_exactly(epsilon: float, width: int) -> None:
    """Privacy by direct summation, against what the noise answers; and less noise than Laplace's for wide steps."""
    noise = import_module("staircase").Staircase(epsilon, width)
    window = noise.window()
    assert window.pmf.sum() + window.below + window.above == pytest.approx(1.0, abs=1e-12)
    ratios = [np.abs(np.log(window.pmf[shift:] / window.pmf[:-shift])).max() for shift in range(1, width + 1)]
    assert max(ratios) == pytest.approx(epsilon, rel=1e-9)
    loss = privacy_loss(noise, width)
    assert (loss.pure, loss.delta(epsilon)) == (epsilon, 0.0)
    near = 0.5 * epsilon
    summed = np.maximum(window.pmf[width:] - np.exp(near) * window.pmf[:-width], 0.0).sum()
    assert loss.delta(near) == pytest.approx(summed, rel=1e-9)
    assert noise.variance <= DiscreteLaplace(Fraction(width) / Fraction(epsilon)).variance * (1 + 1e-9)


def test_the_noise_is_sampled_exactly_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square over the middle values and the rest, with a false-alarm rate of 1e-9; both sources."""
    kind = import_module("staircase").Staircase
    monkeypatch.setattr(FAMILIES, "_added", {})
    with pytest.raises(CroupierError, match="^family 'stair' is .*Staircase.*, not a kind of Noise by the name of"):
        FAMILIES.add("stair", kind)  # it is stored as Staircase, and would not be found again
    FAMILIES.add("Staircase", kind)
    noise, count = kind(1.0, 5), 20_000
    assert noise_from_dict(noise_to_dict(noise)) == noise
    values = np.arange(-20, 21)
    law = np.append(noise.pmf(values), 1.0 - noise.pmf(values).sum()) * count
    for source in (Words(1), seeded(1)):
        drawn = noise.sample(count, source)
        seen = np.append([(drawn == value).sum() for value in values], (np.abs(drawn) > 20).sum())
        assert ((seen - law) ** 2 / law).sum() < chi2.isf(1e-9, len(law) - 1)
    tilt = np.array([-0.1, 0.0, 0.15])
    deep = noise.window(1e-290)
    points = np.arange(deep.start, deep.stop)
    summed = [np.log((deep.pmf * np.exp(t * points)).sum()) for t in tilt]
    assert noise.cumulant(tilt) == pytest.approx(summed, abs=1e-9)
    assert noise.cumulant(np.array([0.21])) == [np.inf]


def test_the_central_mechanism_is_priced_audited_and_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    target = ("--users", "20", "--epsilon", "2")
    [price] = rows(capsys, "price", "trusted:ROW", *target)
    [yardstick] = rows(capsys, "price", "discrete-gaussian", *target)
    assert 1.99 < price["exact_epsilon"] <= 2.0
    assert price["exact_delta"] <= price["delta"] == 1e-6
    # That one promises ρ = ½ε², which at ε = 2 is less than (2, 1e-6)-DP: the noise here must be more.
    assert price["standard_deviation"] > yardstick["standard_deviation"]
    [audited] = rows(capsys, "audit", "trusted:ROW", *target, "--trials", "2000", "--seed", "1")
    assert audited["passed"]
    world = ("--means", ".2,.8", "--horizon", "5000", "--runs", "5")
    [run] = rows(capsys, "simulate", "--policy", "dp-klucb", "--protocol", "trusted:ROW", *world)
    assert (run["notion"], run["best_arm_rate"]) == ("approximate", 1.0)


def test_a_central_mechanism_is_never_sent_through_a_front() -> None:
    mechanism = Protocol(import_module("trusted").ROW, 1.0, 1e-6).plan(users=100)
    assert (mechanism.trust, mechanism.certificate().holds) == ("analyzer", True)
    with pytest.raises(CroupierError, match="noise from the analyzer"):
        mechanism.slots(1.0, seeded(4))


def test_a_plan_that_does_not_keep_its_word_is_refused() -> None:
    """A stranger's mistake: noise for half of what one user can change."""
    row = import_module("trusted").ROW

    def careless(recipe: Protocol, users: int) -> SumMechanism:
        planned = row.plan(recipe, users)
        return replace(planned, share=DiscreteGaussian(planned.share.sigma2 / 4))

    with pytest.raises(CroupierError, match="could not be certified"):
        Protocol(replace(row, plan=careless), 1.0, 1e-6).plan(users=100)


@pytest.mark.slow
def test_workers_of_a_sweep_know_strangers(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--policy", "thompson:ENTRY", "--policy", "kl-ucb", "--world", "seasons:Seasons", "--epsilon", "1")
    sizes = ("--arms", "2", "--horizon", "500", "--instances", "2", "--runs", "2", "--jobs", "2")
    found = rows(capsys, "sweep", *options, *sizes, "--out", "mine.parquet")
    assert [row["policy"] for row in found] == ["kl-ucb", "thompson:ENTRY"]


@pytest.mark.slow
def test_plan_takes_strangers(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--means", ".3,.7", "--epsilon", "1", "--runs", "20")
    assert rows(capsys, "plan", "--policy", "thompson:ENTRY", *common)[1]["policy"] == "thompson:ENTRY"


@pytest.mark.slow
def test_a_fresh_command_finds_modules_in_its_folder() -> None:
    """As installed: the folder where the command runs is not on the path by itself."""
    command = "import sys; from croupier.cli import main; sys.path = [p for p in sys.path if p]; sys.exit(main())"
    arguments = ("simulate", "--world", "seasons:Seasons", "--means", ".3,.6", "--horizon", "300", "--runs", "2")
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments], cwd=HERE, capture_output=True, text=True, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("odds", "refused"),
    [
        (lambda policy: np.zeros((policy.runs, policy.arms)), "gives users no arm"),
        (lambda policy: np.full((policy.runs, policy.arms), math.nan), r"are \[nan, nan\]: not finite"),
        (lambda policy: np.full((policy.runs, policy.arms), -0.5), r"are \[-0.5, -0.5\]: not finite, below 0"),
        (lambda policy: np.ones((policy.runs, policy.arms)), "out of play"),
        (lambda policy: np.ones(policy.arms), r"have the shape \(2,\), and it must be \(3, 2\), a row a run"),
    ],
    ids=["nobody", "nan", "negative", "paused", "shape"],
)
def test_odds_that_nobody_can_be_dealt_by_are_refused(odds: Any, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = simulated_policy("thompson:ENTRY", arms=2, horizon=1000, epsilon=1.0, runs=3, binary=True)
    policy.pause(0)
    monkeypatch.setattr(type(policy), "odds", odds)
    with pytest.raises(CroupierError, match=refused):
        simulate(policy, Bernoulli([0.3, 0.6]), seed=1)


def test_what_a_strangers_row_makes_is_looked_at() -> None:
    POLICIES.add("seven", replace(POLICIES["thompson:ENTRY"], build=lambda _: 7))
    with pytest.raises(CroupierError, match=r"^policy 'seven' builds int, not a Policy$"):
        simulated_policy("seven", arms=2, horizon=1000, epsilon=1.0)
    WORLDS.add("raising", lambda _: {}["means"])
    with pytest.raises(CroupierError, match=r"^world 'raising' cannot be made of means: KeyError: 'means'$"):
        world("raising", [0.3, 0.6])


def test_a_module_that_exits_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("raise SystemExit(7)")
    with pytest.raises(CroupierError, match=r"^policy 'leaving:ENTRY' cannot be imported: SystemExit: 7$"):
        POLICIES.admit("leaving:ENTRY")
