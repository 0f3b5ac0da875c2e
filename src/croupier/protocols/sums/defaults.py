"""Which protocol sums where nobody names one: it follows from whom users trust and from what they report."""

from __future__ import annotations

from croupier.checks import InvalidParameter, one_of
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.bits import SHUFFLED_BITS
from croupier.protocols.sums.protocol import Row
from croupier.protocols.sums.secagg import CENTRAL_LAPLACE, LAPLACE, LOCAL_LAPLACE
from croupier.protocols.sums.split_and_mix import SHUFFLED_LAPLACE, SHUFFLED_VECTORS
from croupier.protocols.sums.vectors import SHARED_VECTORS

_NUMBERS = {
    "two-servers": LAPLACE,
    "devices": LAPLACE,
    "shuffler": SHUFFLED_LAPLACE,
    "nobody": LOCAL_LAPLACE,
    "analyzer": CENTRAL_LAPLACE,
}
# A table and no field of a row: an installed package must not change what an experiment runs.
DEFAULTS: dict[str, dict[str, Row]] = {
    "numbers": _NUMBERS,
    "bits": _NUMBERS | {"shuffler": SHUFFLED_BITS},
    "vectors": {"two-servers": SHARED_VECTORS, "devices": SHARED_VECTORS, "shuffler": SHUFFLED_VECTORS},
}
"""By what users report, and by whom they trust."""


def default_protocol(trust: str, *, reports: str = "numbers") -> str:
    """Return the name of the protocol that stands for a trust.

    Parameters
    ----------
    trust : who must be trusted: "two-servers", "devices", "shuffler", "nobody" or "analyzer".
    reports : "numbers", "vectors", or "bits": one of two values, which a shuffler can hide among random bits.

    Examples
    --------
    >>> default_protocol("two-servers"), default_protocol("shuffler"), default_protocol("shuffler", reports="bits")
    ('laplace', 'shuffled-laplace', 'shuffled-bits')
    """
    known = DEFAULTS[one_of("reports", reports, tuple(DEFAULTS))]
    if one_of("trust", trust, TRUSTS) not in known:
        raise InvalidParameter("trust", trust, f"one of {', '.join(known)}: no other has a protocol for {reports}")
    return known[trust].name
