"""Elections: the common vote wins as surely as is said, from a list or bit by bit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from croupier.checks import InvalidParameter
from croupier.learning import BitElection, ListElection, Seed, Voting
from croupier.noise import seeded
from croupier.protocols import selection

MODELS = ("shuffle", "local", "central", "central-pure")


class Blank:
    """A ballot that is only counted, not voted on by samples."""

    def __init__(self, size: int | None, bits: int) -> None:
        self.size, self.bits = size, bits


LIST, BITS = Blank(50, 6), Blank(None, 6)


@pytest.mark.parametrize("model", MODELS)
def test_the_common_vote_wins_from_a_list(model: str) -> None:
    voting = Voting(1.0, model=model)
    users = voting.users_needed(LIST, agreement=0.9, failure=1e-4)
    election = voting.plan(LIST, users, Seed.of(1))
    assert isinstance(election, ListElection)
    votes = np.where(np.arange(users) % 10 == 0, 7, 31)
    # Nine in ten agree, and the bound for this very count is below 1e-4 a run.
    assert all(election.run(votes, seeded(run)) == 31 for run in range(10))


@pytest.mark.parametrize("model", MODELS)
def test_the_common_vote_wins_bit_by_bit(model: str) -> None:
    voting = Voting(1.0, model=model)
    users = voting.users_needed(BITS, agreement=0.9, failure=1e-4)
    election = voting.plan(BITS, users, Seed.of(1))
    assert isinstance(election, BitElection)
    marks = np.tile(np.asarray([1, 0, 0, 1, 1, 0], dtype=np.uint8), (users, 1))
    strange = np.random.default_rng(0).random(users) < 0.05
    marks[strange] = 1 - marks[strange]
    for run in range(5):
        bits, verified = election.run(marks, seeded(run))
        assert bits.tolist() == [1, 0, 0, 1, 1, 0]
        assert verified


@pytest.mark.parametrize("ballot", [LIST, BITS], ids=["list", "bits"])
@pytest.mark.parametrize("model", MODELS)
def test_privacy_is_certified(model: str, ballot: Any) -> None:
    election = Voting(0.8, model=model).plan(ballot, 300, Seed.of(1))
    assert election.certificate().holds
    assert election.privacy.epsilon == 0.8
    taken = election.mechanism if isinstance(election, ListElection) else election.mechanism(0)
    assert election.privacy.delta == (0 if taken.model in ("local", "central-pure") else 1e-6)
    assert taken.model == model or taken.model == {"shuffle": "local", "central": "central-pure"}[model]


@pytest.mark.parametrize(("epsilon", "users"), [(2.0, 240), (1.0, 40), (3.0, 8)])
@pytest.mark.parametrize("model", ["shuffle", "central"])
def test_all_groups_make_the_same_promise(epsilon: float, users: int, model: str) -> None:
    """Alone, groups of 240 and of 241 would choose differently at ε = 2: one with noise, one by local reports."""
    voting = Voting(epsilon, model=model, route="bits")
    for more in range(12):
        election = BitElection(users * 12 + more, 4, voting, Seed.of(0))
        groups = [election.mechanism(j) for j in range(election.parts)]
        assert {(group.model, group.trust, group.guarantee) for group in groups} == {
            (groups[0].model, groups[0].trust, groups[0].guarantee)
        }
        assert str(election.privacy) == str(groups[-1].guarantee).replace("report", "user")


def test_every_user_is_in_one_group_and_groups_are_even() -> None:
    election = Voting(1.0).plan(BITS, 1000, Seed.of(2))
    assert isinstance(election, BitElection)
    sizes = np.bincount(election.positions, minlength=election.parts)
    assert sizes.sum() == 1000
    assert sizes.tolist() == [election.mechanism(j).users for j in range(election.parts)]
    assert (election.positions == Voting(1.0).plan(BITS, 1000, Seed.of(2)).positions).all()  # type: ignore[union-attr]


def test_a_user_moves_nothing_but_the_bit_of_their_group() -> None:
    election = Voting(1.0, check_bits=0).plan(BITS, 120, Seed.of(2))
    assert isinstance(election, BitElection)
    marks = np.random.default_rng(1).integers(0, 2, (120, 6)).astype(np.uint8)
    other = np.random.default_rng(2).integers(0, 2, (120, 6)).astype(np.uint8)
    everyone = np.arange(120)
    other[everyone, election.positions] = marks[everyone, election.positions]
    for run in range(20):
        assert (election.run(marks, seeded(run))[0] == election.run(other, seeded(run))[0]).all()


def test_check_bits_tell_a_mixture_from_a_vote() -> None:
    election = Voting(5.0, model="central-pure", check_bits=16).plan(BITS, 22 * 200, Seed.of(3))
    assert isinstance(election, BitElection)
    marks = np.zeros((election.users, 6), dtype=np.uint8)
    # Those who elect the first three bits say 1, everyone else 0: nobody's vote wins, and the check bits are of zeros.
    marks[election.positions < 3] = 1
    bits, verified = election.run(marks, seeded(1))
    assert bits.tolist() == [1, 1, 1, 0, 0, 0]
    assert not verified


@pytest.mark.slow
@pytest.mark.parametrize("ballot", [LIST, BITS], ids=["list", "bits"])
@pytest.mark.parametrize("model", ["shuffle", "local", "central-pure"])
@pytest.mark.parametrize("elections", [100, pytest.param(300, marks=pytest.mark.evidence)])
def test_the_failure_bound_holds_in_measured_elections(model: str, ballot: Any, elections: int) -> None:
    # A bound of about one in five, against so many elections; an exceedance has a probability below 1e-9.
    voting = Voting(1.0, model=model, check_bits=0)
    users = voting.users_needed(ballot, agreement=0.8, failure=0.2)
    election = voting.plan(ballot, users, Seed.of(4))
    bound = election.failure(0.8)
    rng, source = np.random.default_rng(5), seeded(5)
    failed = 0
    for _ in range(elections):
        # The worst case: whoever does not hold the common vote holds one and the same other.
        agree = rng.random(users) < 0.8
        if isinstance(election, ListElection):
            failed += election.run(np.where(agree, 3, 17), source) != 3
        else:
            marks = np.where(agree[:, None], 1, 0).astype(np.uint8) * np.ones((1, 6), dtype=np.uint8)
            failed += not election.run(marks, source)[0].all()
    assert binom.sf(failed - 1, elections, bound) > 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("ballot", [LIST, BITS], ids=["list", "bits"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("larger", [8, pytest.param(40, marks=pytest.mark.evidence)])
def test_as_many_users_as_needed_are_enough_and_not_many_too_many(model: str, ballot: Any, larger: int) -> None:
    voting = Voting(1.0, model=model)
    users = voting.users_needed(ballot, agreement=0.9, failure=0.03)
    bounds = [voting.plan(ballot, n, Seed.of(0)).failure(0.9) for n in range(users, users + larger)]
    assert max(bounds) <= 0.03, "and so are all larger numbers"
    assert voting.plan(ballot, users - 1, Seed.of(0)).failure(0.9) > 0.03


@pytest.mark.slow
def test_users_needed_grow_as_they_must() -> None:
    @cache
    def needed(epsilon: float = 1.0, size: int = 50, model: str = "shuffle", agreement: float = 0.9) -> int:
        return Voting(epsilon, model=model).users_needed(Blank(size, 6), agreement=agreement, failure=0.03)

    assert needed(epsilon=0.25) > 2.5 * needed()
    assert needed(epsilon=0.25, model="local") > 10 * needed(model="local")
    assert needed(agreement=0.6) > 4 * needed()
    assert needed(size=2**20) < 1.6 * needed()
    assert needed(model="central-pure") < needed() < needed(model="local")


def test_the_central_model_takes_the_better_of_its_two_selections() -> None:
    few, many = (Voting(1.0, model="central").choice(size, 1000) for size in (2, 2**26))
    assert (few.model, many.model) == ("central-pure", "central")
    assert few.error(0.01) <= many.error(0.01)


GRID = [
    (epsilon, size, users) for epsilon in (0.3, 1.0, 3.0) for size in (2, 3, 16, 200) for users in (1, 4, 9, 25, 80)
]


@pytest.mark.parametrize(("epsilon", "size", "users"), GRID)
def test_a_shuffled_vote_of_all_is_never_less_sure_than_a_local_one(epsilon: float, size: int, users: int) -> None:
    shuffled, local = (Voting(epsilon, model=model).choice(size, users) for model in ("shuffle", "local"))
    assert shuffled.unanimous_failure <= local.unanimous_failure
    assert shuffled.certificate().holds
    assert shuffled.guarantee.delta <= 1e-6


MEASURED = [
    pytest.param(*case, marks=() if case[2] in (4, 25) else pytest.mark.evidence)
    for case in GRID
    if case[2] > 1 and case[1] < 200
]


@pytest.mark.parametrize(("epsilon", "size", "users"), MEASURED)
def test_the_chance_of_a_vote_of_all_is_what_is_measured(epsilon: float, size: int, users: int) -> None:
    counts, source, trials = np.zeros(size, dtype=np.int64), seeded(6), 400
    counts[-1] = users
    for model in ("shuffle", "local"):
        mechanism = selection(epsilon=epsilon, size=size, model=model).plan(users)
        failed = sum(mechanism.simulate(counts, source) != size - 1 for _ in range(trials))
        # Exact but for many local items, where ties between them are no independent events; seven deviations.
        near = 0.0 if model == "shuffle" or size == 2 else 0.12
        chance = mechanism.unanimous_failure
        assert abs(failed / trials - chance) <= near + 7 * np.sqrt(max(chance * (1 - chance), 1 / trials) / trials)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [600, pytest.param(2_000, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(
    ("epsilon", "size", "users"), [(1.0, 2, 4), (1.0, 2, 12), (3.0, 2, 8), (3.0, 16, 8), (1.0, 16, 40)]
)
def test_a_shuffled_election_is_won_as_often_as_a_local_one(epsilon: float, size: int, users: int, trials: int) -> None:
    rng, source, won = np.random.default_rng(7), seeded(7), {}
    votes = np.where(rng.random((trials, users)) < 0.9, size - 1, 0)
    for model in ("shuffle", "local"):
        choice = Voting(epsilon, model=model).choice(size, users)
        won[model] = np.mean([choice.run(row, source) == size - 1 for row in votes])
    # Where both take local reports they differ by chance alone: six standard deviations.
    assert won["shuffle"] >= won["local"] - 6 * np.sqrt(0.5 / trials)
    if (epsilon, size, users) == (1.0, 16, 40):
        assert won["shuffle"] > won["local"] + 0.05


@pytest.mark.slow
def test_no_more_users_are_needed_through_a_shuffler() -> None:
    for epsilon in (1.0, 3.0, 6.0):
        for ballot in (Blank(2, 1), LIST, BITS):
            shuffled, local = (
                Voting(epsilon, model=model).users_needed(ballot, agreement=0.9, failure=0.03)
                for model in ("shuffle", "local")
            )
            assert shuffled <= local


def test_an_election_says_what_a_user_sends() -> None:
    many, few, one = (
        Voting(1.0, model=model, route=route).plan(Blank(2**20, 20), 79, Seed.of(0))
        for model, route in (("shuffle", "list"), ("shuffle", "bits"), ("local", "list"))
    )
    assert isinstance(many, ListElection)
    noise = many.mechanism.oracle.noise.mean  # type: ignore[attr-defined]
    assert many.messages_per_user == pytest.approx(1 + 2**20 * noise / 79)
    assert many.simulation_only
    assert one.messages_per_user == 1.0
    assert not one.simulation_only
    assert few.messages_per_user < 100
    assert not few.simulation_only


def test_the_route_is_chosen_by_the_list() -> None:
    assert Voting(1.0).takes_list(LIST)
    assert not Voting(1.0, route="bits").takes_list(LIST)
    assert not Voting(1.0).takes_list(BITS)
    assert not Voting(1.0).takes_list(Blank(2**21, 21))
    assert Voting(1.0, route="list").takes_list(Blank(2**21, 21))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Voting(0.0),
        lambda: Voting(1.0, model="none"),
        lambda: Voting(1.0, route="post"),
        lambda: Voting(1.0, check_bits=-1),
        lambda: Voting(1.0, constants="published"),
        lambda: Voting(1.0, model="local", delta=0.1),
        lambda: Voting(1.0, route="list").plan(BITS, 100, Seed.of(0)),
        lambda: Voting(1.0).plan(BITS, 13, Seed.of(0)),
        lambda: Voting(1.0).users_needed(LIST, agreement=0.5, failure=0.1),
        lambda: Voting(1.0).users_needed(LIST, agreement=0.9, failure=0.0),
        lambda: Voting(1.0).plan(BITS, 20, Seed.of(0)).run(np.zeros((19, 6), dtype=np.uint8), seeded(0)),
    ],
)
def test_elections_refuse_what_they_cannot_do(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()
