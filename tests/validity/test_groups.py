"""Groups against the plain reading, and groups with bad reports in them: each is refused by name, the others count."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import plain_prio3
from cases.prio3 import CONTEXT, KEY, PAIRS, refusals, whole_way
from croupier.checks import InvalidParameter
from croupier.validity import (
    Prepared,
    Prio3,
    Refusal,
    Verifier,
    groups,
    prio3_count,
    prio3_histogram,
    prio3_sum,
    prio3_sum_vec,
    shard_group,
)

every_type = pytest.mark.parametrize("name", PAIRS)
JOINT = [name for name, (prio3, _, _) in PAIRS.items() if prio3.joint]
PLAIN = [name for name, (prio3, _, _) in PAIRS.items() if not prio3.joint]


def made(prio3, measurements, seed=1, contexts=CONTEXT):
    """Nonces and all shares of a group."""
    draw = random.Random(seed)
    nonces = [draw.randbytes(16) for _ in measurements]
    rands = [draw.randbytes(prio3.rand_size) for _ in measurements]
    return nonces, *shard_group(prio3, measurements, nonces, contexts, rands)


def lied(prio3, circuit, numbers, seed=1):
    """The shares of a client that proves, by the rules, numbers that are not valid."""
    draw = random.Random(seed)
    nonce = draw.randbytes(16)
    return nonce, plain_prio3.shard(circuit, numbers, nonce, CONTEXT, draw.randbytes(prio3.rand_size), 2)


@st.composite
def types(draw):
    """Any small type in both readings, with a few measurements."""
    shares, kind = draw(st.integers(2, 3)), draw(st.sampled_from(["count", "sum", "vector", "histogram"]))
    several = st.integers(1, 3)
    if kind == "count":
        return (
            Prio3(prio3_count().circuit, 1, shares),
            plain_prio3.Count(),
            draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)),
        )
    if kind == "sum":
        most = draw(st.one_of(st.integers(1, 20), st.integers(1, 2**17)))
        values = draw(st.lists(st.integers(0, most), min_size=1, max_size=3))
        return prio3_sum(most, shares), plain_prio3.Sum(most), values
    if kind == "histogram":
        length = draw(st.integers(1, 9))
        chunk = draw(st.integers(1, length))
        values = draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=3))
        return prio3_histogram(length, chunk, shares=shares), plain_prio3.Histogram(length, chunk), values
    length, most, proofs = draw(several), draw(st.integers(1, 9)), draw(st.sampled_from([1, 3]))
    chunk = draw(st.integers(1, length * most.bit_length()))
    one = st.lists(st.integers(0, most), min_size=length, max_size=length)
    plain = plain_prio3.SumVec(length, most, chunk, proofs)
    return (
        prio3_sum_vec(length, most, chunk, proofs=proofs, shares=shares),
        plain,
        draw(st.lists(one, min_size=1, max_size=3)),
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(types(), st.integers(0, 2**32), st.binary(max_size=40))
def test_groups_single_reports_and_the_plain_reading_give_the_same_bytes(case, seed, context):
    prio3, circuit, measurements = case
    nonces, publics, *shares = made(prio3, measurements, seed, context)
    draw = random.Random(seed)
    assert [draw.randbytes(16) for _ in measurements] == nonces
    rands = [draw.randbytes(prio3.rand_size) for _ in measurements]
    prepared = [
        Verifier(prio3, server, KEY).prepare(nonces, publics, share, context) for server, share in enumerate(shares)
    ]
    messages = prepared[-1].combine(*(one.verifier_shares for one in prepared[:-1]))
    finished = [one.finish(messages) for one in prepared]
    for i, measurement in enumerate(measurements):
        ours = [publics[i], *(share[i] for share in shares)]
        assert list(prio3.shard(measurement, nonces[i], context, rands[i])) == ours
        numbers = circuit.encode(measurement)
        assert plain_prio3.shard(circuit, numbers, nonces[i], context, rands[i], prio3.shares) == ours
        found = [
            plain_prio3.verifier_share(circuit, j, KEY, nonces[i], context, publics[i], ours[j + 1], prio3.shares)
            for j in range(prio3.shares)
        ]
        assert [one.verifier_shares[i] for one in prepared] == [verifier for _, verifier, _ in found]
        assert messages[i] == plain_prio3.message(circuit, context, [verifier for _, verifier, _ in found])
        only = np.arange(len(measurements)) == i
        assert [one.aggregate(only) for one in finished] == [output for output, _, _ in found]
    rows = [m if isinstance(m, list) else [m] for m in measurements]
    if "Histogram" in repr(prio3):
        rows = [[int(place == m) for place in range(prio3.circuit.length)] for m in measurements]
    total = [sum(column) for column in zip(*rows, strict=True)]
    assert np.ravel(prio3.unshard([one.aggregate() for one in finished])).tolist() == total


@every_type
def test_valid_reports_are_accepted_and_add_up_over_groups(name):
    prio3, _, measurements = PAIRS[name]
    sums = [[], []]
    for seed in range(3):
        for server, finished in enumerate(whole_way(prio3, *made(prio3, measurements, seed))):
            assert finished.accepted.all()
            sums[server].append(finished.aggregate())
    once = prio3.unshard([sums[0][0], sums[1][0]])
    assert np.array_equal(prio3.unshard([prio3.merge(one) for one in sums]), 3 * np.asarray(once))


INVALID = {
    "count": [[2], [plain_prio3.SMALL - 1]],
    "sum to 1": [[2]],
    "sum to 7": [[1, 2, 0], [0, 0, plain_prio3.SMALL - 1]],
    "sum to 100": [[0, 0, 0, 0, 0, 0, 5]],
    "histogram of 1": [[0], [2]],
    "histogram of 5": [[0, 0, 0, 0, 0], [1, 0, 1, 0, 0], [2, 0, 0, 0, 0], [2, plain_prio3.LARGE - 1, 0, 0, 0]],
    "vectors of 3 to 5": [[2, 0, 0, 0, 0, 0, 0, 0, 0], [0] * 8 + [plain_prio3.LARGE - 1]],
    "ranges of their own": [[2, 0, 0, 0, 0, 0, 0, 0], [0] * 7 + [plain_prio3.LARGE - 1]],
    "vectors of 3, three proofs": [[0, 2, 0, 0, 0, 0, 0, 0, 0], [3] * 9],
}


@every_type
def test_numbers_out_of_range_are_refused_however_well_they_are_proved(name):
    prio3, circuit, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, measurements)
    honest, finished = len(measurements), whole_way(prio3, nonces, publics, leaders, helpers)
    expected = [one.aggregate() for one in finished]
    for seed, numbers in enumerate(INVALID[name]):
        nonce, (public, leader, helper) = lied(prio3, circuit, numbers, seed)
        for column, one in zip((nonces, publics, leaders, helpers), (nonce, public, leader, helper), strict=True):
            column.append(one)
    one, two = whole_way(prio3, nonces, publics, leaders, helpers)
    assert list(one.refusals) == list(two.refusals) == [None] * honest + [Refusal.PROOF] * len(INVALID[name])
    assert [one.aggregate(), two.aggregate()] == expected


def with_added(share, place, amount, size, modulus):
    """A leader's share with something added to one of its numbers."""
    start = place * size
    number = (int.from_bytes(share[start : start + size], "little") + amount) % modulus
    return share[:start] + number.to_bytes(size, "little") + share[start + size :]


def test_a_proof_that_claims_the_product_which_would_be_valid_is_refused():
    prio3, circuit, _ = PAIRS["count"]
    nonce, (public, leader, helper) = lied(prio3, circuit, [2])
    # The proof's value at the only call is 2 · 2; with 2 there the output is zero, and only the random point tells.
    claimed = with_added(leader, 1 + 2 + 2, -2, 8, plain_prio3.SMALL)
    assert refusals(prio3, [nonce], [public], [claimed], [helper]) == [Refusal.PROOF]


@every_type
def test_a_proof_for_another_value_is_refused(name):
    prio3, _, measurements = PAIRS[name]
    circuit = prio3.circuit
    nonces, publics, leaders, helpers = made(prio3, [measurements[0]] * 2)
    place = circuit.length - 1
    moved = with_added(leaders[0], place, 1, circuit.field.size, circuit.field.modulus)
    assert refusals(prio3, nonces, publics, [moved, leaders[1]], helpers) == [Refusal.PROOF, None]


@every_type
def test_shares_of_different_reports_are_refused(name):
    prio3, _, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, [measurements[-1]] * 3)
    swapped = [helpers[1], helpers[0], helpers[2]]
    assert refusals(prio3, nonces, publics, leaders, swapped) == [Refusal.PROOF, Refusal.PROOF, None]


@every_type
def test_another_context_at_either_server_or_both_is_refused(name):
    prio3, _, measurements = PAIRS[name]
    group = made(prio3, [measurements[-1]] * 2)
    other = [CONTEXT, CONTEXT[:-1] + b"!"]
    assert refusals(prio3, *group, contexts=other) == [None, Refusal.PROOF]
    assert refusals(prio3, *group, contexts=CONTEXT, helper_contexts=other) == [None, Refusal.PROOF]
    assert refusals(prio3, *group, contexts=[CONTEXT, CONTEXT + b"longer"]) == [None, Refusal.PROOF]


@every_type
def test_servers_that_take_different_nonces_or_keys_refuse(name):
    prio3, _, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, [measurements[-1]] * 2)
    other = [nonces[0], bytes(16)]
    assert refusals(prio3, nonces, publics, leaders, helpers, helper_nonces=other) == [None, Refusal.PROOF]
    one = Verifier(prio3, 0, bytes(32)).prepare(nonces, publics, leaders, CONTEXT)
    two = Verifier(prio3, 1, KEY).prepare(nonces, publics, helpers, CONTEXT)
    assert two.combine(one.verifier_shares) == [Refusal.PROOF] * 2


@every_type
def test_a_report_replayed_under_another_nonce_is_refused_if_its_context_holds_the_nonce(name):
    prio3, _, measurements = PAIRS[name]
    first, second = bytes(16), bytes([1] * 16)
    public, leader, helper = prio3.shard(measurements[-1], first, CONTEXT + first)
    contexts = [CONTEXT + first, CONTEXT + second]
    found = refusals(prio3, [first, second], [public] * 2, [leader] * 2, [helper] * 2, contexts=contexts)
    assert found == [None, Refusal.PROOF]


@pytest.mark.parametrize("name", JOINT)
def test_types_with_joint_randomness_hold_under_one_nonce_only(name):
    prio3, _, measurements = PAIRS[name]
    nonces, *shares = made(prio3, [measurements[-1]] * 2)
    assert refusals(prio3, [nonces[0], bytes(16)], *shares) == [None, Refusal.PROOF]


@pytest.mark.parametrize("name", PLAIN)
def test_count_and_sum_do_not_depend_on_the_nonce_by_themselves(name):
    prio3, _, measurements = PAIRS[name]
    nonces, *shares = made(prio3, [measurements[-1]] * 2)
    assert refusals(prio3, [nonces[0], bytes(16)], *shares) == [None, None]


@every_type
def test_a_changed_byte_anywhere_in_any_share_is_refused(name):
    prio3, _, measurements = PAIRS[name]
    draw = random.Random(5)
    nonce, (public, leader, helper) = bytes(16), prio3.shard(measurements[-1], bytes(16), CONTEXT)
    columns = [[public], [leader], [helper]]
    for changed, share in enumerate((public, leader, helper)):
        for place in range(len(share)):
            other = bytearray(share)
            other[place] ^= draw.randrange(1, 256)
            for column, whole in zip(columns, (public, leader, helper), strict=True):
                column.append(whole)
            columns[changed][-1] = bytes(other)
    found = refusals(prio3, [nonce] * len(columns[0]), *columns)
    assert len(found) == 1 + sum(prio3.sizes[:3])
    assert found[0] is None
    assert None not in found[1:]


@every_type
@pytest.mark.parametrize("which", [0, 1, 2, 3], ids=["nonce", "public", "leader", "helper"])
def test_truncated_and_padded_reports_are_refused_by_name_and_the_others_count(name, which):
    prio3, _, measurements = PAIRS[name]
    columns = list(made(prio3, [measurements[-1]] * 4))
    good = columns[which][1:]
    columns[which] = [columns[which][0], good[0][:-1] or b"!", good[1] + b"\0", None]
    one, two = whole_way(prio3, *columns)
    # A server that cannot see the damage is told of it by the other.
    assert list(one.refusals) == list(two.refusals) == [None] + [Refusal.LENGTH] * 3
    alone = prio3.unshard([one.aggregate([True, True, False, False]), two.aggregate()])
    assert np.array_equal(alone, prio3.unshard([one.aggregate(), two.aggregate()]))
    assert np.sum(alone) == np.sum(measurements[-1] if "histogram" not in name else 1)


@every_type
def test_words_beyond_the_field_are_refused_by_name(name):
    prio3, _, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, [measurements[-1]] * 2)
    size = prio3.circuit.field.size
    bad = leaders[0][: 2 * size] + b"\xff" * size + leaders[0][3 * size :]
    assert refusals(prio3, nonces, publics, [bad, leaders[1]], helpers) == [Refusal.FIELD, None]


@every_type
def test_a_server_that_lies_in_the_exchange_can_only_have_reports_refused(name):
    prio3, _, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, [measurements[-1]] * 6)
    two = Verifier(prio3, 1, KEY).prepare(nonces, publics, helpers, CONTEXT)
    one = Verifier(prio3, 0, KEY).prepare(nonces, publics, leaders, CONTEXT)
    true = one.verifier_shares
    size = prio3.circuit.field.size
    lies = [true[0], bytes(len(true[1])), true[2][:-1], b"\xff" * size + true[3][size:], Refusal.PROOF, "nonsense"]
    expected = (None, Refusal.PROOF, Refusal.LENGTH, Refusal.FIELD, Refusal.PROOF, Refusal.LENGTH)
    messages = two.combine(lies)
    finished = two.finish(messages)
    assert finished.refusals == expected
    assert finished.aggregate() == two.finish(two.combine(true)).aggregate([True] + [False] * 5)
    wrong = [message if isinstance(message, Refusal) else message + b"more" for message in messages]
    assert not one.finish(wrong).accepted.any()
    if prio3.joint:
        assert one.finish([bytes(32)] * 6).refusals == (Refusal.JOINT,) * 6


def test_ten_thousand_malformed_reports_change_nothing():
    prio3, draw = prio3_sum(7), random.Random(3)
    nonces, publics, leaders, helpers = made(prio3, [5, 7])
    sizes = (16, 0, prio3.sizes.leader, prio3.sizes.helper)
    for column, size in zip((nonces, publics, leaders, helpers), sizes, strict=True):
        column += [draw.randbytes(max(0, size + draw.choice([-size, -1, 0, 0, 0, 1, 40]))) for _ in range(10_000)]
    one, two = whole_way(prio3, nonces, publics, leaders, helpers)
    assert one.refusals == two.refusals
    assert one.accepted.sum() == 2
    assert prio3.unshard([one.aggregate(), two.aggregate()]) == 12


def test_a_point_that_would_reveal_is_not_answered(monkeypatch):
    prio3 = prio3_sum(7)
    group = made(prio3, [5, 7])
    real = groups.Group.expand

    def at_a_root(self, usage, seed, binder, length):
        found = real(self, usage, seed, binder, length)
        if usage == groups.Usage.QUERY_RANDOMNESS:
            found[-1, 0] = prio3.circuit.field.root(4)
        return found

    monkeypatch.setattr(groups.Group, "expand", at_a_root)
    assert refusals(prio3, *group) == [Refusal.POINT, None]


@every_type
def test_contexts_may_differ_from_report_to_report_and_sums_be_taken_by_part(name):
    prio3, _, measurements = PAIRS[name]
    arms = [b"arm 1", b"arm 2", b"arm 1"]
    group = made(prio3, [measurements[-1]] * 3, contexts=arms)
    one, two = whole_way(prio3, *group, contexts=arms)
    assert one.accepted.all()
    first = [finished.aggregate([arm == b"arm 1" for arm in arms]) for finished in (one, two)]
    once = prio3.unshard([finished.aggregate([False, True, False]) for finished in (one, two)])
    assert np.array_equal(prio3.unshard(first), 2 * np.asarray(once))


@every_type
def test_what_a_server_has_prepared_may_be_kept_as_bytes_and_resumed_with_others(name):
    prio3, _, measurements = PAIRS[name]
    nonces, publics, leaders, helpers = made(prio3, [measurements[-1]] * 4)
    leaders[2] = leaders[2][:-1]
    contexts = [CONTEXT] * 4
    one, two = (
        Verifier(prio3, server, KEY).prepare(nonces, publics, shares, contexts)
        for server, shares in enumerate((leaders, helpers))
    )
    assert {len(kept) for kept in two.kept} == {prio3.kept_size}
    assert [len(kept) for kept in one.kept] == [prio3.kept_size] * 2 + [0, prio3.kept_size]
    order = [3, 0, 2]
    again = Prepared.resume(prio3, 1, [two.kept[place] for place in order], [CONTEXT] * 3)
    assert again.verifier_shares == [two.verifier_shares[place] for place in order]
    assert again.output_shares == [two.output_shares[place] for place in order]
    messages = again.combine([one.verifier_shares[place] for place in order])
    finished = again.finish(messages)
    assert finished.refusals == (None, None, Refusal.LENGTH)
    whole = two.finish(two.combine(one.verifier_shares))
    assert finished.aggregate() == whole.aggregate([True, False, False, True])
    damaged = [two.kept[0][:-1], b"\xff" * prio3.kept_size, two.kept[3]]
    found = Prepared.resume(prio3, 1, damaged, [CONTEXT] * 3)
    lost = found.finish(found.combine([one.verifier_shares[place] for place in (0, 1, 3)]))
    assert lost.refusals == (Refusal.LENGTH, Refusal.FIELD, None)


@every_type
def test_an_empty_group_is_a_group(name):
    prio3, _, _ = PAIRS[name]
    one, two = whole_way(prio3, [], [], [], [])
    assert one.refusals == ()
    assert not np.any(prio3.unshard([one.aggregate(), two.aggregate()]))


def test_what_does_not_fit_together_is_refused_at_the_door():
    prio3 = prio3_count()
    group = made(prio3, [1, 0])
    verifier = Verifier(prio3, 0, KEY)
    for arguments in (
        (group[0][:1], group[1], group[2], CONTEXT),
        (*group[:3], [CONTEXT]),
        (*group[:3], bytes(2**16)),
    ):
        with pytest.raises(InvalidParameter):
            verifier.prepare(*arguments)
    prepared = verifier.prepare(*group[:3], CONTEXT)
    for call in (
        lambda: Verifier(prio3, 2, KEY),
        lambda: Verifier(prio3, 0, b"short"),
        lambda: prepared.combine(),
        lambda: prepared.combine([b""]),
        lambda: prepared.finish([b""]),
        lambda: prio3.unshard([bytes(8)]),
        lambda: prio3.unshard([bytes(8), bytes(9)]),
        lambda: shard_group(prio3, [1], [b"short"], CONTEXT, [bytes(64)]),
    ):
        with pytest.raises(InvalidParameter):
            call()
