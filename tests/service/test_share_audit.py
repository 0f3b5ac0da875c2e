"""The audit on the real path of shares: what a malicious server with all other clients sees tells no more than ε.

Devices seal, and front and analyzer work as they always do, with their own requests and stores; only the noise is drawn
from fixed seeds. Of every batch all clients but one are the attacker's own. The test takes from the bytes what the
attacker has, and nothing else: he is left with the victim's value and the noise of the server that is not his. The
bound on ε is too high with probability `failure` at most.
"""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chisquare, gamma

from cases.service.shares import NAME, PLAN, opened, sealed
from croupier.messages.sealing import unseal
from croupier.messages.shares import SharedReport, form, scopes, share_info
from croupier.messages.signing import from_text
from croupier.messages.wire import Envelope, report_info
from croupier.noise import DiscreteLaplace, seeded
from croupier.privacy.audit import epsilon_lower_bound
from croupier.protocols import Moments
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service.experiment import plan
from croupier.service.groups import set_hash
from croupier.validity.fields import Numbers
from croupier.validity.steps import Single, helper_share
from croupier.validity.xof import SEED

pytestmark = pytest.mark.usefixtures("unsynced")

USERS, ARMS, STEPS = 2, 8, 64
EXPERIMENT = PLAN | {
    "arms": [f"arm {arm}" for arm in range(ARMS)],
    "program": {"policy": "vb-sdp-ae", "horizon": 10**9, "growth": 1.0},
    "reward": {"binary": True},
    "batches": {"smallest": USERS, "deadline": 10**6},
}
VECTORS = PLAN | {
    "arms": ["video", "mail"],
    "program": {
        "kind": "linear",
        "users": 10**6,
        "first": USERS,
        "largest": USERS,
        "features": {"age": [18, 80]},
        "precision": STEPS,
        "noise": "laplace",
        # Sets of earlier batches are then not looked through, of which there are thousands.
        "exploration": 0.5,
    },
    "reward": {},
    "batches": {"deadline": 10**6},
}
MOMENTS = Moments(2, places=2, weight=plan(VECTORS).parameters["weight"])


@dataclass(frozen=True)
class Case:
    """An experiment, the victim's two values, and what the attacker's own clients report."""

    experiment: dict
    values: tuple
    encoded: tuple
    """What the two values are in steps, before they are rounded."""
    known: object
    adds: np.ndarray
    """What a known client adds to a sum: it is whole, so that no coin is drawn."""

    @property
    def distance(self):
        return float(np.abs(np.subtract(*self.encoded)).sum())


def vector_case():
    """The victim's two values are as far apart as two users can be: another action, and the reward turned around."""
    x = [0.5**0.5, 0.5**0.5]
    values = MOMENTS.of(x, 1.0, 0), MOMENTS.of(x, 0.0, 1)
    known = MOMENTS.of([0.0, 0.5**0.5], 0.5)
    steps = [(own + 1.0) / 2.0 * STEPS for own in (*values, known)]
    assert (steps[2] == np.rint(steps[2])).all()
    return Case(VECTORS, tuple(own.tolist() for own in values), tuple(steps[:2]), known.tolist(), steps[2].astype(int))


CASES = {
    "bits": Case(EXPERIMENT, (0, 1), (np.array([0.0]), np.array([1.0])), 1, np.array([1])),
    "vectors": vector_case(),
}


class Audited:
    """Both servers, and what either attacker makes of one batch after the other."""

    def __init__(self, directory, epsilon, case=CASES["bits"]):
        self.case = case
        self.service = opened(directory, experiment=case.experiment | {"privacy": {"epsilon": epsilon}})
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
            person = self.service.with_body(turn, sealed(turn, self.case.known if turn.arm in turns else value))
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
        ring, prio3, length = mechanism.ring, mechanism.prio3, mechanism.outputs or 1

        def info(report):
            return share_info(NAME, offer.configuration, scope, 0, report.report)

        def expanded(report):
            numbers, _ = helper_share(prio3, Single(prio3, info(report)), 1, report.share[:SEED])
            return prio3.circuit.truncate(Numbers(prio3.circuit.field), numbers)

        def without(total, *shares):
            return ring.signed(
                [(number - sum(column)) % ring.modulus for number, *column in zip(total, *shares, strict=True)]
            )

        given = ring.decode(from_text("share", answer["share"]), length)
        victim, *known = reports
        # A malicious analyzer opens the victim's share for it, and knows the seeds of its own clients alone.
        suite = turn.joined.configuration.suite
        own = unseal(suite, self.keys["analyzer"].newest(suite).private, victim.sealed[0], info(victim))
        encoded = ring.decode(own[: ring.size * prio3.circuit.length], prio3.circuit.length)
        share = prio3.circuit.truncate(Numbers(prio3.circuit.field), encoded)
        analyzer = without(ring.add(given, share), *map(expanded, known))
        # A malicious front has every seed, and so its own noise (or has left it out), and the total from the log.
        noise = without(given, *map(expanded, reports))
        front = np.atleast_1d(record["decoded"]) - noise
        others = len(known) * self.case.adds
        return [np.asarray(view) - others for view in (analyzer, front)]

    def seen(self, phases):
        """What is left to either attacker in so many phases for each value: (trials, numbers) for both values."""
        found = [np.asarray([view for _ in range(phases) for view in self.views(value)]) for value in self.case.values]
        self.service.close()
        trials = min(map(len, found))
        return {
            attacker: [views[:trials, place] for views in found] for place, attacker in enumerate(("analyzer", "front"))
        }

    def findings(self, phases, failure):
        """The bounds on ε from those views, whatever the noise is: where one number tells the two values apart."""
        return {
            attacker: epsilon_lower_bound(first[:, 0], second[:, 0], delta=0.0, failure=failure)
            for attacker, (first, second) in self.seen(phases).items()
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
        pytest.param(1.0, 200, 1e-6, marks=pytest.mark.evidence),
    ],
)
def test_neither_server_with_all_other_clients_sees_more_than_epsilon(
    tmp_path, record_property, epsilon, phases, failure
):
    findings = Audited(tmp_path, epsilon).findings(phases, failure)
    record_property("ε promised", epsilon)
    for attacker, finding in findings.items():
        record_property(f"ε seen by a malicious {attacker}, at least", round(float(finding.epsilon), 3))
        assert finding.epsilon <= epsilon
        if finding.trials > 1000:
            # At ε = 0.5 such a run sees 0.23 on average, with a standard deviation of 0.037.
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
    record_property(f"ε seen by a malicious {attacker}, at least", round(float(findings[attacker].epsilon), 3))
    assert findings[attacker].epsilon > 1.0
    assert findings[server].epsilon <= 1.0


@dataclass(frozen=True)
class Law:
    """What the views of a vector say of the noise in them."""

    epsilon: float
    """ε is at least this, if the noise of each number is Laplace, except with probability `failure`."""
    fits: float
    """How likely noise of the promised law is no nearer to it than this: a chi-square over about twenty equal parts."""
    off: float
    """How many standard errors the means of all numbers are off at most, from where the two values are."""


def law(case, seen, noise, failure):
    """A vector's difference is spread over many small numbers, each well hidden, so events tell little of ε. What is
    left when the value is taken away tells the scale of the noise, and with it ε.
    """
    left = [views - own for views, own in zip(seen, case.encoded, strict=True)]
    unrounded = [part[:, own == np.rint(own)] for part, own in zip(left, case.encoded, strict=True)]
    off = max(float(np.abs(part.mean(axis=0)).max() * math.sqrt(len(part)) / noise.variance**0.5) for part in left)
    sizes = np.abs(np.concatenate([part.ravel() for part in left]))
    # Σ|noise| over the scale is a sum of exponentials; a rounded value only adds to it.
    largest = sizes.sum() / gamma.ppf(failure, len(sizes))
    return Law(case.distance / largest, fit(np.abs(np.concatenate([part.ravel() for part in unrounded])), noise), off)


def fit(sizes, noise):
    """How likely sizes of this noise are no nearer to its law: P(|X| >= k) = 2qᵏ/(1 + q), with q = e^{-1/scale}."""
    ends = np.unique(np.rint(noise.scale * -np.log1p(-np.linspace(0.0, 1.0, 21)[:-1])))
    q = math.exp(-1.0 / noise.scale)
    beyond = np.append(np.where(ends > 0, 2.0 * q**ends / (1.0 + q), 1.0), 0.0)
    counts = np.histogram(sizes, np.append(ends, np.inf))[0]
    return float(chisquare(counts, -len(sizes) * np.diff(beyond)).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phases", "least", "failure"),
    [(12, 0.55, 1e-4), pytest.param(600, 0.87, 1e-6, marks=pytest.mark.evidence)],
)
def test_of_a_vector_neither_server_with_all_other_clients_sees_more_than_epsilon(
    tmp_path, record_property, phases, least, failure
):
    case, noise = CASES["vectors"], noise_of(1.0)
    found = Audited(tmp_path, 1.0, case).seen(phases)
    record_property("ε promised", 1.0)
    for attacker, seen in found.items():
        says = law(case, seen, noise, failure)
        record_property(f"ε seen by a malicious {attacker}, at least", round(float(says.epsilon), 3))
        record_property(f"chance of a noise like that in the {attacker}'s view", f"{says.fits:.3g}")
        assert least <= says.epsilon <= 1.0
        assert says.fits > 1e-9
        # Of 40 means of each view one is 8 standard errors off with a chance below 1e-12.
        assert says.off < 8.0
    record_property("batches for each value", phases)
    record_property("failure", failure)


@pytest.mark.slow
@pytest.mark.parametrize(("server", "attacker"), [("front", "analyzer"), ("analyzer", "front")])
def test_of_a_vector_the_audit_notices_a_noise_of_half_the_scale(tmp_path, monkeypatch, server, attacker):
    case, noise = CASES["vectors"], noise_of(1.0)
    audit, half = Audited(tmp_path, 1.0, case), DiscreteLaplace(noise.scale / 2.0)
    draws(audit, monkeypatch, server, lambda source: half.sample(MOMENTS.dimension, source).tolist())
    found = {name: law(case, seen, noise, 1e-4) for name, seen in audit.seen(16).items()}
    assert found[attacker].epsilon > 1.0
    assert found[attacker].fits < 1e-9
    assert found[server].epsilon <= 1.0
    assert found[server].fits > 1e-9


def noise_of(epsilon):
    """One server's noise for each number, as the experiment plans it."""
    return plan(VECTORS | {"privacy": {"epsilon": epsilon}}).program().plan.mechanism(USERS).share
