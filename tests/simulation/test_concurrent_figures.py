"""[TKMS23]'s figures: what they claim follows from the plans by other roads, and their pictures from their numbers."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import binom

from croupier.checks import InvalidParameter
from croupier.continual import CounterPlan, counter
from croupier.linear import DIAMETER, growing_bandit, linear_bandit, sequential_linear_bandit, statistics_dimension
from croupier.noise import seeded
from croupier.privacy import gaussian_scale
from croupier.simulation.counting import CountingError, TreeSum
from croupier.simulation.linear_runner import simulate_linear
from croupier.simulation.linear_worlds import Sphere
from croupier.simulation.streams import bernoulli_stream
from croupier_papers import (
    FIGURES,
    Task,
    compute,
    concurrent_adversary,
    concurrent_counters,
    concurrent_floor,
    concurrent_linear,
    concurrent_shufflers,
    concurrent_tree,
    write,
)
from croupier_papers.concurrent_measured import measure_central, measure_counter, worst_moment
from croupier_papers.concurrent_noise import Budget, stays_below

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {
    "tkms23-error-scaling": concurrent_counters.Setting((7, 8, 9), tuple(range(10, 18)), runs=2, most_runs=4),
    "tkms23-shufflers-tradeoff": concurrent_shufflers.Setting(2**12, (1, 2), runs=8),
    "tkms23-linucb-regret": concurrent_linear.Setting((1_000, 1_500, 2_000), runs=(2, 1, 1), published=(), steps=20),
    "tkms23-lower-bound": concurrent_floor.Setting((9, 10, 11), (1, 2), runs=3),
    "tkms23-tree": concurrent_tree.Setting(),
    "tkms23-linucb-adversary": concurrent_adversary.Setting((2_000, 4_000, 8_000), runs=4),
}

BUDGET = Budget(epsilon=1.0, delta=1e-6, dimension=5)


@pytest.fixture(scope="module")
def bodies() -> dict[str, Any]:
    """Every figure's numbers, as small as they can be, and how much progress was told."""
    found = {}
    for name, setting in TINY.items():
        parts: list[float] = []
        found[name] = FIGURES[name].compute(setting, Task(5, progress=parts.append))
        assert math.fsum(parts) == pytest.approx(1.0)
    return found


def plans() -> list[CounterPlan]:
    published = partial(counter, epsilon=0.9, constants="published", over="shuffled-bits", binary=True)
    tight = partial(counter, epsilon=0.9, over="shuffled-laplace", binary=True)
    return [published(1000, 1), published(1000, 3), published(777), tight(3000, 2), tight(3000)]


@pytest.mark.parametrize("name", TINY)
def test_a_figure_of_tkms23_is_drawn_from_its_json_alone(name: str, bodies: dict[str, Any], tmp_path: Path) -> None:
    body = {"figure": name} | bodies[name]
    read = json.loads(json.dumps(body, allow_nan=False))
    assert read == body
    picture, numbers = write(read, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text(encoding="utf-8")) == body
    table = FIGURES[name].table
    assert table is not None
    headings, rows = table(body)
    assert {len(row) for row in rows} == {len(headings)}


def test_the_seed_repeats_a_figure_of_tkms23(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tkms23-error-scaling"
    monkeypatch.setitem(FIGURES, name, replace(FIGURES[name], quick=TINY[name]))
    first, second, other = (compute(name, Task(seed), quick=True) for seed in (1, 1, 2))
    assert first == second
    assert first["results"] != other["results"]


@pytest.mark.parametrize("plan", plans(), ids=lambda plan: f"{plan.users}-{plan.shufflers}-{plan.centred}")
def test_the_worst_moment_is_the_worst_of_all_moments(plan: CounterPlan) -> None:
    values = bernoulli_stream(plan.users, 0.5, 4)
    low = plan.tree.smallest
    squares = []
    for t in range(1, plan.users + 1):
        noise = math.fsum(n * v for n, v in zip(plan.tree.siblings(t // low), plan.variances, strict=True))
        unseen = values[t - t % low : t].sum() - t % low * (0.5 if plan.centred else 0.0)
        squares.append(noise + unseen**2)
    moment, error = worst_moment(plan, values)
    assert error == pytest.approx(math.sqrt(max(squares)))
    assert squares[moment - 1] == pytest.approx(max(squares))


def test_the_measured_error_is_the_exact_one_and_shows_a_weaker_noise() -> None:
    # 2,000 squares of nearly Gaussian errors: their mean has deviation √(2/2000) = 3.2 %, so 20 % is 6.3 of them.
    runs, allowed = 2000, 0.2
    values = bernoulli_stream(1024, 0.5, 4)
    plan, weaker = (
        counter(1024, 2, epsilon=epsilon, constants="published", over="shuffled-bits", binary=True)
        for epsilon in (0.45, 0.9)
    )
    found = measure_counter(plan, values, runs, 8, lambda: None)
    assert found["rms_error"] ** 2 == pytest.approx(found["exact"] ** 2, rel=allowed)
    assert found["rms_error"] <= found["rms_error_largest_over_time"]
    moment, exact = worst_moment(plan, values)
    source = seeded(9)
    error = CountingError.measure(lambda run: TreeSum(weaker, source), values[:moment], runs)
    assert error.rms_error_last**2 < (1.0 - allowed) * exact**2


def test_the_central_reference_is_the_square_root_of_the_triangle_of_ones() -> None:
    n = 60
    factors = np.asarray([(-1) ** j * binom(-0.5, j) for j in range(n)])
    root = np.asarray([[factors[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    assert np.allclose(root @ root, np.tril(np.ones((n, n))))
    exact = np.linalg.norm(root, axis=0).max() * np.linalg.norm(root, axis=1).max() * gaussian_scale(0.9, 1e-6)
    # 2,000 squares of Gaussians, as above.
    found = measure_central(np.ones(n), 2000, 3, lambda: None, epsilon=0.9, delta=1e-6)
    assert found["exact"] == pytest.approx(exact)
    assert found["rms_error"] ** 2 == pytest.approx(exact**2, rel=0.2)


def test_the_exact_error_grows_with_the_papers_exponents_and_the_trees_slower_and_slower() -> None:
    setting = FIGURES["tkms23-error-scaling"].full
    users = 2.0 ** np.asarray(setting.powers)
    assert users[0] == 2**10
    assert users[-1] == 2**20
    for label, shufflers in concurrent_counters.SHUFFLERS.items():
        std = np.asarray([setting.plan(power, shufflers, "published").noise_std for power in setting.powers])
        if shufflers is not None:
            slope = concurrent_counters.power_law(users, std)[0]
            assert slope == pytest.approx(1.0 / (2 * shufflers + 1), abs=0.03), label
            continue
        thirds = [
            concurrent_counters.power_law(users[part], std[part])[0]
            for part in (slice(0, 4), slice(4, 8), slice(7, 11))
        ]
        assert thirds[0] > thirds[1] > thirds[2]
        # (log n)^{3/2}, times the slow growth of √log(log n/δ).
        assert 1.5 < concurrent_counters.power_law(np.log(users), std)[0] < 1.65


def test_exact_composition_divides_a_published_trees_error_by_ten_or_more(bodies: dict[str, Any]) -> None:
    found = bodies["tkms23-shufflers-tradeoff"]["results"]
    assert all(ratio >= 10.0 for ratio in found["ratios"]["published_to_tight_at_tree"].values())
    for family, rows in found["families"].items():
        assert found["best"][family]["exact"] == min(row["exact"] for row in rows)
        assert [row["tree"] for row in rows] == [False, False, True]
    assert all(1.0 < ratio < 3.0 for ratio in found["ratios"]["tight_to_central_at_tree"].values())


def test_only_an_impossible_number_of_shufflers_is_left_out() -> None:
    setting = TINY["tkms23-shufflers-tradeoff"]
    assert setting.plan("published, shuffled bits", 500) is None
    with pytest.raises(InvalidParameter, match="epsilon"):
        replace(setting, epsilon=-1.0).plan("published, shuffled bits", 2)


def test_published_constants_say_nothing_to_a_few_users_and_their_closed_form_is_the_plans() -> None:
    users = 500
    run = simulate_linear("sequential", Sphere(5, 20, 1), users, seed=1, constants="published")
    assert run.vacuous == 1.0
    assert run.held
    options: dict[str, Any] = {"dimension": statistics_dimension(5), "diameter": DIAMETER}
    plan = counter(users, 1, epsilon=1.0, constants="published", smallest=round(users**0.6), **options)
    closed = BUDGET.sums(users, concurrent=False, published=True)
    assert closed.tree == plan.tree
    assert closed.noise_std == pytest.approx(plan.noise_std, rel=1e-3)


def test_the_tight_closed_form_is_a_little_below_the_plans() -> None:
    for many, planner in ((True, linear_bandit), (False, sequential_linear_bandit)):
        plan = planner(2_000, 5, epsilon=1.0).counter
        closed = BUDGET.sums(2_000, concurrent=many, published=False)
        assert closed.tree == plan.tree
        # Rounding and Rényi composition cost what Gaussian noise does not.
        assert 1.0 < plan.noise_std / closed.noise_std < 1.25


def test_concurrent_must_win_from_about_a_million_million_users_on_and_if_tight_at_once() -> None:
    grid = [2**power for power in range(10, 51)]
    std = {
        (published, many): [BUDGET.sums(n, concurrent=many, published=published).noise_std for n in grid]
        for published in (True, False)
        for many in (True, False)
    }
    crossing = stays_below(grid, std[True, True], std[True, False])
    assert crossing is not None
    assert 10**11 < crossing < 10**13
    assert stays_below(grid, std[False, True], std[False, False]) == grid[0]
    assert stays_below(grid, std[True, False], std[True, True]) is None
    # The sequential model's noise grows as n^{1/5}: that is why it must lose.
    slope = concurrent_counters.power_law(np.asarray(grid, dtype=float), np.asarray(std[True, False]))[0]
    assert slope == pytest.approx(0.2, abs=0.005)
    for many in (True, False):
        silent = BUDGET.silent_until(grid, concurrent=many)
        assert silent is not None
        assert 10**7 < silent < 10**9


def test_the_confidence_sets_hold_and_privacy_costs_regret(bodies: dict[str, Any]) -> None:
    models = bodies["tkms23-linucb-regret"]["results"]["models"]
    assert all(held == 1.0 for model in models.values() for held in model["held"])
    free = models["LinUCB, no privacy"]["regret"][-1]
    assert all(model["regret"][-1] > free for label, model in models.items() if "no privacy" not in label)
    assert models["local"]["vacuous"][-1] == 1.0


def test_measured_errors_lie_above_the_lower_bound(bodies: dict[str, Any]) -> None:
    body = bodies["tkms23-lower-bound"]
    for label, shown in body["results"].items():
        for curve in shown["families"].values():
            assert all(error > floor for error, floor in zip(curve["largest_error"], shown["floor"], strict=True)), (
                label
            )
        for users, delta in zip(body["configuration"]["users"], body["configuration"]["deltas"][label], strict=True):
            assert delta < 0.9 / (40 * users * (shown["shufflers"] + 1))


def test_the_picture_is_figure_2_of_the_paper() -> None:
    # [TKMS23] Figure 2: eight users, v(1,2), v(3,4), v(5,6), v(7,8) in one shuffler and v(1,4), v(5,8) in the other.
    found = concurrent_tree.batches(concurrent_tree.Setting(users=8).plan(None))
    spans = [{(b["first"], b["last"]) for b in found if b["shuffler"] == shuffler} for shuffler in (1, 2)]
    assert spans == [{(1, 2), (3, 4), (5, 6), (7, 8)}, {(1, 4), (5, 8)}]
    summed = {
        t: {(found[n]["first"], found[n]["last"]) for n in concurrent_tree.estimate_of(found, t)} for t in (6, 7, 8)
    }
    assert summed[6] == summed[7] == {(1, 4), (5, 6)}
    assert summed[8] == {(1, 4), (5, 8)}


def test_everyone_is_in_one_batch_of_a_shuffler_and_the_sum_has_no_gap(bodies: dict[str, Any]) -> None:
    body = bodies["tkms23-tree"]
    users, moment = body["configuration"]["users"], body["configuration"]["moment"]
    for tree in body["results"].values():
        for shuffler, size in enumerate(tree["sizes"], start=1):
            spans = [range(b["first"], b["last"] + 1) for b in tree["batches"] if b["shuffler"] == shuffler]
            assert {len(span) for span in spans} == {size}
            assert sorted(user for span in spans for user in span) == list(range(1, users - users % size + 1))
        parts = [tree["batches"][number] for number in tree["summed"]]
        summed = sorted(user for b in parts for user in range(b["first"], b["last"] + 1))
        assert summed == list(range(1, moment - tree["waiting"] + 1))
        assert tree["waiting"] < tree["sizes"][0]


def test_growing_batches_pay_for_every_late_user_and_concurrent_ones_do_not(bodies: dict[str, Any]) -> None:
    models = bodies["tkms23-linucb-adversary"]["results"]["models"]
    late = {label: model["late_regret_a_user"] for label, model in models.items()}
    # A last batch chooses blindly, however many it holds; where new directions are soon heard of, a user loses less and
    # less as n grows.
    for label in ("growing by 2", "growing by 1.3"):
        assert late[label][-1] == pytest.approx(late[label][0], rel=0.02)
        assert late[label][-1] > 2.0 * late["concurrent, binary tree"][-1]
        assert models[label]["exponent"] > models["concurrent, binary tree"]["exponent"]
    for label in ("concurrent, binary tree", "concurrent, k = 2", "sequential"):
        assert late[label][-1] < 0.85 * late[label][0]
    # With a cap on its size a batch hears of the turn: a late user pays less than half of that.
    assert late["growing, capped"][-1] < 0.5 * late["growing by 1.3"][-1]
    assert all(held == 1.0 for model in models.values() for held in model["held"])


def test_the_last_growing_batch_is_a_share_of_all_users() -> None:
    for users in (10_000, 31_623, 10**6):
        for ratio in (1.3, 2.0, 4.0):
            ends = list(growing_bandit(users, 5, epsilon=1.0, trust="shuffler", ratio=ratio).ends())
            share = (ends[-1] - ends[-2]) / ends[-1]
            # A small rest goes with the last batch, and one that is not so small is the last batch.
            assert 0.5 * (1.0 - 1.0 / ratio) < share < 1.5 * (1.0 - 1.0 / ratio) + 0.01
