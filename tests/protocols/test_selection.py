"""What every selection must keep: its privacy, its error, its form, and what choosing alone can do."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.noise import secure, seeded
from croupier.protocols import ItemOutside, SelectionMechanism, selection
from croupier.protocols.histograms.choice import ExponentialMechanism, PermuteAndFlip, StableChoice

EVERY = {
    "shuffle": {},
    "shuffle, under": {"side": "under"},
    "shuffle, coins": {"side": "both"},
    "shuffle, few messages": {"minimise": "messages"},
    "shuffle, published": {"constants": "published"},
    "local": {"model": "local"},
    "local, published": {"model": "local", "constants": "published"},
    "central": {"model": "central"},
    "central, published": {"model": "central", "constants": "published"},
    "central, pure": {"model": "central-pure"},
    "central, pure, published": {"model": "central-pure", "constants": "published"},
}


def make(name: str, *, users: int, size: int, epsilon: float = 0.9) -> SelectionMechanism:
    """A selection among numbers."""
    return selection(epsilon=epsilon, size=size, **EVERY[name]).plan(users)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_the_claim_is_what_the_noise_gives(name: str, size: int) -> None:
    mechanism = make(name, users=400, size=size)
    assert mechanism.certificate().holds
    assert mechanism.loss.delta(0.9) <= mechanism.guarantee.delta
    assert (mechanism.guarantee.notion == "pure") == (mechanism.loss.pure <= 0.9)


@pytest.mark.parametrize("name", EVERY)
def test_a_clear_winner_wins_step_by_step_the_whole_way_and_in_law(name: str) -> None:
    mechanism = make(name, users=1000, size=6)
    votes = np.full(1000, 4)
    votes[:20] = np.arange(20) % 6
    assert mechanism.error(1e-6) < 900
    reports = [mechanism.randomize(int(vote), secure(), seat=seat) for seat, vote in enumerate(votes)]
    assert mechanism.analyze(mechanism.collect(reports), secure()) == 4
    assert mechanism.run(votes, secure()) == 4
    assert mechanism.simulate(np.bincount(votes, minlength=6), secure()) == 4


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [3, 200])
@pytest.mark.parametrize(("trials", "most"), [(150, 43), pytest.param(300, 70, marks=pytest.mark.evidence)])
def test_the_winner_is_no_further_from_the_best_than_stated(name: str, size: int, trials: int, most: int) -> None:
    users = 4000
    mechanism = make(name, users=users, size=size)
    allowed = math.floor(mechanism.error(0.1))
    assert allowed < users
    # The worst case: every other item is as little behind as is not allowed any more, or one further.
    counts = np.full(size, -((allowed + 1 - users) // size))
    counts[1] += allowed + 1
    others = np.delete(np.arange(size), 1)
    counts[others[: counts.sum() - users]] -= 1
    source = seeded(3)
    short = [counts.max() - counts[mechanism.simulate(counts, source)] > allowed for _ in range(trials)]
    # At most one in ten: more than 43 of 150, or 70 of 300, has probability below 1e-10.
    assert sum(short) <= most


def test_the_error_does_not_depend_on_the_universe_but_where_it_must() -> None:
    def growth(name: str, users: int = 10**6) -> float:
        errors = [make(name, users=users, size=size).error(0.05) for size in (100, 2**20)]
        return errors[1] - errors[0]

    assert growth("central", users=100) == 0 < make("central", users=100, size=100).error(0.05) < 60
    assert growth("central") <= 1, "a million users can hold more than a hundred items"
    coins = make("shuffle, coins", users=10**6, size=2**20)
    assert coins.error(0.05) <= coins.oracle.coins - coins.oracle.noise.quantile(0.05)  # type: ignore[attr-defined]
    bound = make("shuffle, under", users=10**6, size=100).oracle.noise.tail_quantile(0.05)  # type: ignore[attr-defined]
    assert make("shuffle, under", users=10**6, size=2**20).error(0.05) <= bound, "[GKM21] Lemma 36"
    assert growth("central, pure") == pytest.approx(2 / 0.9 * math.log(2**20 / 100), abs=3)


@pytest.mark.parametrize("name", EVERY)
def test_the_users_needed_are_the_least_that_do(name: str) -> None:
    recipe = selection(epsilon=0.9, size=50, **EVERY[name])  # type: ignore[arg-type]
    needed = recipe.users_needed(0.5, failure=0.05)
    assert recipe.plan(needed).error(0.05) < 0.5 * needed
    if name != "shuffle, coins" or needed > recipe.plan(needed).oracle.coins:  # type: ignore[attr-defined]
        assert recipe.plan(needed - 1).error(0.05) >= 0.5 * (needed - 1)


def batches(users: int, size: int) -> list[tuple[int, ...]]:
    """All count vectors of so many users."""
    return [c for c in itertools.product(range(users + 1), repeat=size) if sum(c) == users]


def chosen(ballot, counts: tuple[int, ...]) -> np.ndarray:  # type: ignore[no-untyped-def]
    """The law of the winner, by its definition: over all orders, or in proportion."""
    scale, size = float(ballot.scale), ballot.size
    if isinstance(ballot, ExponentialMechanism):
        weights = np.exp(np.asarray(counts) / scale)
        return weights / weights.sum()
    stable = isinstance(ballot, StableChoice)
    entries = [(i, c) for i, c in enumerate(counts) if c > 0 or not stable]
    if stable:
        entries.append((0, ballot.threshold))
    top = max(c for _, c in entries)
    accept = [math.exp((c - top) / scale) for _, c in entries]
    law = np.zeros(size)
    orders = list(itertools.permutations(range(len(entries))))
    for order in orders:
        left = 1.0 / len(orders)
        for at in order:
            law[entries[at][0]] += left * accept[at]
            left *= 1.0 - accept[at]
    assert law.sum() == pytest.approx(1.0)
    return law


@pytest.mark.parametrize(
    "ballot",
    [
        PermuteAndFlip(3, 6, 2),
        PermuteAndFlip(3, 6, Fraction(1, 2)),
        ExponentialMechanism(3, 6, 2),
        StableChoice(3, 6, 2, 4),
        StableChoice(3, 6, Fraction(3, 2), 6),
    ],
)
def test_choices_are_private_on_every_pair_of_neighbouring_batches(ballot) -> None:  # type: ignore[no-untyped-def]
    laws = {counts: chosen(ballot, counts) for counts in batches(6, 3)}

    def worst(epsilon: float) -> float:
        """The most by which one law exceeds e^ε times that of a batch in which one user holds something else."""
        found = 0.0
        for counts, law in laws.items():
            for out, into in itertools.permutations(range(3), 2):
                if counts[out] > 0:
                    moved = tuple(c - (i == out) + (i == into) for i, c in enumerate(counts))
                    found = max(found, float(np.maximum(law - math.exp(epsilon) * laws[moved], 0.0).sum()))
        return found

    epsilon = 2 / float(ballot.scale)
    for part in (0.25, 0.5, 0.75, 1.0):
        assert worst(part * epsilon) <= ballot.loss.delta(part * epsilon) + 1e-12
    # Half the claim would be wrong: the test has teeth.
    assert worst(epsilon / 2.2) > 1e-3


@pytest.mark.parametrize(
    "ballot",
    [PermuteAndFlip(4, 9, 3), ExponentialMechanism(4, 9, 3), StableChoice(4, 9, 3, 5)],
)
@pytest.mark.parametrize("source", [seeded(5), secure()], ids=["seeded", "secure"])
@pytest.mark.parametrize("trials", [3_000, pytest.param(8_000, marks=pytest.mark.evidence)])
def test_the_winner_has_exactly_its_law(ballot, source, trials) -> None:  # type: ignore[no-untyped-def]
    counts = (4, 0, 3, 2)
    law = chosen(ballot, counts)
    seen = np.bincount([ballot.choose(np.asarray(counts), source) for _ in range(trials)], minlength=4)
    # Seven standard deviations in 24 comparisons: below 1e-10.
    assert np.all(np.abs(seen - trials * law) <= 7 * np.sqrt(trials * law * (1 - law)) + 1e-9)


def test_permute_and_flip_errs_less_than_the_exponential_mechanism() -> None:
    for failure in (0.5, 0.2, 0.05):
        flip, exponential = (
            make(name, users=10**4, size=100, epsilon=0.1).error(failure)
            for name in ("central, pure", "central, pure, published")
        )
        assert flip <= exponential
    counts = np.zeros(100, dtype=np.int64)
    counts[:2] = 30, 20
    source, shortfalls = seeded(2), {}
    for kind in (PermuteAndFlip, ExponentialMechanism):
        ballot = kind(100, 50, 4)
        shortfalls[kind] = np.mean([30 - counts[ballot.choose(counts, source)] for _ in range(3000)])
    assert shortfalls[PermuteAndFlip] < 0.9 * shortfalls[ExponentialMechanism]


@pytest.mark.parametrize("name", EVERY)
def test_serial_form_is_complete_and_checked(name: str) -> None:
    mechanism = make(name, users=400, size=20)
    again = SelectionMechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    body = json.loads(mechanism.to_json())
    body["guarantee"]["epsilon"] = 0.01
    with pytest.raises(InvalidParameter, match="guarantee = .* what the noise proves"):
        SelectionMechanism.from_json(json.dumps(body))
    del body["ballot"]["size"]
    with pytest.raises(InvalidParameter):
        SelectionMechanism.from_json(json.dumps(body))


def test_bad_votes_are_refused() -> None:
    mechanism = make("shuffle", users=3, size=5)
    with pytest.raises(ItemOutside, match="item = 5"):
        mechanism.randomize(5, secure())
    with pytest.raises(ItemOutside, match="item = -1"):
        mechanism.run([0, -1, 2], secure())
    with pytest.raises(InvalidParameter, match="items = 2 .* exactly 3"):
        mechanism.run([0, 1], secure())
    with pytest.raises(InvalidParameter, match="size"):
        selection(epsilon=1.0, size=1)
    with pytest.raises(InvalidParameter, match="seat"):
        make("shuffle, coins", users=400, size=5).randomize(1, secure())
    with pytest.raises(InvalidParameter, match="margin_fraction"):
        selection(epsilon=1.0, size=5).users_needed(0.0)


@pytest.mark.slow
def test_a_million_items_and_few_users_are_no_trouble() -> None:
    votes = np.full(200, 777_777)
    for name in ("shuffle", "local", "central", "central, pure"):
        assert make(name, users=200, size=2**20, epsilon=4.0).run(votes, secure()) == 777_777
