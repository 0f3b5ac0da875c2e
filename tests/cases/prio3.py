"""The types as croupier has them and as the plain reading has them; groups that go the whole way."""

from cases import plain_prio3
from croupier.validity import Verifier, prio3_count, prio3_histogram, prio3_ranges, prio3_sum, prio3_sum_vec

KEY, CONTEXT = bytes(range(100, 132)), b"some experiment, some arm"

PAIRS = {
    "count": (prio3_count(), plain_prio3.Count(), [0, 1]),
    "sum to 1": (prio3_sum(1), plain_prio3.Sum(1), [0, 1]),
    "sum to 7": (prio3_sum(7), plain_prio3.Sum(7), [0, 3, 7]),
    "sum to 100": (prio3_sum(100), plain_prio3.Sum(100), [0, 63, 64, 100]),
    "histogram of 1": (prio3_histogram(1), plain_prio3.Histogram(1, 1), [0]),
    "histogram of 5": (prio3_histogram(5), plain_prio3.Histogram(5, 2), [0, 2, 4]),
    "vectors of 3 to 5": (prio3_sum_vec(3, 5, 4), plain_prio3.SumVec(3, 5, 4), [[0, 0, 0], [5, 1, 4], [5, 5, 5]]),
    "vectors of 3, three proofs": (
        prio3_sum_vec(3, 5, 4, proofs=3),
        plain_prio3.SumVec(3, 5, 4, proofs=3),
        [[0, 0, 0], [5, 1, 4], [5, 5, 5]],
    ),
    "ranges of their own": (prio3_ranges([1, 5, 12]), plain_prio3.Ranges([1, 5, 12], 3), [[0, 0, 0], [1, 4, 12]]),
}


def whole_way(prio3, nonces, publics, leaders, helpers, contexts=CONTEXT, helper_contexts=None, helper_nonces=None):
    """Both servers, from their shares to what each has finished."""
    one = Verifier(prio3, 0, KEY).prepare(nonces, publics, leaders, contexts)
    two = Verifier(prio3, 1, KEY).prepare(helper_nonces or nonces, publics, helpers, helper_contexts or contexts)
    messages = two.combine(one.verifier_shares)
    return one.finish(messages), two.finish(messages)


def refusals(*arguments, **options):
    """Why each report was refused, as the leader and the helper agree on it."""
    one, two = whole_way(*arguments, **options)
    assert one.refusals == two.refusals
    return list(one.refusals)
