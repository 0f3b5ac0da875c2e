"""The front's own noise has the law that is claimed, and hides a user as the honest users' noise does.

Laws are recomputed from the definitions (`view_laws`), never with the code that they check. Samples come from words of
a seeded generator through the exact samplers; each comparison has a false-alarm rate of 1e-12, and there are fewer than
a hundred of them.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, exp, fsum, log2
from types import SimpleNamespace

import numpy as np
import pytest
from flint import fmpz_poly
from scipy import stats

from cases.service.view_laws import (
    Mix,
    counts,
    delta,
    difference,
    distance,
    front_law,
    mixing_bound,
    residues_of,
    user_law,
    zeros_tell,
)
from croupier.noise import Poisson, Polya, SparseBits
from croupier.privacy import Guarantee
from croupier.protocols import HistogramMechanism, histogram, protocol
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.padding import REAL
from croupier.protocols.sums.carriers import CountedMessages, ShuffledBits, SplitAndMix

ALARM = 1e-12
DRAWS, MANY = 500, 1200


class Seeded:
    """Repeatable words for the exact samplers: a `SeededSource` would be simulated by NumPy instead."""

    def __init__(self, seed=1):
        self.generator = np.random.default_rng(seed)

    def words(self, count):
        return self.generator.integers(0, 2**64, size=count, dtype=np.uint64)


class Script:
    """Exactly these residues modulo m, as words."""

    def __init__(self, modulus, residues):
        self.modulus, self.left = modulus, list(residues)

    def words(self, count):
        drawn, self.left = self.left[:count], self.left[count:]
        return np.array([self.modulus + one for one in drawn], dtype=np.uint64)


class Fixed:
    """Noise that is a known number."""

    def __init__(self, total):
        self.total = total

    def times(self, parties):
        return self

    def sample(self, size, source):
        return np.full(size, self.total, dtype=np.int64)


def sums(name, users=3, honest_fraction=0.7, **options):
    return protocol(name, front_noise=True, honest_fraction=honest_fraction, **options).plan(users)


def items(size, share=None, side="over", users=3, delta=1e-2):
    """A histogram, of a share of our own choice where one is given."""
    names = [str(item) for item in range(size)]
    found = histogram(epsilon=1.0, delta=delta, universe=names, side=side, front_noise=True, honest_fraction=0.7)
    found = found.plan(users)
    return found if share is None else replace(found, oracle=replace(found.oracle, share=share))


SMALL = {
    "bits": lambda: sums("shuffled-bits", 4, epsilon=1.0, delta=1e-2),
    "bits-published": lambda: sums("shuffled-bits", 3, epsilon=0.9, delta=0.1, constants="published"),
    "levels": lambda: sums("shuffled-levels", 4, epsilon=1.0, delta=1e-2, precision=3),
    "counted-over": lambda: sums("counted-messages", epsilon=1.0, delta=1e-2),
    "counted-under": lambda: sums("counted-messages", 4, epsilon=1.0, delta=1e-2, side="under"),
    "counted-polya": lambda: replace(sums("counted-messages", 4, epsilon=1.0, delta=0.1), share=Polya(1, 0.5)),
    "items-over": lambda: items(2),
    "items-under": lambda: items(3, side="under", delta=0.1),
    "items-polya": lambda: items(2, Polya(Fraction(1, 3), 0.6), delta=0.1),
}
"""Small mechanisms of every kind that is counted by messages."""


def tally(mechanism, sent):
    """How many messages of each kind are among slots."""
    found = Counter(slot[1:] for slot in sent if slot[:1] == REAL)
    if isinstance(mechanism, HistogramMechanism):
        return tuple(found[bytes([item])] for item in range(mechanism.size))
    if zeros_tell(mechanism):
        return found[b"\0"], found[b"\1"]
    return (found[b"\1"],)


def misfit(law, seen):
    """The p-value of seen counts against a law: cells by rising probability, pooled until each is expected often."""
    if any(any(at >= size for at, size in zip(one, law.shape, strict=True)) for one in seen):
        return 0.0
    found = np.zeros(law.shape)
    for one, times in Counter(seen).items():
        found[one] = times
    order = np.argsort(law, axis=None, kind="stable")
    expected, found = len(seen) * law.ravel()[order], found.ravel()[order]
    if found[expected == 0.0].any():
        return 0.0
    pools = (np.cumsum(expected) / 30.0).astype(int)
    expected, found = np.bincount(pools, expected), np.bincount(pools, found)
    kept = expected > 15.0
    # What is left over is pooled too, so that nothing is unseen.
    expected, found = (np.append(one[kept], one[~kept].sum()) for one in (expected, found))
    if expected[-1] < 15.0:
        expected, found = (np.append(one[:-2], one[-2:].sum()) for one in (expected, found))
    return float(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1))


def check_front_law(mechanism, draws=DRAWS):
    """What the front sends has the law that is claimed."""
    source, form = Seeded(), mechanism.shape
    sent = [mechanism.front_slots(source) for _ in range(draws)]
    assert {len(one) for one in sent} == {form.front}
    assert misfit(front_law(mechanism), [tally(mechanism, one) for one in sent]) > ALARM


def check_user_law(mechanism, value, draws=DRAWS):
    """What a device sends has the law that is claimed: its value, and noise whose limit does not depend on it."""
    source, form = Seeded(2), mechanism.shape
    told = str(value) if isinstance(mechanism, HistogramMechanism) else value / mechanism.precision
    sent = [mechanism.slots(told, source) for _ in range(draws)]
    assert {len(one) for one in sent} == {form.slots}
    assert misfit(user_law(mechanism, value), [tally(mechanism, one) for one in sent]) > ALARM


few_or_many = pytest.mark.parametrize("draws", [DRAWS, pytest.param(MANY, marks=pytest.mark.evidence)])


@pytest.mark.parametrize("kind", SMALL)
@few_or_many
def test_what_the_front_sends_has_the_law_of_the_noise_of_those_who_are_counted_on(kind, draws):
    check_front_law(SMALL[kind](), draws)


@pytest.mark.parametrize("kind", SMALL)
@few_or_many
def test_what_a_device_sends_has_the_law_of_its_value_and_one_share(kind, draws):
    mechanism = SMALL[kind]()
    for value in (0, 1):
        check_user_law(mechanism, value, draws)


def tight_limits(kind):
    """The same with a claim so large that limits on the noise are reached all the time."""
    mechanism = SMALL[kind]()
    return replace(mechanism, guarantee=Guarantee("approximate", mechanism.guarantee.epsilon, 0.999))


LIMITED = [kind for kind in SMALL if kind.startswith(("counted", "items"))]


@pytest.fixture
def deep_limits(monkeypatch):
    """Limits that cost all of a δ near one: they cut deep into the noise."""
    monkeypatch.setattr("croupier.protocols.padding.CAP_SHARE", 1.0)


@pytest.mark.parametrize("kind", LIMITED)
@few_or_many
def test_limits_that_cut_deep_leave_the_law_of_the_noise_below_them(kind, draws, deep_limits):
    mechanism = tight_limits(kind)
    check_front_law(mechanism, draws)
    for value in (0, 1):
        check_user_law(mechanism, value, draws)


def test_a_limit_on_all_messages_instead_of_the_noise_is_noticed(monkeypatch, deep_limits):
    mechanism = tight_limits("counted-over")
    assert mechanism.shape.cap is not None
    monkeypatch.setattr(CountedMessages, "fits", lambda self, plan, report, value: report[1] <= plan.shape.cap)
    with pytest.raises(AssertionError):
        check_user_law(mechanism, 1, 4 * MANY)


class Half:
    """A plan whose front adds half of what it should."""

    def __init__(self, plan):
        self.plan, self.front_shares = plan, plan.front_shares // 2

    def __getattr__(self, name):
        return getattr(self.plan, name)


def half_of(front_report):
    return lambda self, plan, source: front_report(self, Half(plan), source)


@pytest.mark.parametrize("kind", SMALL)
def test_a_front_with_half_of_the_noise_is_noticed(kind, monkeypatch):
    for carrier in (ShuffledBits, CountedMessages):
        monkeypatch.setattr(carrier, "front_report", half_of(carrier.front_report))
    labels = LabelledMessages.front_labels
    monkeypatch.setattr(
        LabelledMessages,
        "front_labels",
        lambda self, source: labels(replace(self, counted_on=1, front_shares=1), source),
    )
    with pytest.raises(AssertionError):
        check_front_law(SMALL[kind]())


# Split-and-mix


def pieces_of(carrier, draw, scripts, parties):
    """The exact law of how often each residue but 0 is among the pieces, over all scripts of random words."""
    found = np.zeros([carrier.pieces * parties + 1] * (carrier.modulus - 1))
    scripts = list(scripts)
    for script in scripts:
        pieces = np.asarray(draw(Script(carrier.modulus, script))).ravel()
        found[tuple(int((pieces == residue).sum()) for residue in range(1, carrier.modulus))] += 1 / len(scripts)
    return found


def bare(share, front_shares=0):
    """As much of a plan as pieces need."""
    return SimpleNamespace(share=share, front_shares=front_shares, noise_from="batch", coordinates=0, value_shape=())


def check_front_pieces(modulus, pieces, shares):
    """The front's pieces have exactly the law of parties the first of whom holds all of the noise."""
    carrier = SplitAndMix(modulus, 0, pieces, 1)
    for total in range(-1, modulus):
        scripts = product(range(modulus), repeat=shares * (pieces - 1))
        plan = bare(Fixed(total), shares)
        found = pieces_of(carrier, lambda s, plan=plan: carrier.front_report(plan, s), scripts, shares)
        assert distance(found, Mix(modulus, pieces, shares).known([total % modulus, *[0] * (shares - 1)])) < 1e-12


@pytest.mark.parametrize(("modulus", "pieces", "shares"), [(2, 3, 4), (2, 5, 2), (3, 3, 3), (4, 3, 2), (4, 4, 1)])
def test_pieces_have_exactly_the_law_of_uniform_ones_that_add_up(modulus, pieces, shares):
    check_front_pieces(modulus, pieces, shares)
    carrier = SplitAndMix(modulus, 0, pieces, 1)
    for value in range(modulus):
        scripts = product(range(modulus), repeat=pieces - 1)
        encoded = np.array(value)
        found = pieces_of(carrier, lambda s, e=encoded: carrier.report(bare(Fixed(1)), e, s), scripts, 1)
        assert distance(found, Mix(modulus, pieces, 1).known([(value + 1) % modulus])) < 1e-12


def one_party_only(self, plan, source):
    residue = plan.share.times(plan.front_shares).sample((), source) % self.modulus
    return self._split(residue[None], source, 0).reshape(-1)


def test_a_front_whose_pieces_are_those_of_one_party_is_noticed(monkeypatch):
    monkeypatch.setattr(SplitAndMix, "front_report", one_party_only)
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check_front_pieces(2, 3, 4)
    with pytest.raises(AssertionError):
        check_laplace_front(sums("shuffled-laplace", 24, epsilon=1.0, delta=1e-2, binary=True, honest_fraction=0.8))


def least_pieces(modulus, parties, security):
    return SplitAndMix.for_batch(modulus, 0, parties, security).pieces


def laws_of_two_residues(parties, pieces):
    """Over Z_2 in exact integers: how many ones there are, for each number of parties whose residue is 1."""
    plus = fmpz_poly([comb(pieces, k) for k in range(pieces + 1)])
    minus = fmpz_poly([(-1) ** k * comb(pieces, k) for k in range(pieces + 1)])
    size = parties * pieces + 1
    laws = []
    for ones in range(parties + 1):
        law = [int(k) for k in ((plus + minus) ** (parties - ones) * (plus - minus) ** ones)]
        laws.append(law + [0] * (size - len(law)))
    assert {sum(law) for law in laws} == {2 ** (parties * pieces)}
    return laws


def exact_pair_distances(parties, pieces):
    laws = laws_of_two_residues(parties, pieces)

    def between(one, other):
        whole = sum(abs(a - b) for a, b in zip(laws[one], laws[other], strict=True))
        return Fraction(whole, 2 ** (parties * pieces + 1))

    return between


@pytest.mark.parametrize(
    ("parties", "security"), [(19, 1), (19, 5), (19, 10), (19, 40), (20, 8), (27, 20), (40, 1), (40, 40)]
)
def test_over_two_residues_any_two_batches_of_one_sum_are_within_the_bound(parties, security):
    pieces = least_pieces(2, parties, security)
    between = exact_pair_distances(parties, pieces)
    worst = max(between(one, other) for one in range(parties + 1) for other in range(one % 2, one, 2))
    assert 0 < worst <= Fraction(1, 2**security)
    # The user whom the front's noise hides: two residues of one sum, among parties who hold nothing.
    assert between(0, 2) < worst
    # One party less is one bound less, and worse.
    assert exact_pair_distances(parties - 1, pieces)(0, 2) > between(0, 2)


def extremes(modulus, parties):
    """Batches of sum 0 that are as different as can be, and the front's: a residue and its opposite."""
    yield [0] * parties
    yield [1, modulus - 1] + [0] * (parties - 2)
    for residue in range(1, modulus):
        times = next(k for k in range(parties, 0, -1) if k * residue % modulus == 0)
        yield [residue] * times + [0] * (parties - times)
        half = next(k for k in range(parties // 2, 0, -1) if k * residue % modulus == 0)
        yield [residue] * half + [0] * (parties - half)


@pytest.mark.parametrize(
    ("modulus", "parties", "security"),
    [
        *((3, 19, 1), (3, 19, 5), (3, 30, 5), (4, 19, 1)),
        *(pytest.param(4, *case, marks=pytest.mark.slow) for case in ((19, 3), (22, 2))),
    ],
)
def test_over_more_residues_the_most_different_batches_of_one_sum_are_within_the_bound(modulus, parties, security):
    mix = Mix(modulus, least_pieces(modulus, parties, security), parties)
    laws = [mix.known(one) for one in extremes(modulus, parties)]
    assert all(abs(law.sum() - 1.0) < 1e-10 for law in laws)
    worst = max(distance(laws[i], laws[j]) for i in range(len(laws)) for j in range(i))
    # The transform errs by less than 1e-11 in all.
    assert 1e-11 < worst <= 2.0**-security
    assert distance(laws[0], laws[1]) <= worst


def test_random_batches_of_one_sum_are_within_the_bound_with_a_piece_less():
    """Why the bound holds for any batch: one piece of each party makes residues random, and this is left to the others.

    The mean distance of a random batch from the mixture of all of its sum is what [CZ23]'s collisions bound.
    """
    for parties, security in ((19, 1), (19, 10), (40, 20)):
        pieces = least_pieces(2, parties, security) - 1
        laws = laws_of_two_residues(parties, pieces)
        for parity in (0, 1):
            batches = {ones: comb(parties, ones) for ones in range(parity, parties + 1, 2)}
            size = sum(batches.values())
            mixture = [sum(times * laws[ones][at] for ones, times in batches.items()) for at in range(len(laws[0]))]
            gaps = sum(
                times * sum(abs(size * a - b) for a, b in zip(laws[ones], mixture, strict=True))
                for ones, times in batches.items()
            )
            assert Fraction(gaps, 2 * size**2 * 2 ** (parties * pieces)) <= Fraction(1, 2**security)


def laplace_residues(modulus, epsilon, shares=1.0):
    """Discrete Laplace noise with P(x) in proportion to e^(-ε|x|), modulo m."""
    reach = int(60 / epsilon)
    law = np.array([exp(-epsilon * abs(x)) for x in range(-reach, reach + 1)])
    return residues_of(law / law.sum(), -reach, modulus)


@pytest.mark.parametrize(("modulus", "parties", "pieces"), [(2, 19, 4), (2, 24, 6), (3, 19, 4), (3, 19, 6), (4, 19, 4)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_user_among_fakes_is_hidden_by_the_pieces_of_the_front(modulus, parties, pieces, epsilon):
    """The whole view, all pieces: within (ε, (1 + e^ε)·2^-κ) for noise of ε alone and κ by the number of pieces."""
    silent, noise = np.eye(modulus)[0], laplace_residues(modulus, epsilon)
    mix = Mix(modulus, pieces, parties + 1)
    views = [mix.law([np.eye(modulus)[x], noise, *[silent] * (parties - 1)]) for x in (0, 1)]
    claim = (1.0 + exp(epsilon)) * mixing_bound(modulus, pieces, parties)
    found = delta(views, epsilon)
    assert found <= claim
    alone = Mix(modulus, pieces, 2)
    exposed = delta([alone.law([np.eye(modulus)[x], noise]) for x in (0, 1)], epsilon)
    assert exposed > 10 * found, "the other parties' pieces matter"


def check_laplace_front(mechanism, draws=MANY):
    """As many pieces as all parties send, and a sum that is the noise of those who are counted on."""
    carrier, source = mechanism.carrier, Seeded(3)
    assert mechanism.front_shares == mechanism.honest >= SplitAndMix.least_users
    sent = [mechanism.front_slots(source) for _ in range(draws)]
    assert {len(one) for one in sent} == {mechanism.honest * carrier.pieces}
    pieces = np.array([[int.from_bytes(slot[1:], "big") for slot in one] for one in sent])
    reach = carrier.modulus // 2
    law = residues_of(difference(mechanism.share, mechanism.honest, reach), -reach, carrier.modulus)
    assert misfit(law, [(int(one),) for one in pieces.sum(axis=1) % carrier.modulus]) > ALARM
    # No piece is special: all are uniform.
    uniform = np.full(carrier.modulus, 1.0 / carrier.modulus)
    assert misfit(uniform, [(int(one),) for one in pieces[:, :: carrier.pieces].ravel()]) > ALARM
    assert misfit(uniform, [(int(one),) for one in pieces[:, carrier.pieces - 1 :: carrier.pieces].ravel()]) > ALARM


def test_the_front_of_a_laplace_sum_sends_pieces_of_as_many_parties_with_all_of_their_noise():
    mechanism = sums("shuffled-laplace", 24, epsilon=1.0, delta=1e-2, binary=True, honest_fraction=0.8)
    check_laplace_front(mechanism, 400)
    carrier = mechanism.carrier
    assert mixing_bound(carrier.modulus, carrier.pieces, mechanism.honest) <= 2.0**-carrier.security
    assert float(mechanism.loss.distance) == 2.0**-carrier.security


def test_a_front_of_a_laplace_sum_with_half_of_the_noise_is_noticed(monkeypatch):
    def half(self, plan, source):
        residue = np.zeros(plan.front_shares, dtype=np.int64)
        residue[0] = plan.share.times(plan.front_shares // 2).sample((), source) % self.modulus
        return self._split(residue, source, 0).reshape(-1)

    monkeypatch.setattr(SplitAndMix, "front_report", half)
    with pytest.raises(AssertionError):
        check_laplace_front(sums("shuffled-laplace", 24, epsilon=1.0, delta=1e-2, binary=True, honest_fraction=0.8))


# What an honest batch can decode to


WIDE = {
    "laplace": lambda: sums("shuffled-laplace", 40, 0.6, epsilon=1.0, binary=True),
    "laplace-published": lambda: sums("shuffled-laplace", 40, 0.6, epsilon=1.0, binary=True, constants="published"),
    "bits": lambda: sums("shuffled-bits", 40, 0.6, epsilon=1.0),
    "bits-published": lambda: sums("shuffled-bits", 10, 0.6, epsilon=0.9, constants="published"),
    "levels": lambda: sums("shuffled-levels", 25, 0.6, epsilon=1.0, precision=3),
    "levels-few": lambda: sums("shuffled-levels", 3, 0.3, epsilon=3.0, delta=1e-2, precision=1),
    "counted": lambda: sums("counted-messages", 40, 0.6, epsilon=1.0),
    "counted-under": lambda: sums("counted-messages", 40, 0.6, epsilon=1.0, side="under"),
}


def noise_of(mechanism, parties):
    """The law of the decoded number's noise when so many parties add theirs, and where it starts."""
    share = mechanism.share
    if isinstance(share, Poisson | Polya):
        return counts(share, parties, int(share.times(parties).mean + 60 * share.times(parties).std) + 60), 0
    if isinstance(share, SparseBits):
        total, rate = share.slots * parties, float(share.rate)
        found, step = np.ones(1), np.array([rate / 2, 1.0 - rate, rate / 2])
        for _ in range(total):
            found = np.convolve(found, step)
        return found, -total
    if hasattr(share, "trials"):
        return counts(share, parties, share.trials * parties), 0
    reach = 200 * (1 + round(float(share.scale)))
    return difference(share, parties, reach), -reach


def outside(mechanism, parties, low, high):
    """The chance that noise of so many parties takes some values' sum out of [low, high]: exact tails, both added."""
    law, start = noise_of(mechanism, parties)
    weight = mechanism.weight
    most = high - weight * mechanism.users * mechanism.precision
    return fsum(law[: max(0, low - start)]) + fsum(law[max(0, most - start + 1) :])


@pytest.mark.parametrize("kind", WIDE)
def test_an_honest_batch_is_hardly_ever_taken_for_a_spoilt_one(kind):
    """Whoever of the users not counted on leaves his noise out, and with the front's noise in."""
    mechanism = WIDE[kind]()
    low, high = mechanism.possible
    for adding in {mechanism.honest, mechanism.honest + 1, (mechanism.honest + mechanism.users) // 2, mechanism.users}:
        assert outside(mechanism, adding + mechanism.front_shares, low, high) <= 2.0**-40
    law, _ = noise_of(mechanism, mechanism.users + mechanism.front_shares)
    assert fsum(law) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("side", ["over", "under"])
@pytest.mark.parametrize("share", [None, Polya(Fraction(1, 5), 0.8)])
def test_honest_counts_are_hardly_ever_taken_for_spoilt_ones(side, share):
    mechanism = items(4, share, side, users=10, delta=1e-4)
    ballot = mechanism.oracle
    low, high = mechanism.possible
    # As messages: noise is at least this, and at most that.
    least, most = (low, high - ballot.users) if side == "over" else (ballot.users - high, -low)
    for adding in range(ballot.counted_on, ballot.users + 1):
        law = counts(ballot.share, adding + ballot.front_shares, 4000)
        tails = fsum(law[: max(0, least)]) + fsum(law[most + 1 :])
        assert tails * ballot.size <= 2.0**-40
    assert log2(tails * ballot.size) > -60


def test_the_range_of_an_honest_batch_is_not_much_wider_than_it_must_be():
    for kind in ("bits", "levels", "counted"):
        mechanism = WIDE[kind]()
        low, high = mechanism.possible
        parties = mechanism.users + mechanism.front_shares
        step = max(1, (high - low) // 20)
        assert outside(mechanism, parties, low + step, high - step) > 2.0**-40
