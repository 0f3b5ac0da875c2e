"""A log is read in one place: a replay leads where the run did, and what does not follow is refused."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.linear_users import summed
from cases.program_logs import Log, configuration, steady
from cases.programs import ARMS, BANDIT, BANDITS, CASES, Case
from croupier.checks import CroupierError
from croupier.messages.configuration import BrokenPromise, Configuration
from croupier.messages.offer import Batch, Offer
from croupier.programs import KINDS, OPERATIONS, State, program, replay
from croupier.programs.bandit import BanditProgram
from croupier.programs.records import Record
from croupier.service.experiment import plan

EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0].get("name", case[0]["kind"])))


def decoded_of(log: Log, number: int) -> Any:
    mechanism = log.state.open[number].mechanism
    if log.parameters["kind"] == "histogram":
        return [number % 7, 40 - number % 7]
    if log.parameters["kind"] == "linear":
        return summed(log.program, mechanism, number)
    arm = log.state.turns[number].arm or 0
    return steady(mechanism, 0.2 + 0.3 * arm)  # type: ignore[arg-type]


def full(log: Log) -> list[int]:
    """The open batches that all users of have come to."""
    log.open()
    due = log.program.unwanted if log.parameters["kind"] == "counter" else set()
    if due or not log.state.offers:
        return sorted(due)
    if log.parameters["kind"] == "counter":
        (offer,) = log.state.offers.values()
        return [offer.batches[0].number]
    return sorted(log.state.open)


def played(case: Case, steps: int, seed: int = 0) -> Log:
    """A log in which batches are released in any order, and some expire."""
    log, rng = Log(*case), np.random.default_rng(seed)
    for _ in range(steps):
        batches = full(log)
        if not batches:
            break
        number = int(rng.choice(batches))
        if rng.random() < 0.1:
            log.expire(number)
        else:
            log.release(number, decoded_of(log, number))
    return log


def shown(state: State) -> tuple[Any, ...]:
    """All that a state says."""
    kept = (state.arms, state.offers, state.opened, state.open, state.turns, state.done, state.newest, state.latest)
    return *kept, state.program.show(), state.program.wanted, state.program.unwanted, state.program.finished


def again(records: list[Record]) -> State:
    """Where a log leads that was written down and read again."""
    *_, state = replay([json.loads(json.dumps(record)) for record in records])
    return state


@EACH
@pytest.mark.parametrize("steps", [0, 1, 5, 200])
def test_a_replay_leads_where_the_run_did_and_goes_on_as_it_does(case, steps) -> None:
    log = played(case, steps)
    state = again(log.records)
    assert repr(shown(state)) == repr(shown(log.state))
    assert state.program.finished == (steps == 200)
    other = Log(*case)
    other.state, other.records = state, list(log.records)
    for running in (log, other):
        for number in full(running)[:3]:
            running.release(number, decoded_of(running, number))
    assert repr(shown(other.state)) == repr(shown(log.state))


def test_states_follow_one_another() -> None:
    log = played(BANDITS[0], 4)
    events = [state.last.event for state in replay(log.records)]  # type: ignore[union-attr]
    assert events == [record["event"] for record in log.records]


STEPS = st.lists(st.sampled_from(["release", "expire", "pause", "resume", "add", "retire"]), max_size=25)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(STEPS, st.sampled_from(BANDITS))
def test_whatever_operators_ask_a_replay_agrees(steps, case) -> None:
    log = Log(*case)
    for number, step in enumerate(steps):
        batches = full(log)
        if step in ("release", "expire"):
            if batches:
                batch = batches[number % len(batches)]
                log.release(batch, decoded_of(log, batch)) if step == "release" else log.expire(batch)
            continue
        about = {"name": f"arm {number}"} if step == "add" else {"arm": number % 3}
        before = repr(shown(log.state))
        try:
            log.operate(step, **about)
        except CroupierError:
            assert repr(shown(log.state)) == before, "what is refused leaves no trace"
    assert repr(shown(again(log.records))) == repr(shown(log.state))


@EACH
def test_an_end_closes_what_is_open(case) -> None:
    log = played(case, 2)
    log.open()
    assert log.state.open
    open_then = set(log.state.open)
    log.operate("stop")
    assert log.state.last.ended  # type: ignore[union-attr]
    assert not log.state.open
    assert not log.state.offers
    assert open_then <= log.state.done
    with pytest.raises(CroupierError, match="has not ended"):
        log.operate("stop")


def test_an_arm_goes_out_once_and_it_is_said_with_which_record() -> None:
    log = Log(BANDIT | {"epsilon": 5.0}, ARMS)
    outs = []
    while not log.program.finished:
        for number in full(log):
            log.release(number, decoded_of(log, number))
            outs += sorted(log.state.last.out)  # type: ignore[union-attr]
    assert sorted(outs) == [0, 1]


def changed(records: list[Record], at: int, **body: Any) -> list[Record]:
    return [*records[:at], records[at] | body, *records[at + 1 :]]


def place(records: list[Record], event: str, nth: int = 0) -> int:
    return [number for number, record in enumerate(records) if record["event"] == event][nth]


def reworded(records: list[Record], nth: int, **body: Any) -> list[Record]:
    """The nth offer says something else."""
    at = place(records, "opened", nth)
    text = json.loads(records[at]["offer"]["body"])
    for key, value in body.items():
        if key == "batch":
            text["batches"][0] |= value
        else:
            text[key] = value
    return changed(records, at, offer=records[at]["offer"] | {"body": json.dumps(text)})


def less_noise(records: list[Record]) -> dict[str, str]:
    """A mechanism that could be meant for the first batch, of another program."""
    parameters = json.loads(records[0]["configuration"]["body"])["program"]
    (_, mechanism), *_ = program(parameters | {"epsilon": 1.5}).wanted[0].batches
    return {"mechanism": mechanism.to_json()}


FORGED = {
    "nothing before it": lambda r: r[1:],
    "an operation before it": lambda r: [{"event": "operated", "operation": "stop"}, *r],
    "an unknown event": lambda r: [*r, {"event": "forgotten"}],
    "no event": lambda r: [*r, {"event": None}],
    "an opening left out": lambda r: r[: place(r, "opened")] + r[place(r, "opened") + 1 :],
    "a release left out": lambda r: r[: place(r, "released")] + r[place(r, "released") + 1 :],
    "a turn opened twice": lambda r: [*r[:2], r[1], *r[2:]],
    "another turn": lambda r: reworded(r, 0, offer=17),
    "another arm": lambda r: reworded(r, 0, arm=2),
    "another batch": lambda r: reworded(r, 0, batch={"number": 17}),
    "less noise": lambda r: reworded(r, 0, batch=less_noise(r)),
    "a release of an unknown batch": lambda r: changed(r, place(r, "released"), batch=99),
    "a release twice": lambda r: [*r[: place(r, "released") + 1], r[place(r, "released")]],
    "an operation nobody knows": lambda r: [*r, {"event": "operated", "operation": "explode"}],
    "a second beginning": lambda r: [*r, r[0]],
}


@EACH
@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_what_does_not_follow_is_refused(case, forge) -> None:
    log = played(case, 8, seed=1)
    forged = forge(log.records)
    with pytest.raises(CroupierError):
        again(forged)


@pytest.mark.parametrize(
    "about", [{}, {"name": ""}, {"name": "red"}, {"name": 7}, {"arm": 1}], ids=["none", "empty", "known", "7", "arm"]
)
def test_a_new_arm_has_a_name_of_its_own(about) -> None:
    log = Log(BANDIT, ARMS)
    with pytest.raises(CroupierError, match="name = .* (a new arm's name|one line)"):
        log.operate("add", **about)
    log.operate("add", name="black")
    assert log.state.arms == (*ARMS, "black")


def test_a_later_revision_keeps_the_promise_and_names_the_arms_that_were_added() -> None:
    log = Log(BANDIT, ARMS)
    log.operate("add", name="black")
    refusals = [
        ({"revision": 2}, "revision 2 follows 0"),
        ({"revision": 1, "experiment": "other"}, "'other' follows 'drawn'"),
        ({"revision": 1, "arms": (*ARMS, "white")}, "the arms are"),
    ]
    for changes, words in refusals:
        with pytest.raises(CroupierError, match=words):
            log.configure(**changes)
    with pytest.raises(BrokenPromise):
        log.configure(revision=1, recipe=configuration(BANDIT, ARMS).recipe | {"smallest": 2})
    log.configure(revision=1, arms=(*ARMS, "black"))
    assert len(log.state.configurations) == 2
    with pytest.raises(CroupierError, match="begins with revision 0"):
        again(log.records[2:])


def test_a_kind_of_program_is_looked_up_by_who_runs_it_and_by_nobody_else() -> None:
    """A configuration may name any kind; a log of one that is not installed is refused by its name, not imported."""
    for kind in ("lottery", "antigravity:lottery"):
        found = configuration(BANDIT, ARMS, program=BANDIT | {"kind": kind}).statement()
        assert Configuration.from_text(found.text).program["kind"] == kind
        with pytest.raises(CroupierError, match=f"kind = '{kind}' is not allowed: it must be one of bandit"):
            State().apply({"number": 0, "event": "configured", "configuration": found.to_dict()})
    assert "antigravity" not in sys.modules


def test_a_stranger_s_kind_of_program_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS, "_added", {})

    class Lottery(BanditProgram):
        kind = "lottery"

    KINDS.add("lottery", Lottery)
    found = plan({"name": "drawn", "arms": list(ARMS), "program": {"kind": "lottery", "horizon": 1000}})
    assert isinstance(found.program(), Lottery)
    log = Log(found.parameters, ARMS)
    assert isinstance(log.state.program, Lottery)


def test_odds_are_those_that_the_policy_gives_in_that_state() -> None:
    log = Log(BANDIT | {"name": "dp-thompson", "seed": 5, "arms": 3}, ARMS)
    odds = log.program.policy.odds()[0]
    assert [turn.odds for turn in log.program.wanted] == [odds[turn.arm] for turn in log.program.wanted]
    assert sum(turn.odds for turn in log.program.wanted) == pytest.approx(1.0)
    turn = log.program.wanted[0]
    batches = tuple(Batch.of(number, log.state.configured.hash, mechanism) for number, mechanism in turn.batches)  # type: ignore[union-attr]
    for wrong in (1.0, turn.odds / 2):
        offer = Offer("drawn", log.state.configured.hash, turn.number, turn.arm, batches, wrong)  # type: ignore[union-attr]
        with pytest.raises(CroupierError, match=f"has odds {wrong}, and the program gives it {turn.odds}"):
            log.record("opened", offer=offer.statement().to_dict())
    log.open()
    assert len(log.state.offers) > 1


def test_a_batch_that_is_asked_for_again_keeps_its_odds() -> None:
    log = Log(BANDIT | {"name": "dp-thompson", "seed": 5, "arms": 3}, ARMS)
    log.open()
    turn = log.program.wanted[-1]
    log.expire(turn.number)
    again = log.program.wanted[-1]
    assert (again.arm, again.odds) == (turn.arm, turn.odds)
    assert again.number != turn.number


def test_every_kind_has_a_stop() -> None:
    assert all("stop" in kind.operations for kind in KINDS.values())
    assert OPERATIONS == ("pause", "resume", "retire", "add", "stop", "ramp")
