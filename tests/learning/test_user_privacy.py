"""Privacy is for users: all of one user's samples move one vote, and the vote is counted privately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.learners import WORLDS
from croupier.learning import Points, Samples, Seed, Stable, Voting
from croupier.noise import Source, seeded
from croupier.privacy import epsilon_lower_bound

MODELS = ("shuffle", "local", "central", "central-pure")


def replaced(samples: Samples, user: int, rows: np.ndarray, labels: np.ndarray) -> Samples:
    """The same users, but one holds other samples, perhaps more or fewer."""
    low, high = int(samples.starts[user]), int(samples.starts[user + 1])
    starts = samples.starts.copy()
    starts[user + 1 :] += len(rows) - (high - low)
    return Samples(
        np.concatenate((samples.features[:low], rows, samples.features[high:])),
        np.concatenate((samples.labels[:low], labels, samples.labels[high:])),
        starts,
    )


@pytest.mark.parametrize("name", WORLDS)
@settings(derandomize=True, deadline=None, max_examples=6)
@given(data=st.data())
def test_changing_all_of_a_users_samples_changes_their_vote_only(name: str, data: Any) -> None:
    world, users = WORLDS[name], 6
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    rows = world.draw(rng, users * 20)
    # Labels of the target, flipped at random: nothing about privacy rests on good data.
    labels = world.label(rows) ^ (rng.random(len(rows)) < data.draw(st.sampled_from([0.0, 0.3, 0.5])))
    samples = Samples.equal(rows, labels, users)
    user, size = data.draw(st.integers(0, users - 1)), data.draw(st.integers(0, 60))
    other = world.draw(rng, size)
    changed = replaced(samples, user, other, rng.random(size) < 0.5)
    before, after = (world.ballot(seed).marks(given) for given in (samples, changed))
    rest = np.arange(users) != user
    assert (before[rest] == after[rest]).all()


@pytest.mark.parametrize("name", WORLDS)
def test_a_vote_is_the_same_alone_and_in_a_crowd(name: str) -> None:
    world = WORLDS[name]
    samples = world.users(np.random.default_rng(1), 5)
    ballot = world.ballot(7)
    together = ballot.marks(samples)
    for user in range(5):
        assert (ballot.marks(samples.only(user, user + 1))[0] == together[user]).all()


LEARNER = Stable(Points(2), gamma=50.0)
SIZE = 21


def neighbours() -> tuple[Samples, Samples]:
    """Eleven users against ten hold point 1, or ten against eleven: one user's five samples decide."""
    points = np.repeat((np.arange(SIZE) < SIZE // 2 + 1).astype(float), 5)[:, None]
    first = Samples.equal(points, np.ones(len(points), dtype=bool), SIZE)
    return first, replaced(first, 0, np.zeros((5, 1)), np.ones(5, dtype=bool))


def winners(count: Callable[[np.ndarray, Source], int], trials: int) -> list[np.ndarray]:
    """What is released in many runs on each of the two neighbours."""
    ballot = LEARNER.ballot(columns=1, seed=Seed.of(1), alpha=0.1, beta=0.1)
    source = seeded(11)
    votes = [ballot.votes(samples) for samples in neighbours()]
    assert (votes[0] != votes[1]).sum() == 1
    return [np.asarray([count(given, source) for _ in range(trials)]) for given in votes]


@pytest.mark.slow
@pytest.mark.parametrize("route", ["list", "bits"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("trials", [500, pytest.param(1_500, marks=pytest.mark.evidence)])
def test_the_audit_finds_no_more_than_is_claimed(model: str, route: str, trials: int) -> None:
    # A correct learner is found wanting with probability 1e-10.
    ballot = LEARNER.ballot(columns=1, seed=Seed.of(1), alpha=0.1, beta=0.1)
    election = Voting(1.0, model=model, route=route, check_bits=0).plan(ballot, SIZE, Seed.of(1))

    def count(votes: np.ndarray, source: Source) -> int:
        if route == "list":
            return election.run(votes, source)  # type: ignore[return-value]
        return int(election.run(votes[:, None].astype(np.uint8), source)[0][0])  # type: ignore[index]

    first, second = winners(count, trials if route == "list" else 2 * trials // 5)
    claim = election.privacy
    assert epsilon_lower_bound(first, second, delta=claim.delta, failure=1e-10).epsilon <= claim.epsilon


def test_the_audit_catches_a_vote_without_noise() -> None:
    first, second = winners(lambda votes, source: int(np.bincount(votes, minlength=2).argmax()), 3_000)
    assert epsilon_lower_bound(first, second, delta=1e-6, failure=1e-10).epsilon > 1.0


def test_the_audit_catches_noise_for_a_weaker_claim() -> None:
    ballot = LEARNER.ballot(columns=1, seed=Seed.of(1), alpha=0.1, beta=0.1)
    loose = Voting(6.0, model="central-pure").plan(ballot, SIZE, Seed.of(1))
    first, second = winners(lambda votes, source: loose.run(votes, source), 3_000)  # type: ignore[arg-type,return-value]
    assert epsilon_lower_bound(first, second, delta=0.0, failure=1e-10).epsilon > 1.0
