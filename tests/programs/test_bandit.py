"""A bandit program: any order of arrival gives the same state, and operators are heard between phases."""

import itertools
from typing import Any

import numpy as np
import pytest

from cases.program_logs import steady
from croupier.checks import InvalidParameter
from croupier.programs.bandit import BanditProgram, Open

CONFIGURATIONS: list[dict[str, Any]] = [
    {"name": "dp-klucb", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True},
    {"name": "dist-dp-se", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True},
    {"name": "vb-sdp-ae", "arms": 3, "horizon": 4000, "epsilon": 0.9, "constants": "published"},
    {"name": "shuffle-dp-se", "arms": 3, "horizon": 4000, "epsilon": 1.0},
    {"name": "dp-thompson", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True, "seed": 5},
]

IN_SHARES = {"epsilon": 1.0, "binary": True, "trust": "two-servers"}


def answer(batch: Open) -> int:
    """A decoded number for a batch, the same whenever the batch is answered: arm a pays 0.2 + 0.3 a."""
    return steady(batch.mechanism, 0.2 + 0.3 * batch.arm)


def play(bandit: BanditProgram, order: int, most: int = 200) -> None:
    """Answer open batches until the end; `order` decides which comes first."""
    for step in range(most):
        batches = bandit.open
        if not batches:
            return
        batch = batches[(order * (step + 1)) % len(batches)]
        bandit.released(batch.batch, answer(batch))


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c["name"])
def test_order_of_arrival_does_not_matter(configuration) -> None:
    bandits = [BanditProgram(configuration) for _ in range(4)]
    for order, bandit in enumerate(bandits):
        play(bandit, order)
    for bandit in bandits[1:]:
        for name in ("totals", "counts", "active", "batches", "users"):
            assert np.array_equal(getattr(bandit.policy, name), getattr(bandits[0].policy, name))


def test_every_order_of_one_phase_gives_one_state() -> None:
    states = set()
    for order in itertools.permutations(range(3)):
        bandit = BanditProgram(CONFIGURATIONS[1])
        batches = bandit.open
        for index in order:
            bandit.released(batches[index].batch, answer(batches[index]))
        states.add((bandit.policy.totals.tobytes(), tuple(bandit.open)))
    assert len(states) == 1


def test_an_expired_batch_is_wanted_again() -> None:
    bandit = BanditProgram(CONFIGURATIONS[1])
    first = bandit.open[0]
    bandit.expired(first.batch)
    assert (first.arm, first.mechanism) in {(b.arm, b.mechanism) for b in bandit.open}
    with pytest.raises(InvalidParameter, match=f"batch = {first.batch} "):
        bandit.released(first.batch, 3)


@pytest.mark.parametrize("name", ["dp-klucb", "dist-dp-se"])
def test_batches_that_deadlines_close_end_no_experiment_before_its_horizon(name) -> None:
    """However large the next batch would be: what comes in time is what is asked for."""
    bandit = BanditProgram({"name": name, "arms": 2, "horizon": 2000} | IN_SHARES)
    sizes = []
    while bandit.open:
        batch = bandit.open[0]
        users = min(40, batch.mechanism.users)
        sizes.append(batch.mechanism.users)
        bandit.released(batch.batch, users // 2, users)
    assert bandit.show()["users"] > 2000 - 80
    assert {40, 80} <= set(sizes) <= set(range(32, 81)), "where batches fill, the next are larger"


def test_short_batches_of_one_phase_may_come_in_any_order() -> None:
    states = set()
    for order in itertools.permutations(range(3)):
        bandit = BanditProgram({"name": "dist-dp-se", "arms": 3, "horizon": 4000} | IN_SHARES)
        play(bandit, 1, most=6)
        batches = bandit.open
        for index in order:
            batch = batches[index]
            users = batch.mechanism.users - 5 * index
            bandit.released(batch.batch, steady(batch.mechanism.for_users(users), 0.5), users)
        states.add((bandit.policy.totals.tobytes(), tuple(bandit.open)))
    assert len(states) == 1


def test_a_batch_is_released_once() -> None:
    bandit = BanditProgram(CONFIGURATIONS[1])
    batch = bandit.open[0].batch
    bandit.released(batch, 3)
    before = bandit.show(), bandit.open
    with pytest.raises(InvalidParameter, match="open batch"):
        bandit.released(batch, 3)
    assert (bandit.show(), bandit.open) == before


def test_what_is_no_number_changes_nothing() -> None:
    bandit = BanditProgram(CONFIGURATIONS[1])
    batches = bandit.open
    with pytest.raises(TypeError):
        bandit.released(batches[0].batch, [1, 2])
    assert bandit.open == batches


def test_stopping_ends_it() -> None:
    bandit = BanditProgram(CONFIGURATIONS[0])
    bandit.stop()
    assert bandit.finished
    assert bandit.open == bandit.wanted == []


def test_an_arm_that_became_the_last_is_not_retired() -> None:
    """The wish waits for the end of the phase; by then every other arm may be out."""
    bandit = BanditProgram({"name": "dist-dp-se", "arms": 2, "horizon": 10**6, "epsilon": 5.0, "binary": True})
    bandit.operate("retire", 0)
    for batch in bandit.open:
        bandit.released(batch.batch, batch.mechanism.users if batch.arm == 0 else 0)
    assert (bandit.out, bandit.retired) == ({1}, set())


@pytest.mark.parametrize("name", ["dp-klucb", "vb-sdp-ae"])
@pytest.mark.parametrize("operation", ["pause", "retire"])
def test_a_batch_of_an_arm_that_is_to_leave_is_not_opened_again_when_it_expires(name: str, operation: str) -> None:
    bandit = BanditProgram({"name": name, "arms": 3, "horizon": 3000, "epsilon": 1.0, "binary": True})
    first = bandit.open[0]
    bandit.operate(operation, first.arm)
    assert bandit.leaving == {first.arm}
    assert bandit.unwanted == {first.batch}
    bandit.expired(first.batch)
    assert first.arm not in {batch.arm for batch in bandit.open}
    for _ in range(3):
        for batch in bandit.open:
            bandit.released(batch.batch, batch.mechanism.users // 2)
            assert batch.arm != first.arm
    assert bandit.leaving == bandit.unwanted == set()
    assert bandit.policy.pulls[0, first.arm] == bandit.policy.counts[0, first.arm] == 0
    assert bandit.retired == bandit.out == ({first.arm} if operation == "retire" else set())


def test_an_arm_that_is_resumed_before_it_left_stays() -> None:
    bandit = BanditProgram({"name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0, "binary": True})
    (batch,) = bandit.open
    bandit.operate("pause", batch.arm)
    bandit.operate("resume", batch.arm)
    bandit.expired(batch.batch)
    assert [(one.arm, one.mechanism) for one in bandit.open] == [(batch.arm, batch.mechanism)]


def test_an_arm_can_be_paused_as_soon_as_it_was_asked_for() -> None:
    bandit = BanditProgram(CONFIGURATIONS[1])
    with pytest.raises(InvalidParameter, match="arm = 3 "):
        bandit.operate("pause", 3)
    bandit.operate("add")
    bandit.operate("pause", 3)
    play(bandit, 0, most=3)
    assert [row["paused"] for row in bandit.show()["arms"]] == [False, False, False, True]
