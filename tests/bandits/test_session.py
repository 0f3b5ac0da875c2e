"""A live experiment is its log: any order of arrival gives the same state, and a replay the same decisions."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.bandits import Expired, Opened, Operated, Released, Session
from croupier.checks import CroupierError, InvalidParameter

CONFIGURATIONS = [
    {"name": "dp-klucb", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True},
    {"name": "dist-dp-se", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True},
    {"name": "vb-sdp-ae", "arms": 3, "horizon": 4000, "epsilon": 0.9, "constants": "published"},
    {"name": "shuffle-dp-se", "arms": 3, "horizon": 4000, "epsilon": 1.0},
    {"name": "dp-thompson", "arms": 3, "horizon": 4000, "epsilon": 1.0, "binary": True, "seed": 5},
]


def answer(session: Session, batch: Opened) -> int:
    """A decoded number for a batch, the same whenever the batch is answered: arm a pays 0.2 + 0.3 a."""
    mechanism = session.policy.ladder.mechanism(batch.users)
    assert mechanism is not None
    total = (0.2 + 0.3 * batch.arm) * batch.users
    return round(mechanism.noise.mean + total * mechanism.values.span / mechanism.unit)


def play(session: Session, order: int, most: int = 200) -> None:
    """Answer open batches until the end; `order` decides which comes first."""
    for step in range(most):
        if not session.open_batches:
            return
        batches = session.open_batches
        batch = batches[(order * (step + 1)) % len(batches)]
        session.observe(Released(batch.batch, answer(session, batch)))


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c["name"])
def test_order_of_arrival_does_not_matter(configuration: dict[str, object]) -> None:
    sessions = [Session(configuration) for _ in range(4)]
    for order, session in enumerate(sessions):
        play(session, order)
    for session in sessions[1:]:
        for name in ("totals", "counts", "active", "batches", "users"):
            assert np.array_equal(getattr(session.policy, name), getattr(sessions[0].policy, name))


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c["name"])
def test_replay_repeats_every_decision(configuration: dict[str, object]) -> None:
    session = Session(configuration)
    play(session, 1, most=7)
    again = Session.replay(session.transcript())
    assert again.log == session.log
    assert again.open_batches == session.open_batches
    assert again.policy.totals.tobytes() == session.policy.totals.tobytes()
    play(session, 0)
    play(again, 0)
    assert again.transcript() == session.transcript()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(["release", "expire", "pause", "resume", "add", "retire"]), max_size=25), st.integers(0, 4)
)
def test_whatever_happens_a_replay_agrees(steps: list[str], which: int) -> None:
    session = Session(CONFIGURATIONS[which])
    for number, step in enumerate(steps):
        batches = session.open_batches
        if step in ("release", "expire") and batches:
            batch = batches[number % len(batches)]
            session.observe(
                Released(batch.batch, answer(session, batch)) if step == "release" else Expired(batch.batch)
            )
        elif step == "retire":
            if number == 3 and session.policy.active[0].sum() > 2:
                session.observe(Operated("retire", 0))
        elif step not in ("release", "expire"):
            session.observe(Operated(step, None if step == "add" else 1))
    again = Session.replay(session.transcript())
    assert again.log == session.log
    assert again.open_batches == session.open_batches


def test_an_expired_batch_is_wanted_again() -> None:
    session = Session(CONFIGURATIONS[1])
    first = session.open_batches[0]
    session.observe(Expired(first.batch))
    assert (first.arm, first.users) in {(b.arm, b.users) for b in session.open_batches}
    with pytest.raises(InvalidParameter, match=f"batch = {first.batch} "):
        session.observe(Released(first.batch, 3))


def test_a_batch_is_released_once() -> None:
    session = Session(CONFIGURATIONS[1])
    batch = session.open_batches[0].batch
    session.observe(Released(batch, 3))
    before = session.transcript()
    with pytest.raises(InvalidParameter, match="open batch"):
        session.observe(Released(batch, 3))
    with pytest.raises(InvalidParameter, match="event"):
        session.observe(Opened(99, 0, 32))
    assert session.transcript() == before


def test_stopping_ends_it() -> None:
    session = Session(CONFIGURATIONS[0])
    session.observe(Operated("stop"))
    assert session.finished
    assert session.open_batches == []
    assert Session.replay(session.transcript()).finished


def test_a_forged_transcript_is_found_out() -> None:
    session = Session(CONFIGURATIONS[1])
    play(session, 0, most=6)
    lines = session.transcript().splitlines()
    opened = next(i for i, line in enumerate(lines) if '"opened"' in line and i > 4)
    body = json.loads(lines[opened])
    lines[opened] = json.dumps(body | {"users": body["users"] + 1})
    with pytest.raises(CroupierError, match="does not follow"):
        Session.replay("\n".join(lines))
    for broken in ("", "{}", "not json", '{"version":7,"configuration":{}}'):
        with pytest.raises(InvalidParameter):
            Session.replay(broken)


def test_every_order_of_one_phase_gives_one_state() -> None:
    states = set()
    for order in itertools.permutations(range(3)):
        session = Session(CONFIGURATIONS[1])
        batches = session.open_batches
        for index in order:
            session.observe(Released(batches[index].batch, answer(session, batches[index])))
        states.add((session.policy.totals.tobytes(), tuple(session.open_batches)))
    assert len(states) == 1


def test_an_arm_that_became_the_last_is_not_retired_and_the_replay_agrees() -> None:
    """The wish waits for the end of the phase; by then every other arm may be out."""
    session = Session({"name": "dist-dp-se", "arms": 2, "horizon": 10**6, "epsilon": 5.0, "binary": True})
    session.observe(Operated("retire", 0))
    for batch in session.open_batches:
        session.observe(Released(batch.batch, batch.users if batch.arm == 0 else 0))
    assert session.policy.active.tolist() == [[True, False]]
    assert Session.replay(session.transcript()).policy.active.tolist() == [[True, False]]


@pytest.mark.parametrize("name", ["dp-klucb", "vb-sdp-ae"])
@pytest.mark.parametrize("operation", ["pause", "retire"])
def test_a_batch_of_an_arm_that_is_to_leave_is_not_opened_again_when_it_expires(name: str, operation: str) -> None:
    session = Session({"name": name, "arms": 3, "horizon": 3000, "epsilon": 1.0, "binary": True})
    first = session.open_batches[0]
    session.observe(Operated(operation, first.arm))
    assert session.leaving == {first.arm}
    session.observe(Expired(first.batch))
    assert first.arm not in {batch.arm for batch in session.open_batches}
    for _ in range(3):
        for batch in session.open_batches:
            session.observe(Released(batch.batch, batch.users // 2))
            assert batch.arm != first.arm
    assert session.leaving == set()
    assert session.policy.pulls[0, first.arm] == session.policy.counts[0, first.arm] == 0
    assert Session.replay(session.transcript()).open_batches == session.open_batches


def test_an_arm_that_is_resumed_before_it_left_stays() -> None:
    session = Session({"name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0, "binary": True})
    (batch,) = session.open_batches
    session.observe(Operated("pause", batch.arm))
    session.observe(Operated("resume", batch.arm))
    session.observe(Expired(batch.batch))
    assert [(one.arm, one.users) for one in session.open_batches] == [(batch.arm, batch.users)]
