"""Garbage reports to a running counter: the batch that they spoil is left out, and the counter goes on to its end."""

import asyncio
import os
from dataclasses import replace

import pytest

from cases.service.attacker import Attacker
from cases.service.both import Both
from croupier.service.verifying import verify

COUNTER = {
    "name": "colours",
    "program": {"kind": "counter", "users": 96, "shufflers": 2},
    "reward": {"protocol": "shuffled-bits"},
    "privacy": {"epsilon": 4.0, "honest_fraction": 1.0},
    "reports": {"report_within": 600, "report_at": [0, 0]},
}
GARBAGE = (4, 0, 20)
"""Of 32 reports of a turn. Four spoil their lowest batch, but not the one of 64 above it, which stands for them all."""


async def garbage(attacker):
    """A report that the front takes, since every part looks as it must, and that the analyzer cannot open."""
    turn = await attacker.turn()
    spoiled = tuple(
        replace(part, messages=tuple(os.urandom(len(message)) for message in part.messages))
        for part in attacker.opened(turn).parts
    )
    assert (await attacker.send(attacker.rebuilt(turn, parts=spoiled))).status_code == 201


@pytest.mark.slow
def test_a_few_garbage_reports_do_not_end_a_counter(tmp_path):
    both = Both(tmp_path, experiment=COUNTER)
    shown, sure = [], []

    async def work():
        async with both.running():
            assert both.live.program.plan.tree.sizes == (32, 64)
            for turn, bad in enumerate(GARBAGE):
                await both.until(lambda turn=turn: turn in both.live.offers)
                for _ in range(bad):
                    await garbage(Attacker(both))
                assert set(await both.users(32 - bad)) == {"accepted"}
                await both.until(lambda turn=turn: len(both.live.program.show()["points"]) == turn + 1)
                shown.append(both.live.program.show())
                sure.append(both.live.program.counter.bound(1e-9))
            assert both.live.program.finished
            refused = [record["batch"] for record in both.live.records if record["event"] == "refused"]
            verdict = verify(both.live.transcript())
            assert (verdict.finished, verdict.refused, verdict.result) == (True, len(refused), both.live.program.show())
            assert len(refused) == 2

    asyncio.run(work())
    assert [one["left_out"] for one in shown] == [32, 0, 32]
    assert shown[0]["estimate"] == 16
    assert shown[0]["bound"] > shown[1]["bound"] + 8
    # Everybody says one, and a report that nobody can read says nothing.
    for true, one, bound in zip((28, 60, 72), shown, sure, strict=True):
        assert abs(one["estimate"] - true) <= bound
