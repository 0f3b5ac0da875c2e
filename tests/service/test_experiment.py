"""An experiment from its file to what people are shown of it."""

import asyncio

import pytest

from cases.service.both import Both
from croupier.checks import CroupierError
from croupier.service.experiment import plan, read_plan

THREE = {
    "name": "colours",
    "arms": ["red", "green", "blue"],
    "program": {"horizon": 400},
    "reward": {"protocol": "shuffled-bits"},
    "privacy": {"epsilon": 4.0, "honest_fraction": 1.0},
    "reports": {"report_within": 600, "report_at": [0, 0]},
}


def test_a_file_that_cannot_be_planned_is_named(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text('name = "a"\narms = ["x", "y"]\n[program]\nhorizont = 1000\n')
    with pytest.raises(CroupierError) as refusal:
        read_plan(str(path))
    assert str(refusal.value) == (
        f"{path}: program.horizont is unknown here: "
        "[program] holds kind, policy, horizon, growth, failure, exploration, seed"
    )


def test_numbers_that_are_right_alone_and_too_much_together_are_one_line(monkeypatch):
    from croupier.service import experiment

    for error in (OverflowError("cannot convert"), MemoryError("a law this wide"), ZeroDivisionError("by zero")):

        def fails(parameters, error=error):
            raise error

        monkeypatch.setattr(experiment, "program", fails)
        with pytest.raises(CroupierError, match=f"numbers this extreme .{error}"):
            plan(THREE)


@pytest.mark.slow
def test_an_arm_that_an_operator_retired_is_shown_as_retired_however_long_ago(tmp_path):
    both = Both(tmp_path, experiment=THREE)

    async def work():
        async with both.running():
            assert (await both.operate(operation="retire", arm=2)).status_code == 200
            await both.users(32)
            await both.until(lambda: len(both.live.done) > 0)
            return (await both.http.get("http://analyzer.test/experiments/colours/state")).json()

    state = asyncio.run(work())
    outs = [arm["out"] for arm in state["program"]["arms"]]
    assert outs[:2] == [None, None]
    assert outs[2]["retired"] is True
