"""An experiment from its file to what people are shown of it."""

import asyncio

import pytest

from cases.service.both import Both
from croupier.checks import CroupierError
from croupier.protocols.sums.mechanism import SumMechanism
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
        "[program] holds kind, policy, horizon, growth, failure, exploration, seed; did you mean horizon?"
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


def in_shares(validity=None, **more):
    """The plan of an experiment between two servers, or under another trust."""
    body = {"name": "colours", "arms": ["red", "green"], "program": {"horizon": 400}} | more
    return plan(body if validity is None else body | {"reports": {"validity": validity}})


def test_reports_between_two_servers_are_proved_unless_the_experiment_says_that_they_are_not():
    assert [in_shares(validity).validity for validity in (None, "prio3", "none")] == ["prio3", "prio3", "none"]
    names = ["tea", "coffee"]
    for program in (
        {"kind": "histogram", "users": 40, "items": names},
        {"kind": "counter", "users": 200, "shufflers": 2},
    ):
        assert plan({"name": "colours", "program": program}).validity == "prio3"


@pytest.mark.parametrize("trust", ["devices", "shuffler", "nobody"])
def test_proofs_are_refused_by_name_where_nobody_could_check_them(trust):
    assert (
        in_shares(privacy={"trust": trust}).validity == in_shares("none", privacy={"trust": trust}).validity == "none"
    )
    with pytest.raises(CroupierError, match=f"reports.validity = 'prio3' .* none where the trust is {trust}: "):
        in_shares("prio3", privacy={"trust": trust})


def test_a_word_for_validity_that_nobody_knows_is_refused():
    with pytest.raises(CroupierError, match="reports.validity = 'prio2' .* did you mean prio3"):
        in_shares("prio2")


def test_what_cannot_be_proved_says_so_and_runs_without_proofs(monkeypatch):
    monkeypatch.setattr(SumMechanism, "prio3", None)
    with pytest.raises(CroupierError, match="reports.validity = None .* none: reports of this kind cannot be proved"):
        in_shares()
    assert in_shares("none").validity == "none"


@pytest.mark.parametrize("body", [{}, {"program": {"policy": "split"}}, {"arms": ["red"], "program": {"horizon": 9}}])
def test_a_file_without_a_name_is_told_that_first(body):
    with pytest.raises(CroupierError, match="^name is missing: an experiment begins with its name"):
        plan(body)


@pytest.mark.parametrize("program", [{"policy": "splitt", "shares": [1, 2]}, {"kind": "bandit", "policy": "splitt"}])
def test_a_misspelt_policy_is_said_before_what_would_follow_from_it(program):
    with pytest.raises(CroupierError, match="^program.policy = 'splitt' is not allowed: .* did you mean split?"):
        plan({"name": "colours", "arms": ["red", "green"], "program": program})
    with pytest.raises(CroupierError, match="^program.policy is unknown here"):
        plan({"name": "steps", "program": {"kind": "counter", "users": 200, "policy": "splitt"}})


@pytest.mark.parametrize(
    ("section", "key", "meant"), [("program", "kind", "counter"), ("reward", "protocol", "shuffled-bits")]
)
def test_a_misspelt_word_is_named_by_its_place_in_the_file(section, key, meant):
    body = {"name": "colours", "arms": ["red", "green"], "program": {"horizon": 1000}}
    with pytest.raises(CroupierError, match=f"^{section}.{key} = '{meant}s' is not allowed: .* did you mean {meant}?"):
        plan(body | {section: body.get(section, {}) | {key: f"{meant}s"}})
