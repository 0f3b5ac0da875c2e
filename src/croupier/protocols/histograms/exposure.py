"""What a histogram's or a selection's view shows of one user, sampled on its real path for the audit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from croupier.noise import Source
from croupier.protocols.histograms.central import Trusted
from croupier.protocols.histograms.oracles import CHUNK, Integers, Tally
from croupier.protocols.histograms.planned import Planned

FIRST, SECOND = 0, 1
"""The items between which the audited user changes; everybody else holds one of the two."""


def exposed(
    mechanism: Planned, item: int, trials: int, source: Source, progress: Callable[[int], None] | None = None
) -> Integers:
    """One number per batch that tells most about the first user, who holds `item`.

    Where every report is seen it is the first user's own; where a shuffler counts labels, by how much one item's
    messages outnumber the other's; where the analyzer is trusted, the winner, or which of the two released counts are
    above what the others alone make it, since likelihoods under Laplace noise depend on that only.
    """
    ballot = mechanism.ballot
    batch = np.arange(mechanism.users) % 2
    batch[0] = item
    if ballot.trusted == "nobody":
        return ballot.report(np.full(trials, item), source, np.zeros(trials, dtype=np.int64)).labels
    rows = max(1, int(CHUNK // (mechanism.users * max(1.0, mechanism.messages_per_user))))
    drawn = []
    for done in range(0, trials, rows):
        now = min(rows, trials - done)
        drawn.append(_statistics(mechanism, np.tile(batch, now), now, source))
        if progress is not None:
            progress(now)
    return np.concatenate(drawn)


def _statistics(mechanism: Planned, indices: Integers, batches: int, source: Source) -> Integers:
    ballot = mechanism.ballot
    seats = np.tile(np.arange(mechanism.users), batches)
    reports = ballot.report(indices, source, seats)
    owners = np.repeat(np.arange(batches), reports.lengths.reshape(batches, -1).sum(axis=1))
    views = np.bincount(owners * ballot.labels + reports.labels, minlength=batches * ballot.labels)
    views = views.reshape(batches, ballot.labels)
    if not isinstance(ballot, Trusted):
        return np.asarray(views[:, FIRST] - views[:, SECOND])
    if not isinstance(ballot, Tally):
        return np.asarray([ballot.choose(view, source) for view in views])
    others = np.bincount(indices[1 : mechanism.users], minlength=2)
    above = np.asarray([ballot.decode(view, source)[:2] for view in views]) > others
    return np.asarray(2 * above[:, FIRST] + above[:, SECOND])
