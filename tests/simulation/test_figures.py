"""Figures: every one computes, says how, and shows what its paper found."""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from croupier import __version__
from croupier.bandits import Elimination, SubExponentialRadius
from croupier.checks import CroupierError, InvalidParameter
from croupier.cli import reproduce
from croupier.simulation import ClippedGaussian, Run, simulate
from croupier.simulation.data import write_synthetic_letor
from croupier_papers import FIGURES, Task, compute, distributed_bandits, fixed_or_doubling, shuffle_bandits, write
from croupier_papers.experiment import published
from croupier_papers.flagship import floors, private_divergence, private_epsilon
from croupier_papers.style import finish

pytestmark = pytest.mark.slow

NAMES = [
    "cz23-fig-1a",
    "cz23-fig-1b",
    "cz23-fig-1c",
    "cz23-fig-1d",
    "cz23-fig-1e",
    "cz23-fig-2",
    "cz23-fig-3",
    "cz23-fig-4",
    "cz23-fig-5",
    "tkms21-table-1",
    "tkms21-batches",
    "published-vs-tight",
    "flagship",
    "whose-noise",
]

ELSEWHERE = [
    "tkms23-error-scaling",
    "tkms23-shufflers-tradeoff",
    "tkms23-linucb-regret",
    "tkms23-linucb-adversary",
    "tkms23-lower-bound",
    "tkms23-tree",
    "gkm21-histogram-error",
    "gkm21-learner-users",
    "gkm21-users-epsilon",
    "linear-growing",
]
"""Figures that have test files of their own."""

INSTANCES, REPEATS = 40, 2


def almost_always(better: np.ndarray) -> bool:
    """Whether at least 38 of 40 drawn instances agree; where they are as likely not to, the chance is below 1e-9."""
    assert better.shape == (INSTANCES,)
    return int(better.sum()) >= INSTANCES - 2


def tiny(name: str) -> Any:
    """The figure's settings, as small as they can be."""
    if name == "tkms21-table-1":
        return shuffle_bandits.Setting((0.2, 0.4, 0.8), (2, 3, 5), (10**8, 10**9, 10**10), starts=1, runs=2)
    if name == "tkms21-batches":
        return fixed_or_doubling.Setting((0.01, 0.3), (10**6, 10**7), (1e-9, 1e-6), runs=3, tight_runs=2)
    small = replace(FIGURES[name].quick, horizon=2_000, instances=2)
    return replace(small, synthetic_rows=400) if name.startswith("cz23") else small


@pytest.fixture
def tiny_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure with its tiny settings."""
    for name in NAMES:
        monkeypatch.setitem(FIGURES, name, replace(FIGURES[name], quick=tiny(name)))


@pytest.fixture(scope="module")
def tiny_body() -> Callable[[str], dict[str, Any]]:
    """A figure's numbers with its tiny settings; they are worked out once."""

    @cache
    def body(name: str) -> dict[str, Any]:
        parts: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(FIGURES, name, replace(FIGURES[name], quick=tiny(name)))
            found = compute(name, Task(seed=3, progress=parts.append), quick=True)
        assert math.fsum(parts) == pytest.approx(1.0)
        return found

    return body


def command(*arguments: str) -> argparse.Namespace:
    """The command's options as the command line reads them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    reproduce.add(parser)
    parser.set_defaults(usual={action.dest: action.default for action in parser._actions})
    return parser.parse_args(arguments)


def numbers(body: Any) -> list[float]:
    """Every number anywhere in it."""
    if isinstance(body, dict):
        body = list(body.values())
    if isinstance(body, list):
        return [number for part in body for number in numbers(part)]
    return [float(body)] if isinstance(body, int | float) else []


def test_the_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(FIGURES) == {*NAMES, *ELSEWHERE}
    assert reproduce.run(command()) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in FIGURES)
    assert reproduce.run(command("--json")) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(FIGURES)
    assert all(row["paper"] and row["shows"] and 0 < row["quick_seconds"] < 20 for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_finite_and_say_how_they_were_made(name: str, tiny_body: Callable[[str], Any]) -> None:
    body = tiny_body(name)
    assert len(numbers(body["results"])) > 5
    assert all(math.isfinite(number) for number in numbers(body))
    assert body["croupier"] == __version__
    assert (body["seed"], body["quick"]) == (3, True)
    assert body["configuration"].keys() >= {"policies", "constants", "epsilons", "arms", "runs", "world"}
    assert "horizon" in body["configuration"] or "horizons" in body["configuration"]
    assert json.loads(json.dumps(body, allow_nan=False)) == body


@pytest.mark.parametrize(
    "name",
    [
        "cz23-fig-1a",
        "cz23-fig-5",
        "tkms21-table-1",
        "tkms21-batches",
        "published-vs-tight",
        "flagship",
        "whose-noise",
    ],
)
def test_a_figure_is_drawn_from_its_json_alone(name: str, tiny_body: Callable[[str], Any], tmp_path: Path) -> None:
    body = tiny_body(name)
    picture, data = write(json.loads(json.dumps(body)), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(data.read_text(encoding="utf-8")) == body


@pytest.mark.usefixtures("tiny_figures")
def test_the_picture_of_a_command_is_that_of_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "cz23-fig-1b"
    assert reproduce.run(command(name, "--quick", "--out", str(tmp_path / "new"))) == 0
    printed = capsys.readouterr().out
    picture, data = tmp_path / "new" / f"{name}.png", tmp_path / "new" / f"{name}.json"
    assert str(picture) in printed
    assert str(data) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    again, _ = write(json.loads(data.read_text(encoding="utf-8")), tmp_path / "again")
    assert again.read_bytes() == picture.read_bytes()


@pytest.mark.usefixtures("tiny_figures")
def test_the_seed_repeats_a_figure() -> None:
    first, second, other = (compute("cz23-fig-1b", Task(seed), quick=True) for seed in (1, 1, 2))
    assert first == second
    assert first["results"] != other["results"]


def test_instances_are_not_those_of_a_plain_generator() -> None:
    for seed in (0, 1, 5):
        plain = np.random.default_rng(seed).uniform(0.25, 0.75, (3, 10))
        assert not np.isin(Task(seed).means(10, 3, 0.25, 0.75), plain).any()
    assert len({Task(seed).seed_of(index) for seed in range(5) for index in range(50)}) == 250


@pytest.mark.usefixtures("tiny_figures")
def test_synthetic_ratings_are_called_synthetic(tmp_path: Path) -> None:
    path = tmp_path / "web.txt"
    write_synthetic_letor(path, rows=300, features=4, seed=1)
    for data in (None, path):
        world = compute("cz23-fig-1d", Task(data=data), quick=True)["configuration"]["world"]
        assert world["synthetic"]
        assert world["title"].startswith("synthetic")
    real = tmp_path / "real.txt"
    real.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    world = compute("cz23-fig-1d", Task(data=real), quick=True)["configuration"]["world"]
    assert not world["synthetic"]
    assert "real.txt" in world["title"]


def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="one of cz23-fig-1a"):
        reproduce.run(command("cz23-fig-9"))
    with pytest.raises(InvalidParameter, match="only cz23-fig-1d, cz23-fig-1e, cz23-fig-5"):
        reproduce.run(command("cz23-fig-1a", "--data", str(tmp_path / "web.txt")))
    with pytest.raises(CroupierError, match="web.txt"):
        reproduce.run(command("cz23-fig-1d", "--data", str(tmp_path / "web.txt")))
    with pytest.raises(InvalidParameter, match="seed"):
        reproduce.run(command("cz23-fig-1a", "--seed", "-1"))


def test_published_radii_go_on_where_the_theorem_ends() -> None:
    inside, word = published("dist-zcdp-se", arms=3, horizon=1000, epsilon=0.5, runs=1, scaling=10.0)
    assert word == "published"
    assert inside.ladder.protocol is not None
    assert inside.ladder.protocol.published
    beyond, word = published("dist-zcdp-se", arms=3, horizon=1000, epsilon=2.0, runs=1, scaling=10.0, failure=0.1)
    assert word.startswith("published radii, tight protocol")
    assert isinstance(beyond, Elimination)
    assert beyond.ladder.protocol is not None
    assert (beyond.ladder.protocol.epsilon, beyond.ladder.protocol.scaling) == (2.0, 10.0)
    assert not beyond.ladder.protocol.published
    assert (beyond.failure, beyond.accumulate, beyond.ladder.first) == (0.1, False, inside.ladder.first)
    # [CZ23] Thm 4: σ = √2/ε + √2/(sε).
    assert isinstance(beyond.radius, SubExponentialRadius)
    assert beyond.radius.sigma == pytest.approx(math.sqrt(2.0) / 2.0 * 1.1)
    assert beyond.radius.h == 0.0


COMMON: dict[str, Any] = {"arms": 10, "runs": INSTANCES * REPEATS, "failure": distributed_bandits.CONFIDENCE}


def easy_world() -> ClippedGaussian:
    """The paper's easy instances, each twice."""
    means = Task(1).means(10, INSTANCES, *distributed_bandits.EASY)
    return ClippedGaussian(np.repeat(means, REPEATS, axis=0), distributed_bandits.STD)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, float], Run]:
    """[CZ23]'s policies on the same instances, with published radii, to a fifth of the paper's horizon."""
    asked = [(name, epsilon) for name in ("dist-dp-se", "dist-rdp-se") for epsilon in (0.1, 1.0)]
    asked += [("local-dp-se", 0.1), ("dist-zcdp-se", 0.1)]
    runs = {}
    for seed, (name, epsilon) in enumerate(asked):
        options = {"scaling": 10.0} if name in ("dist-rdp-se", "dist-zcdp-se") else {}
        policy, _ = published(name, horizon=200_000, epsilon=epsilon, **COMMON, **options)
        runs[name, epsilon] = simulate(policy, easy_world(), seed=seed, checkpoints=1)
    return runs


def by_instance(values: np.ndarray) -> np.ndarray:
    return values.reshape(INSTANCES, REPEATS, *values.shape[1:]).mean(axis=1)


def test_the_gap_to_the_central_model_closes_with_time() -> None:
    world = easy_world()
    horizon = FIGURES["cz23-fig-1a"].full.horizon
    central, distributed = (
        simulate(published(name, horizon=horizon, epsilon=0.1, **COMMON)[0], world, seed=seed, checkpoints=10)
        for seed, name in enumerate(("dp-se", "dist-dp-se"))
    )
    gap = by_instance((distributed.curve - central.curve) / distributed.checkpoints)
    early, late = np.searchsorted(distributed.checkpoints, (horizon // 10, horizon))
    assert almost_always(gap[:, early] > gap[:, late])
    assert gap[:, late].mean() < 0.5 * gap[:, early].mean()


def test_renyi_privacy_costs_less_than_pure_most_of_all_at_small_epsilon(found: dict[tuple[str, float], Run]) -> None:
    pure, renyi = (by_instance(found[name, 0.1].regret) for name in ("dist-dp-se", "dist-rdp-se"))
    assert almost_always(renyi < pure)
    gain = {
        epsilon: found["dist-dp-se", epsilon].regret.mean() / found["dist-rdp-se", epsilon].regret.mean()
        for epsilon in (0.1, 1.0)
    }
    assert gain[0.1] > 1.2 > gain[1.0] > 1.0


def test_concentrated_privacy_costs_less_than_renyi(found: dict[tuple[str, float], Run]) -> None:
    concentrated, renyi = (by_instance(found[name, 0.1].regret) for name in ("dist-zcdp-se", "dist-rdp-se"))
    assert almost_always(concentrated < renyi)


def test_local_privacy_costs_far_more(found: dict[tuple[str, float], Run]) -> None:
    local, distributed = (by_instance(found[name, 0.1].regret) for name in ("local-dp-se", "dist-dp-se"))
    assert almost_always(local > 1.5 * distributed)
    assert local.mean() > 3.0 * distributed.mean()


def test_central_and_distributed_noise_have_the_same_law() -> None:
    world = ClippedGaussian(Task(2).means(5, 4, 0.25, 0.75), 0.1)
    central, distributed = (
        simulate(published(name, arms=5, horizon=50_000, epsilon=0.5, runs=4, failure=0.1)[0], world, seed=1).curve
        for name in ("central-dp-se", "dist-dp-se")
    )
    assert np.array_equal(central, distributed)


def test_costs_grow_with_the_exponents_of_table_1() -> None:
    setting = FIGURES["tkms21-table-1"].quick
    assert (setting.gap, setting.horizon, setting.epsilons[0], setting.epsilons[-1]) == (0.25, 10**9, 0.05, 0.8)
    body = compute("tkms21-table-1", Task(), quick=True)
    fits = {name: sweep["models"] for name, sweep in body["results"]["sweeps"].items()}
    assert fits["epsilon"]["shuffle"]["exponent"] == pytest.approx(-1.0, rel=0.15)
    assert fits["epsilon"]["central"]["exponent"] == pytest.approx(-1.0, rel=0.15)
    assert fits["epsilon"]["local"]["exponent"] == pytest.approx(-2.0, rel=0.15)
    for model in ("central", "shuffle", "local"):
        assert fits["arms"][model]["exponent"] == pytest.approx(1.0, rel=0.1)
        # The bounds are O(log T): growth in log T is at most linear.
        assert 0.2 < fits["horizon"][model]["exponent"] < 1.1
    headings, rows = shuffle_bandits.table(body)
    assert {len(row) for row in rows} == {len(headings)}


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 8.0])
def test_the_private_divergence_is_the_least_over_a_grid(epsilon: float) -> None:
    x, y = 0.3, 0.7
    z = np.append(np.linspace(1e-6, 1.0 - 1e-6, 400_001), x)
    kl = z * np.log(z / y) + (1.0 - z) * np.log((1.0 - z) / (1.0 - y))
    least = float(np.min(epsilon * np.abs(z - x) + kl))
    assert float(private_divergence(x, y, epsilon)) == pytest.approx(least, rel=1e-6)


def test_no_term_of_the_capped_floor_exceeds_what_an_arm_can_cost() -> None:
    means = np.array([[0.5, 0.4999, 0.3]])
    floor = floors(means, 0.5, [10, 1000, 10**9])
    assert np.all(floor["capped"] <= floor["uncapped"])
    assert np.all(floor["capped"] <= np.array([10, 1000, 10**9]) * 0.2001)
    assert floor["capped"][-1] == pytest.approx(floor["uncapped"][-1], rel=0.7)


def test_dp_se_comes_late_because_of_its_batches_not_of_its_privacy() -> None:
    """50 arms: its first phase has 32 log(8·50/0.1)/(1/2)² users an arm at any ε ≥ 1/2, and only then it removes."""
    panels = compute("cz23-fig-5", Task(seed=1), quick=True)["results"]["panels"]
    first = 50 * math.ceil(32.0 * math.log(8 * 50 / 0.1) / 0.25 + 1.0)
    for panel in panels:
        removal = {name: line["users_before_the_first_removal"] for name, line in panel["lines"].items()}
        assert removal["DP-SE"] == first == 53_150
    late, early = (panels[-1]["lines"][name] for name in ("DP-SE", "Dist-DP-SE"))
    assert early["users_before_the_first_removal"] < first / 2
    assert early["regret_per_round"][-1] < late["regret_per_round"][-1]
    assert panels[-1]["lean_dp_se"]["regret_per_round"] < 0.7 * late["regret_per_round"][-1]


def test_figures_of_ratings_state_all_that_they_assume(tiny_body: Callable[[str], Any]) -> None:
    body = tiny_body("cz23-fig-1d")
    caption = distributed_bandits._caption(body["configuration"], body["results"]["panels"])
    for assumed in body["configuration"]["world"]["assumptions"]:
        assert assumed in caption
    for word in ("synthetic", "divided by the largest", "k-means", "with replacement", "horizon", "[SS19]"):
        assert word in caption


def titles(figure: Any) -> list[str]:
    """The titles above the panels."""
    return [part._suptitle.get_text() for part in (figure, *figure.subfigs) if part._suptitle is not None]


def test_a_title_says_whose_figure_it_is(
    tiny_body: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("croupier_papers.save", lambda figure, path: drawn.extend(titles(figure)))
    for name in ("cz23-fig-1a", "tkms21-table-1", "tkms21-batches", "flagship"):
        write(tiny_body(name), tmp_path)
    begins = [title.partition("\n")[0] for title in drawn]
    own = "croupier's own figure"
    assert begins == [
        "[CZ23] Fig. 1(a)",
        "[TKMS21] Table 1",
        f"{own}, for [TKMS21] Thm 3.1 and 3.3",
        f"{own}, for [AWHOIB25]",
    ]
    assert all(figure.source.startswith(("[", "after [", own)) for figure in FIGURES.values())


@pytest.mark.parametrize(("low", "high", "labels"), [(1.0, 1e3, 4), (3e3, 4e4, 3), (2e3, 9e3, 2), (1.5e-3, 0.7, 2)])
def test_minor_ticks_are_never_labelled_and_two_ticks_always_are(low: float, high: float, labels: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([low, high], [1.0, 2.0])
    axes.set(xscale="log", xlim=(low, high))
    finish(figure, "nobody's")
    major, minor = axes.xaxis.get_majorticklocs(), axes.xaxis.get_minorticklocs()
    assert len(minor)
    assert not any(axes.xaxis.get_minor_formatter().format_ticks(minor))
    words = dict(zip(major, axes.xaxis.get_major_formatter().format_ticks(major), strict=True))
    assert len({word for at, word in words.items() if low <= at <= high * (1 + 1e-9)} - {""}) >= labels


def test_an_exponent_needs_three_points() -> None:
    with pytest.raises(InvalidParameter, match="three points"):
        shuffle_bandits.power_law(np.array([1.0, 2.0]), np.array([1.0, 2.0]))


def test_a_renyi_epsilon_of_a_half_is_two_and_a_quarter_at_a_millionth() -> None:
    # Gaussian noise of deviation 2 and a shift of 1: δ = Φ(1/4 - 2ε) - e^ε Φ(-1/4 - 2ε).
    spent = private_epsilon("dist-zcdp-se", 0.5)
    assert spent is not None
    assert norm.cdf(0.25 - 2 * spent) - math.exp(spent) * norm.cdf(-0.25 - 2 * spent) == pytest.approx(1e-6, rel=0.01)
    assert [private_epsilon(name, 0.5) for name in ("dist-dp-se", "vb-sdp-ae", "kl-ucb")] == [0.5, 0.5, None]
    assert private_epsilon("dist-rdp-se", 0.5) == pytest.approx(2.254, abs=0.001)


@pytest.mark.usefixtures("tiny_figures")
def test_all_of_them_are_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {name: FIGURES[name] for name in ("cz23-fig-1d", "tkms23-tree")}
    monkeypatch.setattr(reproduce, "FIGURES", chosen)
    path = tmp_path / "web.txt"
    write_synthetic_letor(path, rows=300, features=4, seed=1)
    out = ["--out", str(tmp_path), "--data", str(path)]
    assert reproduce.run(command("all", "--quick", "--json", *out)) == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["figure"] for row in made] == list(chosen)
    assert all(Path(row[kind]).exists() for row in made for kind in ("picture", "numbers"))


def test_a_second_servers_noise_costs_little_and_every_report_s_own_much() -> None:
    """Devices' and the analyzer's noise have one law, so with one seed they have the same regret to the last digit."""
    body = compute("whose-noise", Task(seed=3), quick=True)
    for panel in body["results"]["panels"]:
        ends = {whom: line["regret"][-1] for whom, line in panel["lines"].items()}
        assert ends["devices"] == ends["analyzer"]
        assert ends["none"] < ends["two-servers"] < 2.0 * ends["devices"]
        assert ends["nobody"] > 3.0 * ends["devices"]
    wide = body["results"]["batches"]["1"]
    place = body["configuration"]["sizes"].index(32)
    # √(1 + 3.68/8) and √(1 + 1.84/8)
    assert (wide["two-servers"][place], wide["devices"][place]) == pytest.approx((1.208, 1.109), abs=5e-4)
