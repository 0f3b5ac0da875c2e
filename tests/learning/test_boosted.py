"""Boosting of a representation: the lemma behind it, and lists that are as good as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from croupier.checks import InvalidParameter
from croupier.learning import Boosted, HashedPoints, Listed, Samples, Seed, Stable
from croupier.learning.boosted import boosted_failure, boosted_slack


@pytest.mark.parametrize("slack", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("rounds", [3, 5, 11])
def test_boosting_with_fixed_weights_errs_no_more_than_the_bound(slack: float, rounds: int) -> None:
    """An adversary answers every round with a hypothesis that errs on as much weight as it may."""
    rng = np.random.default_rng(rounds)
    u = (rounds + 1) * (1 - slack) / ((rounds - 1) * slack)
    worst = 0.0
    for trial in range(40):
        truth = rng.dirichlet(np.full(60, 0.3 if trial % 2 else 3.0))
        weight, votes = truth.copy(), np.zeros(60)
        for _ in range(rounds):
            # Errs where it hurts most: on rows that are nearly lost, heaviest first, as far as the slack allows.
            order = np.lexsort((-truth, votes)) if trial % 3 else rng.permutation(60)
            left, wrong = slack * weight.sum(), np.zeros(60, dtype=bool)
            for row in order:
                if weight[row] <= left:
                    wrong[row], left = True, left - weight[row]
            votes += np.where(wrong, -1, 1)
            weight *= np.where(wrong, math.sqrt(u), 1 / math.sqrt(u))
        worst = max(worst, float(truth[votes < 0].sum()))
    assert worst <= boosted_slack(slack, rounds)


def test_the_bound_is_chernoffs_and_falls_exponentially() -> None:
    for slack in (0.1, 0.25, 0.4):
        for rounds in (3, 9, 41):
            assert binom.sf((rounds - 1) // 2, rounds, slack) <= boosted_slack(slack, rounds)
        base = 2 * math.sqrt(slack * (1 - slack))
        assert boosted_slack(slack, 401) / boosted_slack(slack, 201) <= base**200 * 1.1
    assert boosted_failure(0.25, 3, 2) == pytest.approx(1 - (15 / 16) ** 3)


def test_a_class_of_majorities_is_represented_by_its_parts() -> None:
    """Each corner is wrong in one of three columns at most, so some column errs on a third of any distribution."""
    columns = Listed(tuple(lambda x, j=j: x[:, j] == 1 for j in range(3)), ("x0", "x1", "x2"))
    corners = (np.arange(8)[:, None] >> np.arange(3)) & 1
    boosted = Boosted(columns, rounds=3).draw(3, Seed.of(0))
    assert boosted.size == 27
    samples = Samples.equal(corners, corners.sum(axis=1) >= 2, 1)
    mistakes = boosted.mistakes(samples)[0]
    for index in range(27):
        assert mistakes[index] == np.sum(boosted.predict(index, corners) != samples.labels)
    best = [boosted.describe(int(index)) for index in np.flatnonzero(mistakes == 0)]
    assert "most of: x0; x1; x2" in best
    assert len(best) == 6


@pytest.mark.slow
def test_boosted_lists_are_as_good_as_they_say() -> None:
    family = Boosted(HashedPoints(slack=0.2, failure=0.25), rounds=3)
    rows = np.arange(40)[:, None]
    # Half of the weight on ten points that are easy to mistake for the target.
    weight = np.where(np.arange(40) < 10, 5, 1)
    table = np.repeat(rows, weight, axis=0)
    bad, seeds = 0, 120
    for seed in range(seeds):
        listed = family.draw(1, Seed.of(seed))
        errors = listed.errors(Samples.equal(table, table[:, 0] == seed % 40, 1))[0]
        bad += errors.min() > listed.slack
    assert listed.size == 21**3
    assert binom.sf(bad - 1, seeds, listed.failure) > 1e-9


def test_the_rounds_and_copies_are_the_fewest_that_do() -> None:
    family = Boosted.reaching(HashedPoints(slack=0.1, failure=0.25), columns=1, slack=0.07, failure=0.2)
    assert (family.rounds, family.copies) == (3, 2)
    listed = family.draw(1, Seed.of(0))
    assert listed.slack <= 0.07
    assert listed.failure <= 0.2
    assert boosted_slack(0.1, 1) > 0.07
    assert boosted_failure(0.25, 3, 1) > 0.2


def test_a_boosted_class_is_learnt() -> None:
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((6_000, 1)) < 0.4, 3.0, rng.integers(0, 500, (6_000, 1)))
    samples = Samples.equal(rows, rows[:, 0] == 3, 20)
    ballot = Stable(Boosted(HashedPoints(slack=0.2, failure=0.1), rounds=3), gamma=60.0).ballot(
        columns=1, seed=Seed.of(2), alpha=0.2, beta=0.5
    )
    votes = ballot.votes(samples)
    rule = ballot.hypothesis(np.bincount(votes).argmax())
    assert np.mean(rule.predict(rows) != samples.labels) <= 0.05


@pytest.mark.parametrize("make", [lambda: Boosted(HashedPoints(), rounds=2), lambda: Boosted(HashedPoints(), copies=0)])
def test_what_is_no_majority_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        make()
    with pytest.raises(InvalidParameter, match="rounds = 5 .* fewer"):
        Boosted(HashedPoints(), rounds=5).draw(1, Seed.of(0))
