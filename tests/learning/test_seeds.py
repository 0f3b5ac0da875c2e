"""The shared seed: a keyed function that everyone computes alike."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from croupier.checks import InvalidParameter
from croupier.learning.seeds import Seed, exponential
from croupier.noise import seeded
from croupier.noise.precision import precise


def reference_word(key: bytes, index: int, second: int) -> int:
    """One word as docs/learning.md describes it: AES-256 of two little-endian numbers, the first half of the result."""
    block = index.to_bytes(8, "little") + second.to_bytes(8, "little")
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return int.from_bytes((encryptor.update(block) + encryptor.finalize())[:8], "little")


def test_words_are_those_of_the_document() -> None:
    key = hashlib.blake2b(b"int:1:7", key=b"\0" * 32, digest_size=32).digest()
    assert Seed.of(7).key == key
    index = [0, 1, 5, 2**63, 2**64 - 1]
    assert [int(word) for word in Seed.of(7).words(np.asarray(index, dtype=np.uint64))] == [
        reference_word(key, i, 0) for i in index
    ]
    assert int(Seed.of(7).words([3], [4])[0]) == reference_word(key, 3, 4)


def test_words_do_not_depend_on_what_else_is_asked() -> None:
    seed = Seed.of("spring")
    table = seed.words(np.arange(1000))
    assert (seed.words([999, 0, 17]) == table[[999, 0, 17]]).all()
    assert seed.words([]).shape == (0,)
    assert seed.words(np.arange(6).reshape(2, 3)).shape == (2, 3)


def test_labels_and_their_kinds_are_kept_apart() -> None:
    root = Seed.of(0)
    children = [
        root.child("a", "b"),
        root.child("ab"),
        root.child("a", "b", ""),
        root.child(1),
        root.child("1"),
        root.child(b"1"),
        root.child("1:1"),
        root,
        Seed.of(1),
        Seed.of("1"),
    ]
    assert len({seed.key for seed in children}) == len(children)


def test_a_fresh_seed_follows_its_source() -> None:
    assert Seed.draw(seeded(1)) == Seed.draw(seeded(1)) != Seed.draw(seeded(2))


@pytest.mark.parametrize("value", [1.5, None, True, ()])
def test_a_seed_is_a_number_a_text_or_bytes(value: object) -> None:
    with pytest.raises(InvalidParameter, match="seed"):
        Seed.of(value)  # type: ignore[arg-type]


def test_words_are_uniform_in_every_byte() -> None:
    # Eight chi-square tests with 255 degrees of freedom at 1e-11 each.
    table = Seed.of(3).words(np.arange(50_000)).view(np.uint8).reshape(-1, 8)
    for byte in table.T:
        counts = np.bincount(byte, minlength=256)
        assert chdtrc(255, ((counts - 50_000 / 256) ** 2).sum() / (50_000 / 256)) > 1e-11


def test_exponential_times_are_finite_positive_and_rising() -> None:
    ends = np.asarray([0, 1, 2, 2**62, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    times = exponential(ends)
    assert np.isfinite(times).all()
    assert times[0] == pytest.approx(2.0**-65)
    assert times[-1] == pytest.approx(65 * np.log(2))
    assert (np.diff(times) >= 0).all()


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(0, 2**64 - 1))
def test_an_exponential_time_inverts_its_law(word: int) -> None:
    with precise(200):
        exact = -(1 - (arb(word) + arb(0.5)) / arb(2) ** 64).log()
    assert float(exponential(np.asarray([word], dtype=np.uint64))[0]) == pytest.approx(float(exact), rel=2**-50)


def test_times_have_the_exponential_law() -> None:
    # One chi-square test with 49 degrees of freedom at 1e-11.
    times = Seed.of(5).exponentials(np.arange(100_000))
    counts = np.bincount((-np.expm1(-times) * 50).astype(int), minlength=50)
    assert chdtrc(49, ((counts - 2000.0) ** 2).sum() / 2000.0) > 1e-11


def test_uniform_numbers_stay_inside() -> None:
    numbers = Seed.of(5).uniforms(np.arange(100_000))
    assert 0 < numbers.min() < 1e-3
    assert 1 - 1e-3 < numbers.max() < 1


def test_an_order_is_an_order() -> None:
    assert sorted(Seed.of(1).order(100).tolist()) == list(range(100))
    assert Seed.of(1).order(100).tolist() != Seed.of(2).order(100).tolist()
