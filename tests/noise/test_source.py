"""Randomness itself: the cryptographic source, the seeded one, and exact draws made from their words."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import permutations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.noise_checks import ALARM, chi_square
from cases.noise_words import ONES, Script, Stream
from croupier.checks import InvalidParameter
from croupier.noise import SecureSource, SeededSource, Source, secure, seeded
from croupier.noise import source as source_module
from croupier.noise.source import KEY_WORDS, below, bernoulli, fractions, permutation, residues

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


def test_fractions_are_a_words_first_bits_from_any_source() -> None:
    expected = (Stream(3).words(20) >> np.uint64(11)).reshape(4, 5) * 2.0**-53
    for source in (seeded(3), Stream(3)):
        made = np.empty((4, 5))
        fractions(made, source)
        assert np.array_equal(made, expected)


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


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """Every key and first counter that secure sources take from now on, as an image of the memory would show them."""
    seen: list[tuple[bytes, bytes]] = []

    def taken(cipher: algorithms.AES, mode: modes.CTR) -> Cipher[modes.CTR]:
        seen.append((bytes(cipher.key), bytes(mode.nonce)))
        return Cipher(cipher, mode)

    monkeypatch.setattr(source_module, "Cipher", taken)
    return seen


def told(state: tuple[bytes, bytes], blocks: int) -> set[int]:
    """The words that a state tells: those to come, and, by counting backwards, those that its key gave before."""
    key, counter = state
    first = (int.from_bytes(counter, "big") - blocks) % 2**128
    stream = Cipher(algorithms.AES(key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
    return set(np.frombuffer(stream.update(bytes(32 * blocks)), dtype=np.uint64).tolist())


def test_a_memory_image_tells_no_word_from_before_the_last_renewal(states: list[tuple[bytes, bytes]]) -> None:
    source = SecureSource()
    before = set(source.words(200).tolist())
    source.renew()
    after = set(source.words(200).tolist())
    old, new = states
    # The attack works on the key in use, and on no earlier one.
    assert after <= told(new, 200)
    assert before <= told(old, 200)
    assert not before & told(new, 200)


def test_who_saw_the_state_before_does_not_know_the_words_after(states: list[tuple[bytes, bytes]]) -> None:
    source = SecureSource()
    source.renew()
    assert not set(source.words(200).tolist()) & told(states[0], 200)


def test_two_clones_of_a_machine_draw_other_words_after_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as same:
        same.setattr(os, "urandom", bytes)
        one, other = SecureSource(), SecureSource()
    assert one.words(5).tolist() == other.words(5).tolist()
    one.renew()
    other.renew()
    assert not set(one.words(100).tolist()) & set(other.words(100).tolist())


def test_entropy_that_others_know_does_not_give_the_next_words_away(
    monkeypatch: pytest.MonkeyPatch, states: list[tuple[bytes, bytes]]
) -> None:
    source = SecureSource()
    monkeypatch.setattr(os, "urandom", bytes)
    source.renew()
    assert states[1] != (bytes(32), bytes(16))
    assert states[1][0] != states[0][0]


def test_a_key_serves_so_many_words_and_no_more(states: list[tuple[bytes, bytes]]) -> None:
    source = SecureSource()
    for count, keys in ((KEY_WORDS - 1, 1), (1, 1), (1, 2), (KEY_WORDS + 1, 3), (1, 4)):
        source.words(count)
        assert len(states) == keys
    assert len(set(states)) == 4


def test_renewing_a_seeded_source_changes_nothing() -> None:
    source = seeded(7)
    source.renew()
    assert source.words(3).tolist() == seeded(7).words(3).tolist()


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
