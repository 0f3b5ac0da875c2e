"""Little traffic, by an injected clock: one report a minute, bursts, nights without anybody.

Experiments in blocks end, nearly all that was accepted is used, and nothing is called running while it stands still.
"""

import random

import pytest

from cases.service.blocks import PLAN
from cases.service.machine import ANALYZER
from cases.service.shares import opened

DEADLINE = 3600
EXPERIMENT = PLAN | {
    "arms": ["red", "green", "blue"],
    "privacy": {"epsilon": 2.0},
    "reward": {"binary": True},
    "reports": {"report_within": 86_400, "report_at": [300, 600]},
    "batches": {"smallest": 16, "deadline": DEADLINE},
}
MEANS = (0.2, 0.3, 0.8)
HOUR, DAY = 3600, 86_400


def steady(now, chance):
    """One a minute."""
    return 1


def bursts(now, chance):
    """Forty within a minute, once in an hour or so; few between."""
    return 40 if chance.random() < 1 / 60 else int(chance.random() < 0.1)


def nights(now, chance):
    """One a minute by day, nobody for ten hours of a night."""
    return 0 if now % DAY < 10 * HOUR else 1


def evenings(now, chance):
    """The same where the night begins eight hours sooner."""
    return nights(now + 8 * HOUR, chance)


def live_through(service, comes, days, silent=0.2):
    """Minute after minute; what was shown while nothing could be learned must say so. Returns whether it ended."""
    chance, servers = random.Random(7), service.servers
    out, quiet = [], 0.0
    for minute in range(int(days * DAY / 60)):
        now = servers.clock.now = servers.clock.now + 60
        due = [one for one in out if one[0] <= now]
        out = [one for one in out if one[0] > now]
        quiet = 0.0 if due else quiet + 60
        for _, person in due:
            service.reports(person)
        for _ in range(comes(now, chance)):
            person = service.comes(value=0.0)
            if person is not None and chance.random() >= silent:
                service.says(person, float(chance.random() < MEANS[person.arm]))
                out.append((now + chance.uniform(300, 600), person))
        if minute % 5 == 0:
            service.step()
            service.step()
            if service.live.program.finished:
                return True
            # A block may have closed by its deadline after the last report; the next one is late a deadline after that.
            if quiet > 2 * DEADLINE + 600:
                assert service.live.stalled, f"nothing came for {quiet} seconds, and it is called running"
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "comes", "days"),
    [
        ({"policy": "split", "horizon": 100}, steady, 10),
        pytest.param({"policy": "split", "horizon": 200}, steady, 10, marks=pytest.mark.evidence),
        ({"policy": "concurrent-elimination"}, evenings, 0.47),
        pytest.param({"policy": "concurrent-elimination"}, nights, 0.8, marks=pytest.mark.evidence),
        pytest.param({"policy": "split", "horizon": 5000}, nights, 10, marks=pytest.mark.evidence),
        pytest.param({"policy": "split"}, bursts, 2, marks=pytest.mark.evidence),
        pytest.param({"policy": "concurrent-elimination"}, bursts, 3, marks=pytest.mark.evidence),
        pytest.param({"policy": "dp-top-two"}, nights, 4, marks=pytest.mark.evidence),
    ],
)
def test_experiments_end_and_nearly_everything_is_used(tmp_path, program, comes, days, record_property):
    """`days` is how long it runs at least, unless a horizon ends it."""
    plan = EXPERIMENT | {"program": program, "decision": {"minimum_run": days * DAY}}
    service = opened(tmp_path, experiment=plan, validity="none")
    try:
        assert live_through(service, comes, days=12)
        used = sum(record["users"] for record in service.records("released"))
        record_property("accepted", len(service.accepted))
        record_property("used", used)
        assert used >= 0.99 * len(service.accepted), (used, len(service.accepted))
        state = service.servers.ask("GET", f"{ANALYZER}/experiments/{service.name}/state").json()
        assert state["finished"]
        assert state["stalled"] == ""
        if "horizon" not in program:
            assert (state["decision"]["kind"], state["decision"]["leader"]) == ("better", 2)
    finally:
        service.close()
