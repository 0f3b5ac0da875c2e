"""Stable learners: [GKM21] Alg. 3's weights, and users who vote alike."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cases.learners import WORLDS
from croupier.checks import InvalidParameter
from croupier.learning import HashedPoints, Parities, Points, Samples, Seed, Stable, Thresholds, agreement, plurality
from croupier.learning.stable import published_gamma, published_samples, smooth_gamma, tight_gamma

LISTED = [name for name in WORLDS if "queries" not in name]
TABLE = (Path(__file__).parents[2] / "docs" / "learning.md").read_text(encoding="utf-8")
USERS, SEEDS = 100, 60


def test_gamma_is_that_of_the_paper() -> None:
    listed = Points(1024).draw(1, Seed.of(0))
    assert published_gamma(listed, 0.1, 0.05) == pytest.approx(2 * (10 + math.log(20) + 10) / 0.1)


def test_the_papers_sample_size_is_for_its_proof() -> None:
    listed = Thresholds().draw(1, Seed.of(0))
    assert published_samples(listed, 48.0, 0.1) == pytest.approx(1e6 * 48**2 * 9 * math.log(10) * 1e4)


def test_the_tight_gamma_is_the_least_that_the_proof_needs() -> None:
    listed = HashedPoints(slack=0.02, failure=0.01).draw(1, Seed.of(0))
    gamma = tight_gamma(listed, 0.1, 0.03)
    assert listed.size * math.exp(-gamma * (0.1 - 0.02)) == pytest.approx(0.03 - 0.01)
    assert gamma < published_gamma(listed, 0.1, 0.03)
    with pytest.raises(InvalidParameter, match="slack"):
        tight_gamma(listed, 0.02, 0.03)


def test_the_smooth_gamma_is_a_quantile() -> None:
    assert smooth_gamma(Thresholds().draw(1, Seed.of(0)), 0.1, 0.05) == pytest.approx(math.log(20) / 0.1)
    with pytest.raises(InvalidParameter, match="volume"):
        smooth_gamma(Parities().draw(3, Seed.of(0)), 0.1, 0.05)


@pytest.mark.parametrize("gamma", ["loose", -1.0, 0.0])
def test_a_gamma_that_is_none_is_refused(gamma: object) -> None:
    with pytest.raises(InvalidParameter, match="gamma"):
        Stable(Points(), gamma=gamma).ballot(columns=1, seed=Seed.of(0), alpha=0.1, beta=0.1)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("votes", [3_000, pytest.param(10_000, marks=pytest.mark.evidence)])
def test_a_vote_has_the_law_of_the_exponential_weights(votes: int) -> None:
    # One chi-square test with a false-alarm rate of 1e-11.
    from scipy.special import chdtrc

    samples = Samples.of([[0], [1], [2], [2], [3]], [False, True, False, True, False], groups=[0] * 5)
    learner = Stable(Points(5), gamma=4.0)
    seeds = [Seed.of(number) for number in range(votes)]
    ballots = [learner.ballot(columns=1, seed=seed, alpha=0.1, beta=0.1) for seed in seeds]
    law = ballots[0].weights(samples)[0]
    wrong = np.asarray([3, 1, 2, 3, 2]) / 5
    assert law == pytest.approx(np.exp(-4.0 * wrong) / np.exp(-4.0 * wrong).sum())
    counts = np.bincount([int(ballot.votes(samples)[0]) for ballot in ballots], minlength=5)
    assert chdtrc(4, ((counts - votes * law) ** 2 / (votes * law)).sum()) > 1e-11


@pytest.mark.slow
def test_two_users_agree_as_their_weights_say() -> None:
    # 2,000 seeds: a deviation of 0.08 is more than seven standard deviations.
    rng = np.random.default_rng(1)
    x = rng.random((600, 1))
    samples = Samples.equal(x, x[:, 0] >= 0.6, 2)
    learner = Stable(Thresholds(cuts=65), gamma=40.0)
    ballots = [learner.ballot(columns=1, seed=Seed.of(s), alpha=0.1, beta=0.1) for s in range(2_000)]
    same = np.mean([len(set(ballot.votes(samples).tolist())) == 1 for ballot in ballots])
    assert same == pytest.approx(agreement(*ballots[0].weights(samples)), abs=0.08)


def test_the_accuracy_is_that_of_the_proof() -> None:
    # P(error > α) <= β for the distribution itself; 400 seeds at β = 0.1 have more than 90 failures once in 1e12 times.
    x = (np.arange(1000)[:, None] + 0.5) / 1000
    everything = Samples.equal(x, x[:, 0] >= 0.6, 1)
    ballots = [Stable(Thresholds(cuts=51)).ballot(columns=1, seed=Seed.of(s), alpha=0.1, beta=0.1) for s in range(400)]
    errors = [ballot.representation.errors(everything)[0, ballot.votes(everything)[0]] for ballot in ballots]
    assert sum(error > 0.1 for error in errors) <= 90


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTED)
def test_at_least_nine_users_in_ten_vote_alike(name: str) -> None:
    world = WORLDS[name]
    measured = world.agreement(USERS, SEEDS)
    assert measured.mean() >= 0.9
    assert _stated(name) == pytest.approx(measured.mean(), abs=0.011), "docs/learning.md says what is measured"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thresholds", "thresholds, smooth", "boxes", "decision lists"])
def test_users_who_do_not_vote_alike_still_vote_well(name: str) -> None:
    world, rng = WORLDS[name], np.random.default_rng(20_261_115)
    split = 0
    for seed in range(SEEDS):
        ballot = world.ballot(seed)
        votes = ballot.votes(world.users(rng, USERS))
        kinds, counts = np.unique(votes, return_counts=True)
        if counts.max() < 0.9 * USERS:
            split += 1
            bad = [world.error(ballot.hypothesis(kind)) > world.alpha for kind in kinds]
            assert counts.max() >= 0.45 * USERS
            assert np.sort(counts)[-3:].sum() >= 0.9 * USERS
            assert counts[bad].sum() <= 0.01 * USERS
    assert split > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WORLDS if "queries" in name])
def test_users_of_the_query_route_end_in_one_hypothesis(name: str) -> None:
    measured = WORLDS[name].agreement(50, 10)
    assert measured.mean() >= 0.9
    assert _stated(name) == pytest.approx(measured.mean(), abs=0.011), "docs/learning.md says what is measured"


def _stated(name: str) -> float:
    """The agreement in the table of the document."""
    (row,) = [line for line in TABLE.splitlines() if line.startswith(f"| {name} |")]
    return float(row.split("|")[-2].strip(" %")) / 100


def test_more_samples_and_smaller_gamma_make_votes_steadier() -> None:
    rng = np.random.default_rng(2)

    def mean(samples: int, gamma: float) -> float:
        found = []
        for seed in range(30):
            x = rng.random((100 * samples, 1))
            ballot = Stable(Thresholds(), gamma).ballot(columns=1, seed=Seed.of(seed), alpha=0.2, beta=0.1)
            found.append(plurality(ballot.votes(Samples.equal(x, x[:, 0] >= 0.6, 100))))
        return float(np.mean(found))

    assert mean(100, 50.0) < mean(1000, 50.0)
    assert mean(100, 50.0) < mean(100, 10.0)


def test_a_vote_can_be_written_in_bits_and_read_back() -> None:
    ballot = Stable(Points(1000)).ballot(columns=1, seed=Seed.of(0), alpha=0.1, beta=0.1)
    samples = Samples.of([[k] for k in (3, 999, 512)], [True] * 3)
    marks = ballot.marks(samples)
    assert marks.shape == (3, ballot.bits) == (3, 10)
    assert [ballot.read(row).index for row in marks] == ballot.votes(samples).tolist()
    assert ballot.read(np.ones(10, dtype=np.uint8)).index == 999
