"""Randomness itself: the cryptographic source, the seeded one, and exact draws made from their words."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_checks import ALARM, chi_square
from noise_words import ONES, Script, Stream

from croupier.checks import InvalidParameter
from croupier.noise import SecureSource, SeededSource, Source, secure, seeded
from croupier.noise.source import below, bernoulli, permutation, residues

FORKING = """
import os
from croupier.noise import secure
secure().words(3)
out, back = os.pipe()
if os.fork() == 0:
    os.write(back, secure().words(8).tobytes())
    os._exit(0)
mine = secure().words(8)
os.wait()
theirs = os.read(out, 64)
assert len(theirs) == 64
assert mine.tobytes() != theirs
assert not set(mine.tolist()) & {int.from_bytes(theirs[i : i + 8], "little") for i in range(0, 64, 8)}
print("apart")
"""


def bits(*probabilities: float, words: list[int]) -> list[int]:
    return bernoulli(np.asarray(probabilities, dtype=float), Script(words)).tolist()


def test_secure_words_differ() -> None:
    # 4,000 words of 64 bits: two of them are equal once in 1e12 runs.
    words = np.concatenate([secure().words(1000), secure().words(1000), SecureSource().words(2000)])
    assert len(set(words.tolist())) == 4000
    assert words.dtype == np.uint64


def test_secure_words_use_every_bit() -> None:
    # A bit of 1,000 words is within ten standard errors of half; 64 bits, a false alarm once in 1e21.
    ones = ((secure().words(1000)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).sum(axis=0)
    assert np.abs(ones - 500.0).max() < 10 * np.sqrt(250.0)


def test_a_forked_child_draws_other_words() -> None:
    """In a process of its own: forking one that has threads is not safe."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "apart"), done.stderr


def test_threads_share_the_secure_source() -> None:
    source, drawn, failures = SecureSource(), [], []

    def work() -> None:
        try:
            for _ in range(40):
                drawn.append(source.words(100_000)[:2].tolist())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len({word for pair in drawn for word in pair}) == 320


@pytest.mark.parametrize("source", [secure(), SecureSource(), seeded(1)], ids=repr)
def test_sources_hand_out_as_many_words_as_asked(source: Source) -> None:
    assert isinstance(source, Source)
    assert [source.words(count).shape for count in (0, 1, 5)] == [(0,), (1,), (5,)]
    assert source.words(3).dtype == np.uint64


def test_a_seed_repeats_itself_and_no_other() -> None:
    assert seeded(7).words(20).tolist() == seeded(7).words(20).tolist()
    assert seeded(7).words(20).tolist() != seeded(8).words(20).tolist()
    assert SeededSource(np.random.SeedSequence(5)).words(2).tolist() == seeded(5).words(2).tolist()
    assert repr(seeded(7)) == "seeded(7)"
    assert repr(secure()) == "secure()"


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7", None])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        seeded(seed)
    assert refusal.value.name == "seed"


def test_a_bit_is_exact_at_its_threshold() -> None:
    assert bits(0.0, 0.0, words=[0, ONES]) == [0, 0]
    assert bits(1.0, 1.0, words=[0, ONES]) == [1, 1]
    assert bits(0.5, 0.5, 0.5, words=[2**63 - 1, 2**63, 0]) == [1, 0, 1]
    # The largest double below one, and the smallest whose threshold is a word of its own.
    assert bits(1 - 2**-53, 1 - 2**-53, words=[2**64 - 2**11 - 1, 2**64 - 2**11]) == [1, 0]
    assert bits(2.0**-64, 2.0**-64, words=[0, 1]) == [1, 0]
    assert bits(3 * 2.0**-64, 3 * 2.0**-64, words=[2, 3]) == [1, 0]
    # Below that a bit is rounded down to never: an error under 2^-64.
    assert bits(2.0**-65, 5e-324, words=[0, 0]) == [0, 0]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(p=st.floats(2.0**-11, 1.0, exclude_max=True))
def test_a_bit_has_exactly_the_probability_of_its_double(p: float) -> None:
    numerator, denominator = p.as_integer_ratio()
    threshold = numerator * 2**64 // denominator
    assert threshold * denominator == numerator * 2**64
    assert bits(p, p, words=[threshold - 1, threshold]) == [1, 0]


def test_bits_keep_their_shape_and_are_fair() -> None:
    p = np.asarray([[0.1, 0.5], [0.9, 0.25]])
    drawn = bernoulli(np.broadcast_to(p, (20_000, 2, 2)), Stream(31))
    assert drawn.shape == (20_000, 2, 2)
    ones = drawn.sum(axis=0).ravel()
    for share, count in zip(p.ravel(), ones, strict=True):
        expected = 20_000 * np.asarray([share, 1 - share])
        assert chi_square(np.asarray([count, 20_000 - count]), expected) > ALARM


def test_below_redraws_the_words_that_would_favour_some_values() -> None:
    # 2^64 = 3k + 1: the first word of all is one too many.
    assert below(3, Script([0, 5])) == 2
    assert below(3, Script([1])) == 1
    assert below(3, Script([ONES])) == ONES % 3
    # 2^64 = 6 (mod 10): six words are too many.
    assert below(10, Script([0, 5, 6])) == 6
    # A power of two wastes none.
    assert below(8, Script([0])) == 0
    assert below(1, Script([ONES])) == 0
    bound = 2**63 + 1
    assert below(bound, Script([2**63 - 2, 2**63 - 1])) == 2**63 - 1
    assert below(2**64, Script([ONES])) == ONES


def test_residues_redraw_only_the_words_that_are_too_many() -> None:
    # 2^64 = 5·(3·2^60) + 2^60.
    bound = 3 * 2**60
    words = [2**60 - 1, 2**60, 0, ONES, 7, 2**61, 2**62]
    script = Script(words)
    found = residues(bound, (2, 2), script)
    # The first and the third are redrawn, to 7 and 2^61; 7 is too low again.
    assert found.tolist() == [[2**62 % bound, 2**60], [2**61, ONES % bound]]
    assert script.used == 7


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 3 * 2**60, 2**62])
def test_residues_are_uniform(bound: int) -> None:
    found = residues(bound, (20_000,), Stream(32))
    assert found.dtype == np.int64
    assert 0 <= found.min() <= found.max() < bound
    if bound > 1:
        bins = min(bound, 50)
        place = found.astype(object) * bins // bound
        expected = (
            np.bincount([x * bins // bound for x in range(bound)]) / bound if bound <= 1000 else np.ones(bins) / bins
        )
        assert chi_square(np.bincount(place.astype(int), minlength=bins), 20_000 * expected) > ALARM
    assert residues(bound, (), Stream(1)).shape == ()
    assert residues(bound, (0, 3), Stream(1)).shape == (0, 3)


@pytest.mark.parametrize("bound", [2, 6, 10])
def test_below_is_uniform(bound: int) -> None:
    source = Stream(33)
    counts = np.bincount([below(bound, source) for _ in range(6000)], minlength=bound)
    assert len(counts) == bound
    assert chi_square(counts, np.full(bound, 6000 / bound)) > ALARM


def test_every_order_is_equally_likely() -> None:
    source = Stream(34)
    orders = dict.fromkeys(permutations(range(4)), 0)
    for _ in range(4800):
        orders[tuple(permutation(4, source).tolist())] += 1
    assert chi_square(np.asarray(list(orders.values())), np.full(24, 200.0)) > ALARM


@pytest.mark.parametrize("size", [0, 1, 2, 50])
def test_a_permutation_holds_every_index_once(size: int) -> None:
    assert sorted(permutation(size, Stream(35)).tolist()) == list(range(size))


def test_a_permutation_is_fisher_and_yates() -> None:
    # Swap 3 with 1, 2 with 2, 1 with 0; 2^64 = 0 (mod 4, 2) and 1 (mod 3).
    assert permutation(4, Script([4 + 1, 3 + 2, 2 + 0])).tolist() == [3, 0, 2, 1]
