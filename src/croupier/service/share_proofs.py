"""Reports with proofs at the analyzer, Prio3's leader: a group is opened and checked in one piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from croupier.messages.proofs import analyzer_share
from croupier.service.decryption import Job, open_all
from croupier.service.groups import Reason
from croupier.validity import Prio3, Refusal, Verifier

LEADER = 0


@dataclass(frozen=True)
class Proofs:
    """Sealed shares of one type, to be checked with one key: of each the job of opening it, whose context is also the
    proof's, its report's name, and what the front shows of its own share.
    """

    prio3: Prio3
    key: bytes
    jobs: Sequence[Job]
    reports: Sequence[bytes]
    verifiers: Sequence[bytes]


@dataclass(frozen=True)
class Found:
    """What came of a report that opened: why it does not count, or this server's share of what is added up and what it
    shows the front.
    """

    reason: Reason | None
    share: bytes = b""
    verifier: bytes = b""


def checked(proofs: Proofs) -> list[Found | None]:
    """Open shares and check their proofs; None where one does not open."""
    found: list[Found | None] = [None] * len(proofs.jobs)
    opened = [(place, plain) for place, plain in enumerate(open_all(proofs.jobs)) if plain is not None]
    shares = [analyzer_share(proofs.prio3, plain) for _, plain in opened]
    places = [place for place, _ in opened]
    prepared = Verifier(proofs.prio3, LEADER, proofs.key).prepare(
        [proofs.reports[place] for place in places],
        [share.public for share in shares],
        [share.share for share in shares],
        [proofs.jobs[place][2] for place in places],
    )
    finished = prepared.finish(prepared.combine([proofs.verifiers[place] for place in places]))
    columns = zip(places, prepared.refusals, finished.refusals, prepared.output_shares, prepared.shown, strict=True)
    for place, own, both, share, verifier in columns:
        if own in (Refusal.LENGTH, Refusal.FIELD):
            found[place] = Found(Reason.MALFORMED)
        else:
            found[place] = Found(None, share, verifier) if both is None else Found(Reason.INVALID)
    return found
