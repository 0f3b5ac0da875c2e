"""Whatever is lost, late or killed, blocks between two servers hold: everybody who was told so counts once, in the arm
and the epoch of their turn, in the block of all who came between two cuts; and the batches of a block close together.

A Hypothesis state machine drives both real applications on real stores. Every user is one bit of a total, so a loss, a
double count or a mix-up shows.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cases.service.blocks import (
    PLAN,
    WITHIN,
    check_arms_and_epochs,
    check_cuts,
    check_noise,
    check_nothing_lost,
    check_old_epochs_are_over,
    check_together,
    counted,
)
from cases.service.machine import ANALYZER, ANSWER_LOST, ARRIVES, REQUEST_LOST, Killed
from cases.service.shares import BITS, DEADLINE, DUE_WITHIN, one_bit_a_user, opened
from croupier.programs import replay

POLICIES = ("split", "swinging")
fates = st.sampled_from((ARRIVES, ARRIVES, REQUEST_LOST, ANSWER_LOST))
deaths = st.sampled_from((None, None, False, True))
picks = st.integers(0, 10**6)
room_for_more = precondition(lambda self: len(self.service.people) < BITS)


class Blocks(RuleBasedStateMachine):
    """Everything that may happen, in any order."""

    stores = "sqlite"
    policy = "split"

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="croupier-blocks-"))
        plan = PLAN | {"arms": ["red", "green", "blue"], "program": {"policy": self.policy}}
        self.service = opened(self.directory, self.stores, experiment=plan)
        self.servers = self.service.servers
        self.order: list[int] = []
        """Who was accepted, in that order, as far as it is known: an answer that is lost leaves it open."""
        self.unsure: set[int] = set()

    def dies(self, server, death, at=1):
        self.servers.alive[server].die_at(0 if death is None else at, bool(death))

    @room_for_more
    @rule(count=st.integers(1, 6), silent=st.booleans())
    def users_come(self, count, silent):
        """All report but the last one, who may be late or stay silent."""
        people = [self.service.comes() for _ in range(min(count, BITS - len(self.service.people)))]
        for person in people[: len(people) - silent]:
            if person is not None:
                self.report(person)

    def report(self, person, fate=ARRIVES, death=None):
        known = person.bit in self.service.accepted
        self.servers.wire.fates = [] if fate == ARRIVES else [fate]
        self.dies("front", death)
        told = self.service.reports(person)
        assert told in (None, "accepted", "repeated", "token-expired", "batch-closed"), told
        if told == "accepted" and not known and person.bit not in self.unsure:
            self.order.append(person.bit)
        elif told is None and not known:
            self.unsure.add(person.bit)

    @precondition(lambda self: self.service.people)
    @rule(pick=picks, fate=fates, death=deaths)
    def one_reports_perhaps_again(self, pick, fate, death):
        self.report(self.service.people[pick % len(self.service.people)], fate, death)

    @rule(seconds=st.sampled_from((1, DUE_WITHIN + 1, DEADLINE + 1, WITHIN + 10)))
    def time_passes(self, seconds):
        self.servers.clock.now += seconds

    @rule(server=st.sampled_from(("front", "analyzer")))
    def a_server_is_killed(self, server):
        self.servers.kill(server)

    @rule(what=st.sampled_from(("sweep", "close_full")), death=deaths, at=st.integers(1, 3))
    def the_front_tidies_up(self, what, death, at):
        self.dies("front", death, at)
        with suppress(Killed):
            getattr(self.servers.front.front, what)()
        self.servers.revive()

    @rule(
        server=st.sampled_from(("front", "analyzer")),
        death=deaths,
        at=st.integers(1, 5),
        lost=st.integers(0, 9),
        fate=fates,
    )
    def the_analyzer_goes_round(self, server, death, at, lost, fate):
        self.dies(server, death, at)
        self.servers.wire.fates = [*[ARRIVES] * lost, fate]
        self.service.step()
        self.servers.wire.fates = []

    @rule()
    def a_round_without_trouble(self):
        for _ in range(2):
            self.service.step()

    @rule(operation=st.sampled_from(("pause", "resume")), arm=st.integers(0, 2))
    def the_operator_wants_something(self, operation, arm):
        url = f"{ANALYZER}/experiments/{self.service.name}/operations"
        answer = self.servers.ask("POST", url, self.servers.admin, json={"operation": operation, "arm": arm})
        assert answer.status_code in (200, 201, 409), answer.content

    @invariant()
    def batches_of_a_block_close_together(self):
        self.servers.revive()
        check_together(self.service)

    def teardown(self):
        try:
            self.come_to_rest()
        finally:
            self.service.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def come_to_rest(self):
        self.servers.wire.fates = []
        for _ in range(6):
            self.service.step()
            check_together(self.service)
        told = counted(self.service)
        check_arms_and_epochs(self.service)
        check_cuts(self.service, [bit for bit in self.order if bit not in self.unsure])
        assert told <= {person.bit for person in self.service.people}
        check_nothing_lost(self.service, self.unsure)
        check_old_epochs_are_over(self.service)
        check_noise(self.service)
        *_, state = replay(self.service.live.records)
        assert state.program.wanted == self.service.live.program.wanted


SETTINGS = settings(
    stateful_step_count=30,
    derandomize=True,
    # Not shrunk: that takes minutes, and a failure is one of a few dozen steps anyway.
    phases=[Phase.generate],
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("stores", "examples"),
    [
        ("sqlite", 2),
        ("postgresql", 1),
        pytest.param("sqlite", 150, marks=pytest.mark.evidence),
        pytest.param("postgresql", 75, marks=pytest.mark.evidence),
    ],
)
def test_nothing_is_lost_or_doubled_or_parted(monkeypatch, policy, stores, examples):
    machine = type("Blocks", (Blocks,), {"stores": stores, "policy": policy})
    with one_bit_a_user(monkeypatch):
        run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=examples))
