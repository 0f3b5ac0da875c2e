"""An experiment in shares as its servers answer with it, for a browser that has no servers."""

from dataclasses import replace

from cases import vector_reports as making
from cases.vector_shares import SHARED
from croupier.messages.offer import Batch, Offer


def stage(name="count-proved", **changes):
    """What the servers of an experiment in shares answer with."""
    (mechanism, *_), _, own = SHARED[name]
    configuration = replace(making.configuration_of(mechanism), **own, **changes)
    statement = making.signed(configuration.statement())
    arm = None if not configuration.arms else next(i for i in (0, 1) if i not in configuration.retired)
    offer = Offer("colours", statement.hash, 7, arm, (Batch.of(3, statement.hash, mechanism),))
    return {"configuration": statement.to_dict(), "offer": making.signed(offer.statement()).to_dict()}
