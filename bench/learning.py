"""Voting and selection among many hypotheses, and how their cost grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.measure import heading, line, megabytes, seconds
from croupier.learning import Ballot, Points, Samples, Seed, Stable, Thresholds, Voting
from croupier.noise import seeded

SAMPLES = 100
USERS, HYPOTHESES = 10_000, 2**20
MODELS = ("central", "central-pure", "shuffle", "local")


def thresholds(users: int, hypotheses: int) -> tuple[Ballot, Samples]:
    """Users of whom each holds 100 labelled whole numbers."""
    x = np.random.default_rng(0).integers(0, hypotheses, (users * SAMPLES, 1))
    return _ballot(Thresholds(0, hypotheses - 1, hypotheses, "up")), Samples.equal(x, x[:, 0] >= hypotheses // 3, users)


def points(users: int, hypotheses: int) -> tuple[Ballot, Samples]:
    """The same, and every fifth sample is the point that is looked for."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(users * SAMPLES) < 0.2, 7, rng.integers(0, hypotheses, users * SAMPLES))[:, None]
    return _ballot(Points(hypotheses)), Samples.equal(x, x[:, 0] == 7, users)


def _ballot(family: Any) -> Ballot:
    return Stable(family).ballot(columns=1, seed=Seed.of(1), alpha=0.1, beta=0.03)


def vote(case: tuple[Ballot, Samples]) -> np.ndarray:
    """All users' votes from the seed on: nothing is kept from an earlier call."""
    ballot, samples = case
    return Ballot(ballot.representation, ballot.gamma, ballot.seed).votes(Samples(*_parts(samples)))


def _parts(samples: Samples) -> tuple[Any, Any, Any]:
    return samples.features, samples.labels, samples.starts


def ceiling(samples: Samples, hypotheses: int) -> None:
    """What any voting has to do at the least: a word for each hypothesis, and every user's samples in order."""
    np.log(Seed.of(1).exponentials(np.arange(hypotheses)))
    np.sort((samples.owner * hypotheses + samples.features[:, 0]) * 2 + samples.labels)


def main() -> None:
    """Print the lines."""
    heading(f"{USERS:,} users of {SAMPLES} samples vote among 2^20 hypotheses, then selection (aim: 5 s together)")
    for name, make in (("thresholds", thresholds), ("points", points)):
        case = make(USERS, HYPOTHESES)
        votes, voting = vote(case), seconds(lambda c=case: vote(c), 2)
        least = seconds(lambda c=case: ceiling(c[1], HYPOTHESES), 2)
        peak = megabytes(lambda c=case: vote(c))
        line(f"{name}: votes", f"{voting:.2f} s", f"{voting / least:.1f} × ceiling", f"{peak:.0f} MB")
        for model in MODELS:
            election = Voting(1.0, model=model).plan(case[0], USERS, Seed.of(1))
            choosing = seconds(lambda e=election, v=votes: e.run(v, seeded(1)), 2)
            line(f"{name}: selection, {model}", f"{choosing:.2f} s", f"{voting + choosing:.2f} s together")
        line("  (ceiling: a word for each hypothesis, and sorting the samples)", f"{least:.2f} s")
    heading("Growth with the users, thresholds among 2^16")
    for users in (1_000, 3_000, 10_000, 30_000):
        case = thresholds(users, 2**16)
        line(f"{users:,} users", f"{seconds(lambda c=case: vote(c), 2) / users * 1e6:.1f} µs/user")
    heading("Growth with the hypotheses, thresholds, 3,000 users: samples decide until the list outgrows them")
    for power in (8, 12, 16, 18, 20, 22):
        case = thresholds(3_000, 2**power)
        took, peak = seconds(lambda c=case: vote(c), 2), megabytes(lambda c=case: vote(c))
        line(f"2^{power} hypotheses", f"{took:.3f} s", f"{took / 2**power * 1e9:.0f} ns/hypothesis", f"{peak:.0f} MB")


if __name__ == "__main__":
    main()
