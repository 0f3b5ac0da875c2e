"""An experiment in shares as its servers answer with it, for a browser that has no servers."""

import hashlib
from dataclasses import replace

from cases import vector_reports as making
from cases import vector_shares
from cases.linear_vectors import PROGRAM
from cases.vector_shares import SHARED
from croupier.messages.configuration import Configuration, Reports
from croupier.messages.offer import Batch, Offer
from croupier.messages.proofs import analyzer_share, front_share
from croupier.messages.sealing import unseal
from croupier.messages.shares import SharedReport, form, scopes, share_info, upload_length
from croupier.messages.wire import Envelope, report_info
from croupier.personal import Belief, Rule
from croupier.protocols import Moments
from croupier.validity import Verifier

LIKED = Belief((0.4, 0.0, 0.0), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (900.0,) * 3, radius=0.5)
DISLIKED = replace(LIKED, theta=(-0.4, 0.0, 0.0))
RULE = Rule(((LIKED,), (DISLIKED,), (DISLIKED,)), control=0.0, single=2)
"""By which people above the middle of the first feature play the first action, and all others the second."""


def personal_stage(rule=RULE, told=None, **changes):
    """What the servers of a personalised experiment answer with; the front may tell another rule than was signed."""
    values = Moments(3, places=3, weight=0.8, control=0.5)
    own = vector_shares.LINEAR | vector_shares.PROVED
    own |= {"arms": tuple(PROGRAM["actions"]), "program": PROGRAM, "reports": Reports(86_400, (600.0, 7_200.0), 0.0)}
    mechanism = vector_shares.of_vectors("shared-vectors", values, delta=1e-6)
    statement = making.signed(replace(making.configuration_of(mechanism), **own, **changes).statement())
    digest = None if rule is None else hashlib.sha256(rule.to_json().encode()).digest()
    offer = Offer("colours", statement.hash, 7, None, (Batch.of(3, statement.hash, mechanism),), rule=digest)
    signed = {"configuration": statement.to_dict(), "offer": making.signed(offer.statement()).to_dict()}
    return signed | ({} if rule is None else {"rule": (told or rule).to_json()})


def stage(name="count-proved", **changes):
    """What the servers of an experiment in shares answer with."""
    (mechanism, *_), _, own = SHARED[name]
    configuration = replace(making.configuration_of(mechanism), **own, **changes)
    statement = making.signed(configuration.statement())
    arm = None if not configuration.arms else next(i for i in (0, 1) if i not in configuration.retired)
    offer = Offer("colours", statement.hash, 7, arm, (Batch.of(3, statement.hash, mechanism),))
    return {"configuration": statement.to_dict(), "offer": making.signed(offer.statement()).to_dict()}


def value_of(given, upload):
    """What both servers together read in a report, and accept."""
    body = Envelope.from_bytes(bytes.fromhex(upload))
    keys = making.private_seal(making.SUITE)
    configuration, offer = (
        Configuration.from_text(given["configuration"]["body"]),
        Offer.from_text(given["offer"]["body"]),
    )
    proved = configuration.validity.proved
    assert len(upload) == 2 * upload_length(offer, making.SUITE, proved=proved)
    opened = unseal(making.SUITE, keys["front"], body.sealed, report_info("colours", body.configuration))
    report = SharedReport.from_bytes(opened, form(offer, making.SUITE, proved=proved))
    asked = offer.batches[0].asked
    (scope,) = scopes(offer)
    info = share_info("colours", body.configuration, scope, 0, report.report)
    theirs = unseal(making.SUITE, keys["analyzer"], report.sealed[0], info)
    ring, length = asked.ring, asked.outputs or 1
    if not proved:
        return report.report.hex(), ring.add(ring.decode(theirs, length), ring.expand(report.share, info, length))
    both = analyzer_share(asked.prio3, theirs), front_share(asked.prio3, report.share)
    leader, helper = (
        Verifier(asked.prio3, server, vector_shares.PROOF_KEY).prepare([report.report], [one.public], [one.share], info)
        for server, one in enumerate(both)
    )
    messages = leader.combine(helper.verifier_shares)
    finished = [one.finish(messages) for one in (leader, helper)]
    assert [one.refusals for one in finished] == [(None,), (None,)]
    return report.report.hex(), ring.add(*(ring.decode(one.aggregate(), length) for one in finished))
