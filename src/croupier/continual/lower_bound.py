"""What no counter with k concurrent shufflers can beat ([TKMS23] section 4 and appendix B).

Theorem 4.1: on the streams Δ_{n,k} an (ε, δ)-private counter with k shufflers errs by Ω(rep_{n,k}) with constant
probability. rep_{n,k} has explicit constants. What the Ω hides does not: it comes from an anti-concentration lemma with
unnamed constants. So rep_{n,k} is a yardstick beside the error, exact in its growth with n, k and ε.
"""

from __future__ import annotations

import math

from croupier.checks import integer, positive

LEAST_VARIANCE = 200.0**2
"""[TKMS23] Lemma B.4 speaks of sums with at least this variance."""


def secrecy(epsilon: float) -> float:
    """c_ε = e^ε/(e^{2ε} + 1): the least standard deviation of a bit, given all that was released.

    >>> secrecy(1e-9)
    0.5
    """
    small = math.exp(-positive("epsilon", epsilon))
    return small / (1.0 + small**2)


def repetition_length(users: int, shufflers: int, epsilon: float) -> float:
    """rep_{n,k} = ½ n^{1/(2k+1)} c_ε^{2k/(2k+1)}: how long bits repeat on the hard streams, and what is lost there.

    >>> round(repetition_length(10**6, 1, 1.0), 1)
    23.6
    """
    power = 1.0 / (2 * integer("shufflers", shufflers, 0) + 1)
    return 0.5 * math.pow(integer("users", users, 1), power) * math.pow(secrecy(epsilon), 2 * shufflers * power)


def large_batch(users: float, shufflers: int, epsilon: float) -> float:
    """Big_{n,k} = n^{(2k-1)/(2k+1)} c_ε^{2/(2k+1)}: while a batch this large is open there is one shuffler less.

    Section 4 prints the exponent of c_ε so, appendix B prints 2k/(2k+1). The proof needs rep_{Big,k-1} = rep_{n,k} and
    c_ε√(n/Big) = 2 rep_{n,k}, and only 2/(2k+1) gives both.
    """
    power = 1.0 / (2 * integer("shufflers", shufflers, 1) + 1)
    return math.pow(positive("users", users), (2 * shufflers - 1) * power) * math.pow(secrecy(epsilon), 2.0 * power)


def lower_bound_users(shufflers: int, epsilon: float) -> float:
    """The least n to which the proof of Theorem 4.1 applies: n c_ε²/Big_{n,k} > 200², that is, 2 rep_{n,k} > 200.

    >>> f"{lower_bound_users(1, 0.9):.1e} {lower_bound_users(2, 0.9):.1e}"
    '6.6e+07 2.2e+13'
    """
    k = integer("shufflers", shufflers, 1)
    return math.sqrt(LEAST_VARIANCE) ** (2 * k + 1) / secrecy(epsilon) ** (2 * k)


def lower_bound_delta(users: int, shufflers: int, epsilon: float) -> float:
    """The δ below which Theorem 4.1 holds: min(ε, 1)/(40 n (k + 1))."""
    pieces = 40.0 * integer("users", users, 1) * (integer("shufflers", shufflers, 0) + 1)
    return min(positive("epsilon", epsilon), 1.0) / pieces
