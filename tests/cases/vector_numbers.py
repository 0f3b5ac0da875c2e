"""What a client computes: laws, limits on the noise, δ, encodings, pieces, the ledger."""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from cases.vector_reports import DRAWN, MECHANISMS, OURS, levels
from croupier.client.account import Account, Taken
from croupier.client.limits import Limits
from croupier.continual import counter
from croupier.messages.offer import Batch, Offer
from croupier.noise import Binomial, Poisson, Polya, PolyaDifference, SparseBits
from croupier.noise.serial import noise_to_dict
from croupier.noise.sparse import fair_rows
from croupier.privacy import BudgetExceeded
from croupier.protocols import (
    Buckets,
    HistogramMechanism,
    Mechanism,
    Values,
    counted_messages,
    histogram,
    shuffled_bits,
)
from croupier.protocols.sums.carriers import SplitAndMix

LAWS = [
    (Poisson(0.375), 1, (0, 1, 5)),
    (Poisson(2.5), 160, (300, 400, 401, 500)),
    (Polya(0.25, beta=0.75), 1, (0, 1, 9)),
    (Polya(0.25, scale=5.5), 400, (300, 480, 900)),
    (PolyaDifference(0.025, scale=26), 1, (-30, 0, 1, 60)),
    (PolyaDifference(0.025, scale=26), 40, (-30, 0, 1, 60)),
    (PolyaDifference(0.025, scale=26), 60, (-30, 0, 1, 60)),
    (Binomial(3, 0.4), 100, (90, 120, 160)),
    (SparseBits(4, 0.75), 25, (-20, 0, 1, 30)),
]


def laws() -> list[dict[str, Any]]:
    """Probabilities of one party's noise, and of so many parties' together: P(X = x) and P(X > x)."""
    found = []
    for share, parties, points in LAWS:
        total = share.times(parties)
        found.append(
            {
                "share": noise_to_dict(share),
                "parties": parties,
                "x": list(points),
                "pmf": [float(total.pmf(x)) for x in points],
                "tail": [float(total.tail(x)) for x in points],
            }
        )
    return found


def caps() -> list[dict[str, Any]]:
    """Limits on noise counts, of a user and of the front: Poisson and Pólya, rates far above a hundred, no front."""
    buckets = histogram(epsilon=1.0, delta=1e-6, universe=Buckets(9), **OURS).plan(users=100)
    wide = histogram(epsilon=0.25, delta=1e-6, universe=Buckets(6), side="under", **OURS).plan(users=32)
    alone = counted_messages(epsilon=1.0, delta=1e-6).plan(users=100)
    mechanisms = [one for one, _, _ in (MECHANISMS | DRAWN).values() if one.shape.cap is not None]
    mechanisms += [buckets, wide, alone]
    found = []
    for mechanism in mechanisms:
        histogrammed = isinstance(mechanism, HistogramMechanism)
        noise = mechanism.oracle.share.times(mechanism.size) if histogrammed else mechanism.share
        form = mechanism.shape
        above = {"above": float(noise.tail(form.cap)), "above_one_less": float(noise.tail(form.cap - 1))}
        limits = {"cap": form.cap, "slots": form.slots, "front": form.front}
        if form.front:
            whole = noise.times(mechanism.front_shares)
            above |= {"front_above": float(whole.tail(form.front))}
            above |= {"front_above_one_less": float(whole.tail(form.front - 1))}
        found.append({"mechanism": mechanism.to_json()} | limits | above)
    return found


NEGLIGIBLE = 1e-20
"""What several batches show together is added up without single probabilities below this."""


def pairs(mechanism: Mechanism) -> np.ndarray:
    """Probabilities of everything that the view can show, under a value and under one that is larger by all of it."""

    def moved(pmf: np.ndarray, shift: int) -> np.ndarray:
        return np.stack((np.pad(pmf, (0, shift)), np.pad(pmf, (shift, 0))), axis=1)

    if isinstance(mechanism, HistogramMechanism):
        one = moved(mechanism.oracle.share.times(mechanism.honest).window().pmf, 1)
        both = one[:, None, :] * one[None, :, ::-1]
        return both.reshape(-1, 2)
    guard = mechanism.guard
    if not isinstance(guard, SparseBits):
        return moved(guard.window().pmf, mechanism.precision)
    sent = guard.sent()
    start, weights = (guard.slots, [1.0]) if sent is None else (sent.window().start, sent.window().pmf)
    rows = fair_rows(start, start + len(weights), 1e-40)
    return np.concatenate([w * moved(row, mechanism.precision) for w, (_, row) in zip(weights, rows, strict=True)])


def noise_delta(mechanisms: tuple[Mechanism, ...], epsilon: float) -> float:
    """δ of the noise alone, by adding over everything that all views together can show: all rise, or all fall."""
    found = pairs(mechanisms[0])
    for mechanism in mechanisms[1:]:
        found, further = (one[one.max(axis=1) > NEGLIGIBLE] for one in (found, pairs(mechanism)))
        found = (found[:, None, :] * further[None, :, :]).reshape(-1, 2)
    ratio = math.exp(epsilon)
    return max(float(np.maximum(p - ratio * q, 0.0).sum()) for p, q in (found.T, found.T[::-1]))


def deltas() -> list[dict[str, Any]]:
    """What turns cost: δ of the noise, the distance of carriers and limits, and the δ that the reference reports."""
    laplace, counted = MECHANISMS["shuffled-laplace"][0], MECHANISMS["counted-messages"][0]
    published = counted_messages(epsilon=0.9, delta=1e-6, constants="published", **OURS).plan(users=400)
    bits = shuffled_bits(epsilon=0.9, delta=1e-6, constants="published", **OURS).plan(users=400)
    uneven = replace(bits, share=Binomial(1, 0.25))
    turns = [((one,), one.guarantee.epsilon) for one, _, _ in (MECHANISMS | DRAWN).values() if one != bits]
    turns += [((uneven,), 0.9), ((published,), 0.9), ((laplace,), 0.5), ((counted,), 0.5)]
    turns += [(levels(), 1.0), ((counted, counted), 2.0), ((laplace, laplace), 1.5), ((laplace, laplace), 2.0)]
    published_levels = counter(3000, 3, epsilon=1.0, delta=1e-6, over="shuffled-laplace", constants="published", **OURS)
    turns.append((published_levels.mechanisms, 1.0))
    found = []
    for mechanisms, epsilon in turns:
        offer = Offer(
            "colours", bytes(32), 0, None, tuple(Batch.of(i, bytes(32), one) for i, one in enumerate(mechanisms))
        )
        # One number is compared exactly; a histogram's two counts and several batches are composed on a grid.
        exact = offer.loss.single is not None or offer.loss.ideal.delta(epsilon) == 0.0
        found.append(
            {
                "mechanisms": [one.to_json() for one in mechanisms],
                "epsilon": epsilon,
                "noise": offer.loss.ideal.delta(epsilon) if exact else noise_delta(mechanisms, epsilon),
                "distance": float(offer.loss.distance),
                "delta": offer.delta(epsilon),
            }
        )
    return found


def encodings() -> list[dict[str, Any]]:
    """Values and the two whole numbers they may become, the larger with this chance; None where they are refused."""
    kinds = {
        "fine": (Values(-1, 3), 26),
        "coarse": (Values(0.0, 5.0, clip=True), 3),
        "binary": (Values(0.0, 1.0, binary=True), 1),
        "clipped": (Values(0.0, 1.0, binary=True, clip=True), 1),
    }
    found = []
    for kind, value in [
        *itertools.product(["fine"], [-1, 0.3, 1.0, 2.9999, 3, 3.0001, -1.5]),
        *itertools.product(["coarse"], [-2.0, 0.1, 2.5, 5.0, 7.0]),
        *itertools.product(["binary", "clipped"], [0.0, 1.0, 0.5, 1.5]),
    ]:
        values, precision = kinds[kind]
        body: dict[str, Any] = {"low": values.low, "high": values.high, "binary": values.binary, "clip": values.clip}
        try:
            scaled = float(values.unit(value)) * precision
            down = math.floor(scaled)
            encoded: Any = {"down": down, "up": math.ceil(scaled), "chance": scaled - down}
        except ValueError:
            encoded = None
        found.append({"values": body, "precision": precision, "value": value, "encoded": encoded})
    return found


def honest_users() -> list[list[float]]:
    """[honest_fraction, users, the most honest users that a mechanism may count on]."""
    cases = [(0.55, 100), (0.9, 60), (0.9, 64), (0.07, 100), (1.0, 32), (0.5, 33), (0.001, 50)]
    protocol = shuffled_bits(epsilon=1.0)
    return [[share, users, replace(protocol, honest_fraction=share).honest(users)] for share, users in cases]


def pieces() -> list[dict[str, int]]:
    """The fewest pieces that split-and-mix may have."""
    cases = [(19, 2483, 40), (40, 2483, 40), (40, 109, 20), (1000, 10**6, 40), (900, 2**62, 128), (10**6, 3, 1)]
    fewest = [SplitAndMix.for_batch(modulus, 0, honest, security).pieces for honest, modulus, security in cases]
    names = ("honest", "modulus", "security", "pieces")
    return [dict(zip(names, (*case, few), strict=True)) for case, few in zip(cases, fewest, strict=True)]


def ledger() -> list[dict[str, Any]]:
    """Turns on devices with the default limits, and what each is charged; None where the ledger refuses it."""
    day = 86_400
    histories: list[list[tuple[int, str, int, float, float, list[int]]]] = [
        [(i, "colours", day, 1.0, 1e-6, [i]) for i in range(5)] + [(day, "colours", day, 1.0, 1e-6, [5])],
        # Every window: half of the budget comes back when the first turn is a period old, and not all at once.
        [(i * day // 2, "colours", day, 2.0, 1e-6, [i]) for i in range(4)]
        + [(2 * day - 1, "colours", day, 2.0, 1e-6, [9])],
        [
            (0, "colours", 2 * day, 2.0, 1e-6, [1]),
            (day, "sounds", 60, 2.0, 1e-6, [1]),
            (day + 1, "sounds", 60, 2.0, 1e-6, [2]),
            (2 * day, "sounds", 60, 2.0, 1e-6, [2]),
        ],
        # A longer period that is joined later counts what was spent before.
        [(i * day, "colours", day, 4.0, 1e-6, [i]) for i in range(4)]
        + [(5 * day, "sounds", 3 * day, 1.0, 1e-6, [1]), (6 * day, "sounds", 3 * day, 1.0, 1e-6, [2])],
        # Turns that share a batch.
        [
            (0, "colours", day, 0.5, 1e-6, [1, 2]),
            (1, "colours", day, 0.5, 1e-6, [2, 3]),
            (2, "colours", day, 0.5, 1e-6, [4]),
            (day, "colours", day, 0.5, 1e-6, [3]),
        ],
        [
            (0, "a", day, 0.5, 1e-6, [1]),
            (1, "a", day, 0.5, 1e-6, [2]),
            (2, "a", day, 0.5, 1e-6, [1, 2]),
            (3, "a", day, 0.5, 9.5e-5, [3]),
        ],
        [(0, "a", day, 2.0, 1e-5, [1]), (1, "a", day, 2.0, 1e-5, [1]), (2, "b", day, 2.0, 1e-5, [1])],
        # A clock that was ahead, and then one that was behind for a while.
        [
            (9 * day, "a", day, 3.0, 0.0, [1]),
            (0, "a", day, 2.0, 0.0, [2]),
            (day - 1, "a", day, 2.0, 0.0, [2]),
            (day, "a", day, 2.0, 0.0, [2]),
            (9 * day + 1, "a", day, 2.0, 0.0, [3]),
        ],
    ]
    found = []
    for turns in histories:
        clock = [0.0]
        account = Account(None, Limits(), lambda clock=clock: clock[0])
        found.append({"turns": [_turn(account, clock, one) for one in turns]})
    return found


def _turn(account: Account, clock: list[float], turn: tuple[int, str, int, float, float, list[int]]) -> dict[str, Any]:
    """One turn: its experiment is joined, with its period, and then charged."""
    at, experiment, period, epsilon, delta, numbers = turn
    clock[0] = float(at)
    account.period = max(account.period, period)
    batches = {number: hashlib.sha256(f"{experiment} {number}".encode()).digest() for number in numbers}
    try:
        account.charge(epsilon, delta, Taken(str(len(account.turns)), experiment, 0.0, 0.0, ""), batches)
        charge = account.ledger.charges[-1]
        charged = [charge.cost, charge.delta]
    except BudgetExceeded:
        charged = None
    names = ("at", "experiment", "period", "epsilon", "delta", "batches", "charged")
    return dict(zip(names, (at, experiment, period, epsilon, delta, numbers, charged), strict=True))
