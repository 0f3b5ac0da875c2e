"""The numbers that a client computes, by `docs/wire.md`'s own formulas: plain sums, fractions and SciPy's laws."""

import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from scipy import signal, stats

from cases import wire_vectors as making
from croupier.messages.offer import Batch, Offer
from croupier.noise.serial import noise_from_dict
from croupier.protocols import Values
from croupier.protocols.padding import CAP_SHARE
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.protocols.sums.values import encode

VECTORS = json.loads(making.PATH.read_text(encoding="utf-8"))


def number(text):
    return float(Fraction(text))


def table(share, parties):
    """The law of so many parties' noise, as its first value and probabilities; all that is left out is below 1e-25."""
    family = share["family"]
    if family == "Poisson":
        return _from_zero(stats.poisson(parties * number(share["rate"])))
    if family in ("Polya", "PolyaDifference"):
        r = parties * Fraction(share["r"])
        beta = number(share["beta"]) if "beta" in share else math.exp(-1.0 / number(share["scale"]))
        if family == "Polya":
            return _from_zero(stats.nbinom(float(r), 1.0 - beta), -1.0 / math.log(beta))
        if r == 1:
            reach = math.ceil(60.0 * number(share["scale"]))
            return -reach, (1.0 - beta) / (1.0 + beta) * beta ** np.abs(np.arange(-reach, reach + 1))
        _, one = _from_zero(stats.nbinom(float(r), 1.0 - beta), number(share["scale"]))
        return 1 - len(one), np.convolve(one, one[::-1])
    if family == "Binomial":
        trials = parties * share["trials"]
        return 0, stats.binom(trials, number(share["p"])).pmf(np.arange(trials + 1))
    slots = parties * share["slots"]
    law = np.zeros(2 * slots + 1)
    for sent, weight in enumerate(stats.binom(slots, number(share["rate"])).pmf(np.arange(slots + 1))):
        law[slots - sent : slots + sent + 1 : 2] += weight * stats.binom(sent, 0.5).pmf(np.arange(sent + 1))
    return -slots, law


def _from_zero(law, scale=1.0):
    """A law on 0, 1, 2, … whose tail falls by e every `scale` at least."""
    return 0, law.pmf(np.arange(math.ceil(law.mean() + 14.0 * law.std() + 60.0 * scale)))


@pytest.mark.parametrize("vector", VECTORS["laws"], ids=lambda v: f"{v['share']['family']} of {v['parties']}")
def test_laws_are_those_of_the_formulas(vector):
    start, law = table(vector["share"], vector["parties"])
    total = noise_from_dict(vector["share"]).times(vector["parties"])
    for x, mass, tail in zip(vector["x"], vector["pmf"], vector["tail"], strict=True):
        assert law[x - start] == pytest.approx(mass, rel=1e-9)
        assert law[x - start + 1 :].sum() == pytest.approx(tail, rel=1e-9)
        assert (total.pmf(x), total.tail(x)) == pytest.approx((mass, tail), rel=1e-13)


@pytest.mark.parametrize("vector", VECTORS["caps"], ids=lambda v: f"cap {v['cap']}")
def test_the_limit_on_the_noise_is_the_least_that_costs_a_hundredth_of_delta(vector):
    body = json.loads(vector["mechanism"])
    ballot = body.get("ballot")
    inner = ballot or body
    share, size, users, front_shares = inner["share"], 1, inner["users"], inner.get("front_shares", 0)
    if ballot:
        size = ballot["size"]
    claim = body["guarantee"]
    # The users, and the front where it adds noise of its own, may each exceed their limit equally often.
    allowed = 0.01 * claim["delta"] / ((1.0 + math.exp(claim["epsilon"])) * (users + (front_shares > 0)))
    cap, above = least_cap(share, size, allowed)
    assert cap == vector["cap"]
    front_above = 0.0
    if front_shares:
        front, front_tail = least_cap(share, size * front_shares, allowed)
        front_above = vector["front_above"]
        assert front == vector["front"]
        tails = (vector["front_above"], vector["front_above_one_less"])
        assert (front_tail[front + 1], front_tail[front]) == pytest.approx(tails, rel=1e-8)
    else:
        assert vector["front"] == 0
    assert (above[cap + 1], above[cap]) == pytest.approx((vector["above"], vector["above_one_less"]), rel=1e-9)
    own = 1 if not ballot or ballot["side"] == "over" else ballot["size"] - 1
    form = Batch(0, bytes(32), vector["mechanism"]).shape
    assert (form.slots, form.cap, CAP_SHARE) == (vector["slots"], vector["cap"], 0.01) == (own + cap, cap, 0.01)
    assert form.distance == pytest.approx(users * vector["above"] + front_above, rel=1e-8)


def least_cap(share, parties, allowed):
    """The least count that so many parties' noise exceeds no oftener than this, and P(Z >= x) for every x."""
    _, law = table(share, parties)
    above = np.cumsum(law[::-1])[::-1]
    return max(1, int(np.argmax(np.append(above[1:], 0.0) <= allowed))), above


def pairs(body):
    """Probabilities of all that a view can show: under a value, and under one that is larger by the whole range."""
    ballot = body.get("ballot")
    if ballot:
        one = _moved(table(ballot["share"], ballot["counted_on"])[1], 1)
        return (one[:, None, :] * one[None, :, ::-1]).reshape(-1, 2)
    share, honest, precision = body["share"], body["honest"], body["precision"]
    if share["family"] != "SparseBits":
        return _moved(table(share, honest)[1], precision)
    slots = honest * share["slots"]
    weights = stats.binom(slots, number(share["rate"])).pmf(np.arange(slots + 1))
    sent = [m for m in range(slots + 1) if weights[m] > 1e-25]
    return np.concatenate([weights[m] * _moved(stats.binom(m, 0.5).pmf(np.arange(m + 1)), precision) for m in sent])


def _moved(law, shift):
    return np.stack((np.pad(law, (0, shift)), np.pad(law, (shift, 0))), axis=1)


def together(batches):
    """Everything that several views can show, with its two probabilities."""
    held = [one[one.max(axis=1) > 1e-20] for one in batches]
    return reduce(lambda a, b: (a[:, None, :] * b[None, :, :]).reshape(-1, 2), held)


def hockey_stick(found, epsilon):
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in (found.T, found.T[::-1]))


def is_pure(bodies, epsilon):
    """Laplace noise of the honest users that is ε-DP without any δ."""
    return all(one.get("share", {}).get("family") == "PolyaDifference" for one in bodies) and (
        all(one["honest"] * Fraction(one["share"]["r"]) >= 1 for one in bodies)
        and sum(one["precision"] / Fraction(one["share"]["scale"]) for one in bodies) <= epsilon
    )


def distance_of(body):
    if body.get("carrier", {}).get("kind") == "split-and-mix":
        return 2.0 ** -body["carrier"]["security"]
    form = Batch(0, bytes(32), json.dumps(body)).shape
    if form.cap is None:
        return 0.0
    ballot = body.get("ballot")
    inner, size = (ballot, ballot["size"]) if ballot else (body, 1)
    _, law = table(inner["share"], size)
    _, whole = table(inner["share"], size * inner["front_shares"])
    return inner["users"] * float(law[form.cap + 1 :].sum()) + float(whole[form.front + 1 :].sum())


@pytest.mark.slow
@pytest.mark.parametrize("vector", VECTORS["deltas"], ids=lambda v: f"{len(v['mechanisms'])} at {v['epsilon']}")
def test_the_delta_of_a_turn_is_the_sum_over_all_that_its_views_can_show(vector):
    bodies, epsilon = [json.loads(text) for text in vector["mechanisms"]], vector["epsilon"]
    noise = 0.0 if is_pure(bodies, epsilon) else hockey_stick(together([pairs(body) for body in bodies]), epsilon)
    distance = math.fsum(distance_of(body) for body in bodies)
    assert noise == pytest.approx(vector["noise"], rel=1e-6)
    assert distance == pytest.approx(vector["distance"], rel=1e-8)
    offer = Offer(
        "x", bytes(32), 0, None, tuple(Batch(i, bytes(32), text) for i, text in enumerate(vector["mechanisms"]))
    )
    assert offer.delta(epsilon) == pytest.approx(vector["delta"], rel=1e-9)
    # What the reference reports is a bound, and no looser than the document says.
    assert vector["noise"] <= vector["delta"] * (1.0 + 1e-9)
    assert vector["delta"] <= (noise + (1.0 + math.exp(epsilon)) * distance) * (1.0 + 2e-4)


def test_the_reference_takes_the_delta_of_a_smaller_epsilon_where_that_is_less():
    """Published constants: counts are far noisier than need be, and Laplace noise is made for half of ε."""
    bodies = [[json.loads(text) for text in one["mechanisms"]] for one in VECTORS["deltas"]]
    counts, levels = (
        (found, one)
        for found, one in zip(bodies, VECTORS["deltas"], strict=True)
        if found[0]["constants"] == "published" and one["distance"]
    )
    shown = pairs(counts[0][0])
    smaller = np.linspace(0.0, counts[1]["epsilon"], 400)
    least = min(hockey_stick(shown, e) + (1.0 + math.exp(e)) * counts[1]["distance"] for e in smaller)
    assert least == pytest.approx(counts[1]["delta"], rel=1e-4)
    pure = float(sum(one["precision"] / Fraction(one["share"]["scale"]) for one in levels[0]))
    assert pure == pytest.approx(0.5 * levels[1]["epsilon"], rel=1e-9)
    assert (1.0 + math.exp(pure)) * levels[1]["distance"] == pytest.approx(levels[1]["delta"], rel=1e-6)
    for _, one in (counts, levels):
        assert one["delta"] < 0.8 * (1.0 + math.exp(one["epsilon"])) * one["distance"]


def on_a_grid(batches, epsilon, step):
    """δ of batches composed as the document says: each loss between two points of a grid, masses kept under both."""
    first, total, infinite = 0, np.ones(1), 0.0
    for found in batches:
        p, q = found[found[:, 0] > 0.0].T
        infinite += p[q == 0.0].sum()
        loss = np.log(p[q > 0.0] / q[q > 0.0])
        below = np.floor(loss / step).astype(int)
        up = p[q > 0.0] * np.expm1(-(loss - below * step)) / np.expm1(-step)
        law = np.zeros(below.max() - below.min() + 2)
        np.add.at(law, below - below.min(), p[q > 0.0] - up)
        np.add.at(law, below - below.min() + 1, up)
        first, total = first + below.min(), signal.fftconvolve(total, law)
    losses = step * (first + np.arange(len(total)))
    return infinite + float(np.dot(total, -np.expm1(np.minimum(epsilon - losses, 0.0))))


COMPOSED = [
    one
    for one in VECTORS["deltas"]
    if one["noise"] and ("ballot" in one["mechanisms"][0] or len(one["mechanisms"]) > 1)
]


@pytest.mark.parametrize("vector", COMPOSED, ids=lambda v: f"{len(v['mechanisms'])} at {v['epsilon']}")
def test_a_grid_of_half_the_references_step_gives_no_more_than_the_reference(vector):
    bodies, epsilon = [json.loads(text) for text in vector["mechanisms"]], vector["epsilon"]
    batches = [one[one.max(axis=1) > 1e-25] for one in map(pairs, bodies)]
    numbers = sum(2 if "ballot" in body else 1 for body in bodies)
    step = 0.5 * 0.004 / math.sqrt(numbers * math.log(1e10) / 2.0)
    found = max(on_a_grid([one[:, way] for one in batches], epsilon, step) for way in ([0, 1], [1, 0]))
    charged = found + (1.0 + math.exp(epsilon)) * vector["distance"]
    assert vector["noise"] * (1.0 - 1e-6) <= found
    assert charged <= vector["delta"] * (1.0 + 1e-8)


class Always:
    """A source of one word over and over: zeros round up whatever can be, ones round down."""

    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("vector", VECTORS["encodings"], ids=lambda v: f"{v['value']} at {v['precision']}")
def test_a_value_becomes_one_of_two_whole_numbers(vector):
    low, high = Fraction(vector["values"]["low"]), Fraction(vector["values"]["high"])
    value, values = Fraction(vector["value"]), Values(**vector["values"])
    if vector["values"]["clip"]:
        value = min(max(value, low), high)
    allowed = value in (low, high) if vector["values"]["binary"] else low <= value <= high
    assert allowed == (vector["encoded"] is not None)
    if not allowed:
        with pytest.raises(ValueError, match="is not allowed"):
            values.unit(vector["value"])
        return
    scaled = (value - low) / (high - low) * vector["precision"]
    down, up, chance = (vector["encoded"][key] for key in ("down", "up", "chance"))
    assert (math.floor(scaled), math.ceil(scaled)) == (down, up)
    assert float(scaled - down) == pytest.approx(chance, abs=1e-13)
    words = (2**64 - 1, 0)
    assert [int(encode(values.unit(vector["value"]), vector["precision"], Always(w))) for w in words] == [down, up]


def test_the_most_honest_users_are_those_of_the_decimal_fraction():
    for share, users, most in VECTORS["honest"]:
        assert most == max(1, math.ceil(Fraction(str(share)) * users)) == max(1, math.ceil(share * users - 1e-9))
    # Doubles alone would say otherwise, and so would their exact values.
    assert math.ceil(0.55 * 100) == 56
    assert math.ceil(Fraction(0.9) * 60) == 55


@pytest.mark.parametrize("vector", VECTORS["pieces"], ids=lambda v: f"{v['pieces']} for {v['honest']}")
def test_the_fewest_pieces_are_those_of_the_inequality(vector):
    with localcontext() as context:
        context.prec = 50
        room = Decimal(vector["honest"]).ln() - 1
        needed = 2 * vector["security"] * Decimal(2).ln() + Decimal(vector["modulus"]).ln()
        assert vector["pieces"] == max(3, math.ceil(needed / room) + 2)
    made = SplitAndMix.for_batch(vector["modulus"], 0, vector["honest"], vector["security"])
    assert made.pieces == vector["pieces"]
