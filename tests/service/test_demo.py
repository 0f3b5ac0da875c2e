"""The experiment that `make run` shows: it answers its question, however late the odds follow what was found."""

import pytest

from croupier.cli.crowd import means_of
from croupier.cli.up import default_experiment
from croupier.noise import seeded
from croupier.programs.program import Dealt
from croupier.service.experiment import read_plan


def decision_of(plan, means, late, seed):
    """What a run decides whose odds change only once `late` reports came since they last did.

    While turns of an epoch may still be reported its odds stay, up to `report_within`, which is short here for that: at
    800 reports a second 4,000 come meanwhile.
    """
    running, source = plan.program(), seeded(seed)
    running.begin()
    came, left_at = 0, {}
    while not running.finished and not running.ending:
        newest = max(turn.block.epoch for turn in running.wanted)
        for turn in [turn for turn in running.wanted if turn.block.epoch < newest]:
            if came >= left_at.setdefault(turn.block.number, came) + late:
                running.expired(turn.number, 0)
        turns = [turn for turn in running.wanted if turn.block.epoch == newest]
        odds = [turn.odds for turn in turns]
        counts = source.generator.multinomial(turns[0].block.users, odds).tolist()
        came += sum(counts)
        for turn, users in zip(turns, counts, strict=True):
            mechanism = turn.batches[0][1].for_users(users)
            values = (source.generator.random(users) < means[turn.arm]).astype(float)
            running.released(turn.number, mechanism.simulate(values, source).decoded, users, Dealt(users, over=False))
    return running.decision


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 4000])
def test_nearly_every_run_of_the_demo_finds_the_best_arm(late):
    """If one run in a hundred were not decided, six of 25 would not be with 2e-7."""
    plan = read_plan(default_experiment())
    assert plan.reports.within <= 5
    means = means_of(None, len(plan.arms))
    found = [decision_of(plan, means, late, seed) for seed in range(25)]
    assert sum(one is not None and (one["kind"], one["leader"]) == ("better", 4) for one in found) >= 20
