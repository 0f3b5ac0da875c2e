"""The privacy of whole counters by two roads: the joint law of all that is released, and samples of the real path."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.signal import convolve2d

from croupier.continual import CounterPlan, Weights, counter
from croupier.continual.tree import Tree
from croupier.noise import SparseBits, seeded
from croupier.privacy import epsilon_lower_bound
from croupier.protocols import SumMechanism, laplace, shuffled_bits

Law = np.ndarray
"""P(zeros, ones) of one batch's view."""

TINY = [
    {"users": 4, "shufflers": 1, "smallest": 2, "epsilon": 1.0, "delta": 0.01},
    {"users": 4, "shufflers": 2, "smallest": 2, "epsilon": 1.0, "delta": 0.04},
    {"users": 6, "shufflers": 2, "smallest": 3, "epsilon": 1.5, "delta": 0.05},
    {"users": 8, "shufflers": 2, "smallest": 2, "epsilon": 1.0, "delta": 0.1},
    {"users": 8, "shufflers": 2, "smallest": 2, "epsilon": 2.0, "delta": 0.02},
]
GRID = 4e-3
"""Numerical composition adds no more than this to ε."""


@cache
def tiny(**options: object) -> CounterPlan:
    return counter(**options)  # type: ignore[arg-type]


def report_law(mechanism: SumMechanism, bit: int) -> Law:
    """One user's messages: their bit, and in every slot nothing, a zero or a one."""
    share = mechanism.share
    assert isinstance(share, SparseBits)
    rate = float(share.rate)
    slot = np.array([[1.0 - rate, rate / 2.0], [rate / 2.0, 0.0]])
    law = np.array([[0.0, 1.0], [0.0, 0.0]]) if bit else np.array([[0.0, 0.0], [1.0, 0.0]])
    for _ in range(share.slots):
        law = convolve2d(law, slot)
    return law


@cache
def view_law(mechanism: SumMechanism, bits: tuple[int, ...]) -> Law:
    """What the shuffler shows of a batch: the tallies of all its users' messages, added."""
    law = np.ones((1, 1))
    for bit in bits:
        law = convolve2d(law, report_law(mechanism, bit))
    return law


def views(plan: CounterPlan, stream: tuple[int, ...]) -> list[Law]:
    """The laws of everything a counter releases about a stream; given the stream they are independent."""
    return [
        view_law(mechanism, stream[start : start + mechanism.users])
        for mechanism in plan.mechanisms
        for start in range(0, len(stream) - mechanism.users + 1, mechanism.users)
    ]


def joint(laws: list[Law]) -> np.ndarray:
    """The law of independent views, as a list; more messages than were sent are in none of them."""
    found = np.ones(1)
    for law in laws:
        zeros, ones = np.indices(law.shape)
        found = np.multiply.outer(found, law[zeros + ones < len(law)]).ravel()
    return found


def neighbours(users: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of streams that differ in one user."""
    streams = itertools.product((0, 1), repeat=users)
    return [(s, (*s[:i], 1 - s[i], *s[i + 1 :])) for s in streams for i in range(users)]


def joint_delta(plan: CounterPlan, first: tuple[int, ...], second: tuple[int, ...], epsilon: float) -> float:
    """Σ max(0, P - e^ε Q) over the joint outcomes of all batches; those with the same law on both sides drop out."""
    pairs = [(p, q) for p, q in zip(views(plan, first), views(plan, second), strict=True) if not np.array_equal(p, q)]
    here, there = joint([p for p, _ in pairs]), joint([q for _, q in pairs])
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())


@pytest.mark.parametrize("options", TINY, ids=str)
def test_the_joint_law_of_all_releases_is_as_private_as_claimed(options: dict[str, float]) -> None:
    plan = tiny(**options)
    users, epsilon = plan.users, plan.epsilon
    pairs = neighbours(users)
    if users > 6:
        pairs = pairs[:: 1 + len(pairs) // 150]
    worst = max(joint_delta(plan, first, second, epsilon) for first, second in pairs)
    assert worst <= plan.loss.delta(epsilon) <= plan.delta == options["delta"]


@pytest.mark.parametrize("options", TINY, ids=str)
def test_the_computed_loss_is_the_loss_of_the_joint_law(options: dict[str, float]) -> None:
    plan = tiny(**options)
    first = (0,) * plan.users
    second = (1, *first[1:])
    single = plan.shufflers == 1
    for epsilon in (0.1, 0.5, plan.epsilon, 1.5 * plan.epsilon):
        claimed = plan.loss.delta(epsilon)
        for one, other in ((first, second), (second, first)):
            exact = joint_delta(plan, one, other, epsilon)
            assert exact <= claimed * (1.0 + 1e-12)
            if single:
                assert claimed == pytest.approx(exact, rel=1e-9)
            else:
                assert claimed <= joint_delta(plan, one, other, epsilon - GRID) * (1.0 + 1e-9)


def test_published_levels_are_far_inside_their_claim() -> None:
    """One level of fair bits per user and batch, counted whole: the paper's constants leave room."""
    plan = counter(4, 2, epsilon=0.9, delta=0.4, constants="published", smallest=2)
    for mechanism in plan.mechanisms:
        assert mechanism.guarantee.epsilon == pytest.approx(0.45)
        assert mechanism.guarantee.delta == pytest.approx(0.2)
    total = [mechanism.noise.trials for mechanism in plan.mechanisms]  # type: ignore[attr-defined]
    laws = []
    for trials in total:
        logs = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(trials + 1)]
        laws.append(np.exp(np.array(logs) - trials * math.log(2.0)))
    here = np.multiply.outer(np.append(laws[0], 0.0), np.append(laws[1], 0.0))
    there = np.multiply.outer(np.append(0.0, laws[0]), np.append(0.0, laws[1]))
    exact = float(np.maximum(here - math.exp(0.9) * there, 0.0).sum())
    assert exact <= plan.loss.delta(0.9) < 0.4


def residue_law(mechanism: SumMechanism, bits: tuple[int, ...]) -> np.ndarray:
    """The sum modulo m of all users' bits and noise shares, by cyclic convolution user by user."""
    modulus = mechanism.carrier.modulus  # type: ignore[union-attr]
    window = mechanism.share.window(1e-30)
    share = np.zeros(modulus)
    np.add.at(share, np.arange(window.start, window.stop) % modulus, window.pmf)
    index = (np.arange(modulus)[:, None] - np.arange(modulus)[None]) % modulus
    law = np.zeros(modulus)
    law[sum(bits)] = 1.0
    for _ in bits:
        law = share[index] @ law
    return law


def test_pure_levels_add_up_to_the_claimed_epsilon_exactly() -> None:
    plan = counter(4, 2, epsilon=3.0, delta=0, over="laplace", smallest=2, binary=True)
    found = 0.0
    for mechanism in plan.mechanisms:
        bits = (0,) * mechanism.users
        here, there = residue_law(mechanism, bits), residue_law(mechanism, (1, *bits[1:]))
        found += float(np.abs(np.log(here / there)).max())
    assert found <= 3.0 * (1.0 + 1e-9)
    assert found == pytest.approx(plan.loss.pure, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 0.1, 2.0])
@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 6, 7, 9, 11])
def test_pure_levels_never_cost_more_than_was_asked(epsilon: float, levels: int) -> None:
    """ε/k is rounded: k of them must not add up to a hair more than ε, which would let nobody in."""
    plan = counter(2 * 2**levels, epsilon=epsilon, delta=0, over="laplace", smallest=2, binary=True)
    assert plan.shufflers == levels
    assert plan.loss.pure <= epsilon
    assert plan.loss.pure == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("shufflers", [3, 5, 7])
def test_published_pure_levels_never_cost_more_than_was_asked_either(shufflers: int) -> None:
    plan = counter(3**7, shufflers, epsilon=1.0, delta=0, over="laplace", binary=True, constants="published")
    assert plan.loss.pure <= 1.0


def adaptive_views(stream: tuple[int, ...], levels: tuple[SumMechanism, ...]) -> np.ndarray:
    """All that an adaptive server sees of four users, as one joint law.

    Users 1 and 2 fill a first batch; by its answer the server chooses one of two mechanisms for users 3 and 4, while
    one batch of all four runs beside both.
    """
    first, noisy, bare, beside = levels
    opening, whole = view_law(first, stream[:2]), view_law(beside, stream)
    answers = np.arange(opening.shape[1])[None] - np.arange(opening.shape[0])[:, None]
    seconds = [view_law(mechanism, stream[2:]) for mechanism in (noisy, bare)]
    branches = [
        joint([np.where(high, opening, 0.0), second, whole])
        for high, second in zip((answers > 0, answers <= 0), seconds, strict=True)
    ]
    return np.concatenate(branches)


def test_users_of_an_adaptive_server_pay_for_one_moment_and_no_more() -> None:
    """What a user takes part in is settled before they come, so the moments' exact compositions bound everyone."""
    bits = {epsilon: shuffled_bits(epsilon=epsilon, delta=0.2) for epsilon in (0.5, 1.0)}
    levels = first, noisy, bare, beside = (
        bits[1.0].plan(2),
        bits[0.5].plan(2),
        bits[1.0].plan(2),
        bits[0.5].plan(4),
    )
    epsilon = 1.0
    early = (first.loss + beside.loss).delta(epsilon)
    late = max((noisy.loss + beside.loss).delta(epsilon), (bare.loss + beside.loss).delta(epsilon))
    worst = {0: 0.0, 2: 0.0}
    for stream in itertools.product((0, 1), repeat=4):
        for user in worst:
            if stream[0] > stream[1] or stream[2] > stream[3]:
                continue  # a shuffler does not tell the two users of a batch apart
            other = (*stream[:user], 1 - stream[user], *stream[user + 1 :])
            here, there = adaptive_views(stream, levels), adaptive_views(other, levels)
            worst[user] = max(worst[user], float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum()))
    assert 0.9 * early < worst[0] <= early
    assert 0.0 < worst[2] <= late
    # Composing all three batches, as if somebody were in them all, would overstate it.
    assert worst[2] < (first.loss + bare.loss + beside.loss).delta(epsilon)


# The audit. A right counter raises a false alarm with this probability, at most.
FAILURE = 1e-11
BOLD = 1e-3
TRIALS = 60_000


def audited(mechanisms: tuple[SumMechanism, ...], delta: float, failure: float, trials: int = TRIALS) -> float:
    """A lower bound on ε from samples on two neighbouring streams, which share one coding of the views."""
    source = seeded(17)
    seen = []
    for first in (0.0, 1.0):
        columns = []
        for mechanism in mechanisms:
            values = np.zeros((trials, mechanism.users))
            values[:, 0] = first
            columns.append(mechanism.collect(mechanism.randomize(values, source)))
        seen.append(np.concatenate(columns, axis=1))
    codes = np.unique(np.concatenate(seen), axis=0, return_inverse=True)[1].ravel()
    return epsilon_lower_bound(codes[:trials], codes[trials:], delta=delta, failure=failure).epsilon


AUDITED = {"users": 8, "shufflers": 2, "smallest": 2, "epsilon": 1.0, "delta": 0.1}


@pytest.mark.slow
def test_a_right_counter_passes_the_audit_and_the_audit_has_power() -> None:
    plan = tiny(**AUDITED)
    found = audited(plan.mechanisms, plan.delta, FAILURE)
    exact = plan.loss.epsilon(plan.delta)
    assert found <= exact <= plan.epsilon
    assert audited(plan.mechanisms, plan.delta, BOLD) > 0.5 * exact


@pytest.mark.slow
def test_a_counter_with_one_silent_level_is_caught() -> None:
    plan = tiny(**AUDITED)
    for level in range(plan.shufflers):
        broken = list(plan.mechanisms)
        silent = SumMechanism.from_json(broken[level].to_json())
        object.__setattr__(silent, "share", SparseBits(broken[level].share.slots, 0.05))  # type: ignore[attr-defined]
        broken[level] = silent
        assert audited(tuple(broken), plan.delta, BOLD) > plan.epsilon


def test_a_counter_whose_levels_each_take_the_whole_budget_is_caught() -> None:
    plan = tiny(**AUDITED)
    whole = shuffled_bits(epsilon=plan.epsilon, delta=plan.delta)
    broken = tuple(whole.plan(mechanism.users) for mechanism in plan.mechanisms)
    assert audited(broken, plan.delta, BOLD) > plan.epsilon
    # And the arithmetic says so too.
    loss = replace(plan, mechanisms=broken).loss
    assert loss.delta(plan.epsilon) > plan.delta


def test_a_pure_counter_passes_the_audit_and_a_doubled_one_does_not() -> None:
    tree = Tree(users=8, smallest=2, degree=2, levels=2)
    right = tuple(laplace(epsilon=0.5, binary=True).plan(size) for size in tree.sizes)
    plan = CounterPlan(tree, right, Weights.plain(2), 1.0, 0.0, centred=False)

    def views_of(mechanisms: tuple[SumMechanism, ...]) -> float:
        source, seen = seeded(5), []
        for first in (0.0, 1.0):
            columns = []
            for mechanism in mechanisms:
                values = np.zeros((TRIALS, mechanism.users))
                values[:, 0] = first
                columns.append(mechanism.analyze_many(mechanism.collect(mechanism.randomize(values, source))))
            # Along the diagonal both levels rise together: their sum tells most of what the pair tells.
            seen.append(np.sum(columns, axis=0))
        return epsilon_lower_bound(seen[0], seen[1], delta=0.0, failure=FAILURE).epsilon

    assert views_of(right) <= plan.epsilon
    doubled = tuple(laplace(epsilon=2.0, binary=True).plan(size) for size in tree.sizes)
    assert views_of(doubled) > plan.epsilon


def composed_by_dp_accounting(plan: CounterPlan, epsilon: float, pessimistic: bool) -> float:
    """δ of a user in all levels of a counter over sparse bits: the view is how many bits there are, and the ones."""
    from dp_accounting.pld import privacy_loss_distribution
    from scipy.stats import binom

    total = None
    for mechanism in plan.mechanisms:
        noise = mechanism.share.times(mechanism.honest)
        here, there = {}, {}
        for sent in range(noise.slots + 1):
            chance = binom.pmf(sent, noise.slots, float(noise.rate))
            if chance < 1e-25:
                continue
            for ones, mass in enumerate(chance * binom.pmf(np.arange(sent + 1), sent, 0.5)):
                if mass > 0:
                    here[10_000 * sent + ones] = there[10_000 * sent + ones + 1] = math.log(mass)
        level = privacy_loss_distribution.from_two_probability_mass_functions(
            here, there, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
        )
        total = level if total is None else total.compose(level)
    assert total is not None
    return float(total.get_delta_for_epsilon(epsilon))


@pytest.mark.slow
def test_another_librarys_composition_of_the_levels_brackets_ours() -> None:
    plan = counter(4096, 3, epsilon=0.9, delta=1e-6)
    ours = plan.loss.delta(0.9)
    assert composed_by_dp_accounting(plan, 0.9, pessimistic=False) <= ours <= 1e-6
    assert ours <= composed_by_dp_accounting(plan, 0.9, pessimistic=True) * (1 + 1e-3)
