"""The audit on the real path of shares: what a malicious server with all other clients sees tells no more than ε.

Devices seal, and front and analyzer work as they always do, with their own requests and stores; only the noise is drawn
from fixed seeds. Of every batch all clients but one are the attacker's own. The test takes from the bytes what the
attacker has, and nothing else: he is left with the victim's value and the noise of the server that is not his. The
bound on ε is too high with probability `failure` at most.
"""

import json

import numpy as np
import pytest

from cases.service.shares import NAME, PLAN, opened, sealed
from croupier.messages.sealing import unseal
from croupier.messages.shares import SharedReport, form, scopes, share_info
from croupier.messages.signing import from_text
from croupier.messages.wire import Envelope, report_info
from croupier.noise import DiscreteLaplace, seeded
from croupier.privacy.audit import epsilon_lower_bound
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service.groups import set_hash
from croupier.validity.steps import Single, helper_share

USERS, ARMS = 2, 8
EXPERIMENT = PLAN | {
    "arms": [f"arm {arm}" for arm in range(ARMS)],
    "program": {"policy": "vb-sdp-ae", "horizon": 10**9, "growth": 1.0},
    "reward": {"binary": True},
    "batches": {"smallest": USERS, "deadline": 10**6},
}
KNOWN = 1
"""What the attacker's own clients report."""


class Audited:
    """Both servers, and what either attacker makes of one batch after the other."""

    def __init__(self, directory, epsilon):
        self.service = opened(directory, experiment=EXPERIMENT | {"privacy": {"epsilon": epsilon}})
        servers = self.service.servers
        self.keys, self.analyzer = servers.keys, servers.analyzer.analyzer
        self.analyzer.settling.source = seeded(99)

    def views(self, value):
        """Of every batch of a phase, in which one client holds this value: the view of a malicious analyzer, and that
        of a malicious front.
        """
        turns, reports, since = {}, {}, self.service.live.count
        while (turn := self.service.turn()) is not None:
            # The first in every batch is the victim.
            person = self.service.with_body(turn, sealed(turn, KNOWN if turn.arm in turns else value))
            assert self.service.reports(person) == "accepted"
            turns[turn.arm] = turn
            reports.setdefault(turn.arm, []).append(self._opened(turn, person.body))
        self.service.step()
        self.service.step()
        released = {record["batch"]: record for record in self.service.records("released", since)}
        return [self._batch(turn, released[turn.offer.batches[0].number], reports[arm]) for arm, turn in turns.items()]

    def _opened(self, turn, body):
        """A report as the front reads it."""
        envelope, suite = Envelope.from_bytes(body), turn.joined.configuration.suite
        key = self.keys["front"].newest(suite).private
        opened = unseal(suite, key, envelope.sealed, report_info(NAME, envelope.configuration))
        return SharedReport.from_bytes(opened, form(turn.offer, suite, proved=True))

    def _batch(self, turn, record, reports):
        answer = json.loads(record["receipt"]["body"])
        assert from_text("set", answer["set"]) == set_hash(report.report for report in reports)
        assert record["users"] == len(reports) == USERS
        mechanism, (scope,), offer = turn.offer.batches[0].mechanism, scopes(turn.offer), turn.offer
        ring, prio3 = mechanism.ring, mechanism.prio3

        def info(report):
            return share_info(NAME, offer.configuration, scope, 0, report.report)

        def expanded(report):
            (number,), _ = helper_share(prio3, Single(prio3, info(report)), 1, report.share)
            return number

        (given,) = ring.decode(from_text("share", answer["share"]), 1)
        victim, *known = reports
        # A malicious analyzer opens the victim's share for it, and knows the seeds of its own clients alone.
        suite = turn.joined.configuration.suite
        own = unseal(suite, self.keys["analyzer"].newest(suite).private, victim.sealed[0], info(victim))
        (share,) = ring.decode(own[: ring.size], 1)
        (analyzer,) = ring.signed(ring.add([given], [share], *([-expanded(report)] for report in known)))
        # A malicious front has every seed, and so its own noise (or has left it out), and the total from the log.
        (noise,) = ring.signed(ring.add([given], *([-expanded(report)] for report in reports)))
        front = record["decoded"] - noise
        return analyzer - KNOWN * len(known), front - KNOWN * len(known)

    def findings(self, phases, failure):
        """The bounds on ε from the views of so many phases for each value: the analyzer's and the front's."""
        views = {value: [view for _ in range(phases) for view in self.views(value)] for value in (0, 1)}
        self.service.close()
        first, second = (np.asarray(views[value]) for value in (0, 1))
        trials = min(len(first), len(second))
        return {
            attacker: epsilon_lower_bound(first[:trials, place], second[:trials, place], delta=0.0, failure=failure)
            for place, attacker in enumerate(("analyzer", "front"))
        }


def draws(audit, monkeypatch, server, noise):
    """Let this server draw its noise another way."""
    own, drawn = audit.analyzer.settling.source, SumMechanism.server_noise

    def draw(mechanism, source):
        return noise(source) if (source is own) == (server == "analyzer") else drawn(mechanism, source)

    monkeypatch.setattr(SumMechanism, "server_noise", draw)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "phases", "failure"),
    [
        (0.5, 4, 1e-2),
        pytest.param(0.5, 400, 1e-6, marks=pytest.mark.evidence),
        pytest.param(1.0, 400, 1e-6, marks=pytest.mark.evidence),
    ],
)
def test_neither_server_with_all_other_clients_sees_more_than_epsilon(
    tmp_path, record_property, epsilon, phases, failure
):
    findings = Audited(tmp_path, epsilon).findings(phases, failure)
    record_property("ε promised", epsilon)
    for attacker, finding in findings.items():
        record_property(f"ε seen by a malicious {attacker}, at least", round(finding.epsilon, 3))
        assert finding.epsilon <= epsilon
        if finding.trials > 1000:
            assert finding.epsilon >= 0.2 * epsilon, "an audit that sees little says little"
    record_property("batches for each value", findings["front"].trials)
    record_property("failure", failure)


@pytest.mark.slow
@pytest.mark.parametrize(("server", "attacker"), [("front", "analyzer"), ("analyzer", "front")])
def test_the_audit_notices_a_noise_that_is_left_out(tmp_path, monkeypatch, server, attacker):
    """And only where it protects: against the other server."""
    audit = Audited(tmp_path, 0.5)
    draws(audit, monkeypatch, server, lambda source: [0])
    findings = audit.findings(4, 1e-2)
    assert findings[attacker].epsilon > 0.5
    assert findings[server].epsilon <= 0.5


@pytest.mark.evidence
@pytest.mark.parametrize(("server", "attacker"), [("front", "analyzer"), ("analyzer", "front")])
def test_the_audit_notices_a_noise_of_half_the_scale(tmp_path, monkeypatch, record_property, server, attacker):
    audit = Audited(tmp_path, 1.0)
    draws(audit, monkeypatch, server, lambda source: DiscreteLaplace(0.5).sample(1, source).tolist())
    findings = audit.findings(200, 1e-6)
    record_property(f"ε seen by a malicious {attacker}, at least", round(findings[attacker].epsilon, 3))
    assert findings[attacker].epsilon > 1.0
    assert findings[server].epsilon <= 1.0
