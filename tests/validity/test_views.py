"""What one server sees of a report with a proof, the other's messages included, added up over the field of 17 numbers.

The server may be malicious and know everybody else's values: so of all that it sees, the victim's share, what the other
shows of the proof, and one noisy sum depend on the victim. Its own share is uniform whatever the value, for the other's
is a one-time pad; for some such shares everything else is summed exactly.
"""

import itertools
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from cases.folded import folded, largest_ratio
from cases.tiny_field import ARRAYS, OPS, columns, tiny, verifiers
from croupier.noise import DiscreteLaplace
from croupier.validity.circuits import Count, Histogram, Sum, SumVec
from croupier.validity.proofs import decide, prove, query, reveals

OTHERS = 5

CASES = {
    "count": (tiny(Count()), [0, 1], 1),
    "sum to 1": (tiny(Sum(1)), [0, 1], 1),
    "sum to 3": (tiny(Sum(3)), [0, 1, 2, 3], 3),
    "histogram": (tiny(Histogram(2, 1)), [0, 1], 1),
    "vector": (tiny(SumVec(2, 1, 1)), [[0, 0], [1, 0]], 1),
}
"""Each type with its values, and how far one value can be from another in a sum."""


def asked(circuit, draw):
    """A random point that may be asked, and what else the servers and the proof draw."""
    while True:
        randomness = [draw.randrange(17) for _ in range(circuit.query_length)]
        if not reveals(OPS, circuit, randomness):
            return randomness, [draw.randrange(17) for _ in range(circuit.joint_length)]


def shown_law(circuit, value, own, randomness, joint):
    """The law of what the other server shows, given one's own share of numbers and proof."""
    mine = ARRAYS.constant(query(OPS, circuit, *own, randomness, joint, 2))
    found = Counter(columns(ARRAYS.sub(verifiers(circuit, value, randomness, joint), mine)))
    return {shown: count / 17**circuit.arity for shown, count in found.items()}


def own_share(circuit, draw):
    return [[draw.randrange(17) for _ in range(length)] for length in (circuit.length, circuit.proof_length)]


def added(circuit, numbers):
    """What a share of numbers adds to the first of the sums."""
    return circuit.truncate(OPS, list(numbers))[0]


def joint_views(circuit, values, draw, noise, seen):
    """For each value the joint law of what is shown and of the noisy sum that `seen` says, for one own share."""
    randomness, joint = asked(circuit, draw)
    own = own_share(circuit, draw)
    views = []
    for value in values:
        law = shown_law(circuit, value, own, randomness, joint)
        view = defaultdict(float)
        total = seen(added(circuit, circuit.encode(value)), added(circuit, own[0])) + OTHERS
        for (shown, chance), (drawn, weight) in itertools.product(law.items(), enumerate(noise.tolist())):
            view[shown, (total + drawn) % 17] += chance * weight
        views.append(view)
    return views


def worst(views):
    """The largest log ratio between any two views."""
    keys = sorted(set().union(*views))
    laws = [np.array([view.get(key, 0.0) for key in keys]) for view in views]
    return max(largest_ratio(*pair) for pair in itertools.combinations(laws, 2))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("server", ["analyzer", "front"])
def test_a_servers_whole_view_is_as_private_as_one_noise_with_proofs_on(name, server):
    """The analyzer gets (s0, the front's verifier, Σs1 + N1), the front (s1, the analyzer's verifier, the total)."""
    circuit, values, grain = CASES[name]
    epsilon, draw = 1.0, random.Random(7)
    noise, left_out = folded(DiscreteLaplace(grain / epsilon), 17)
    seen = {"analyzer": lambda value, own: value - own, "front": lambda value, own: value}[server]
    for _ in range(3):
        views = joint_views(circuit, values, draw, noise, seen)
        assert math.isclose(sum(views[0].values()), 1.0, abs_tol=1e-9 + left_out)
        found = worst(views)
        assert found <= epsilon + 2.0 * left_out / noise.min()
        # The proof adds nothing: the sum alone, which is the noise's, is as telling.
        alone = [Counter() for _ in values]
        for view, law in zip(views, alone, strict=True):
            for (_, total), chance in view.items():
                law[total] += chance
        assert found == pytest.approx(worst(alone), abs=1e-9)


@pytest.mark.parametrize("name", ["count", "sum to 3", "histogram"])
def test_whatever_verifier_a_server_shows_the_answer_has_one_law_for_all_values(name):
    """A lie is a difference d to the true verifier; the report is accepted if the sum of both with it verifies."""
    circuit, values, _ = CASES[name]
    draw = random.Random(8)
    randomness, joint = asked(circuit, draw)
    whole = {value: verifiers(circuit, value, randomness, joint) for value in values}
    accepted_once = False
    for _ in range(50):
        lie = [0, *(draw.choice((0, draw.randrange(17))) for _ in range(circuit.verifier_length - 1))]
        lie[0] = draw.choice((0, 0, 0, draw.randrange(17)))
        laws = []
        for value in values:
            # What a server shows of a report that counts, it shows; of one that does not, nothing.
            counts = decide(ARRAYS, circuit, ARRAYS.add(whole[value], ARRAYS.constant(lie)))
            laws.append(Counter(columns(whole[value][:, counts])))
            accepted_once |= any(lie) and bool(counts.any())
        assert all(law == laws[0] for law in laws), lie
    assert accepted_once, "in so small a field some lies pass by chance"


@pytest.mark.parametrize("name", ["count", "sum to 1", "histogram"])
def test_a_report_that_is_verified_under_two_keys_tells_its_value(name):
    """The guard removed: two random points of one proof. So an id is looked at once, under the key that was signed."""
    circuit, values, _ = CASES[name]
    draw = random.Random(9)
    telling = 0
    for _ in range(2):
        (first, joint), (second, _) = asked(circuit, draw), asked(circuit, draw)
        both = ([columns(verifiers(circuit, v, point, joint)) for point in (first, second)] for v in values)
        pairs = [Counter(zip(*seen, strict=True)) for seen in both]
        telling += any(pair != pairs[0] for pair in pairs)
    assert telling > 0
    # The same point again tells nothing that it has not told.
    again = [Counter(columns(verifiers(circuit, value, first, joint))) for value in values]
    assert all(law == again[0] for law in again)


def test_both_shares_of_numbers_and_proof_are_uniform_whatever_the_value():
    """One is drawn, the other is what is missing: over all that can be drawn each comes out equally often."""
    circuit, (low, high), _ = CASES["sum to 1"]
    for value in (low, high):
        numbers = circuit.encode(value)
        proof = prove(OPS, circuit, numbers, [3] * circuit.arity, [])
        for place, true in enumerate([*numbers, *proof]):
            missing = Counter((true - drawn) % 17 for drawn in range(17))
            assert set(missing.values()) == {1}, place
