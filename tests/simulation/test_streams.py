"""Streams to count: the hard ones are those of [TKMS23] section 4, to the bit; files and words are read with care."""

import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp

from croupier.checks import CroupierError, InvalidParameter
from croupier.simulation.streams import bernoulli_stream, file_stream, hard_stream, repetitions, stream

CASES = [
    (1000, 1, 1.0),
    (10**5, 1, 0.5),
    (10**5, 2, 0.3),
    (2 * 10**5, 3, 0.1),
    (4096, 2, 1.0),
    (50, 1, 3.0),
    (7, 2, 1.0),
]


@pytest.mark.parametrize(("users", "shufflers", "epsilon"), CASES)
def test_a_bit_repeats_as_often_as_the_lower_bound_says(users: int, shufflers: int, epsilon: float) -> None:
    """½ n^{1/(2k+1)} c^{2k/(2k+1)} with c = e^ε/(e^{2ε} + 1), to the nearest whole number, and at least once."""
    with mp.workdps(30):
        secrecy = mp.e**epsilon / (mp.e ** (2 * epsilon) + 1)
        power = mp.mpf(1) / (2 * shufflers + 1)
        exact = mp.mpf(users) ** power * secrecy ** (2 * shufflers * power) / 2
    assert abs(repetitions(users, shufflers, epsilon) - max(exact, 1)) <= 0.5


def rounds(values: np.ndarray, prefix: int, repeat: int) -> np.ndarray:
    """What follows a prefix, a single bit and its run in each row; the last row is filled up with its last bit."""
    body = values[prefix:]
    missing = -len(body) % (repeat + 1)
    return np.concatenate((body, np.full(missing, body[-1]))).reshape(-1, repeat + 1)


def fits(values: np.ndarray, prefix: int, repeat: int) -> bool:
    """Whether a stream is an equal prefix followed by one bit and one repeated bit in turn."""
    runs = rounds(values, prefix, repeat)[:, 1:]
    last = len(values[prefix:]) % (repeat + 1)
    # Of a last round that was cut after its single bit nothing is repeated yet.
    runs = runs[:-1] if last == 1 else runs
    return len(set(values[:prefix].tolist())) <= 1 and bool((runs == runs[:, :1]).all())


@pytest.mark.parametrize(("users", "shufflers", "epsilon"), CASES)
def test_a_hard_stream_is_a_prefix_then_single_and_repeated_bits_in_turn(
    users: int, shufflers: int, epsilon: float
) -> None:
    repeat = repetitions(users, shufflers, epsilon)
    for seed in range(5):
        values = hard_stream(users, shufflers, epsilon, seed)
        assert values.shape == (users,)
        assert set(values.tolist()) <= {0.0, 1.0}
        assert any(fits(values, prefix, repeat) for prefix in range(repeat + 1))


def test_prefixes_of_every_length_and_either_bit_occur() -> None:
    users, shufflers, epsilon = 4000, 1, 1.0
    repeat = repetitions(users, shufflers, epsilon)
    assert repeat == 4
    lengths, bits, same = set(), set(), []
    for seed in range(200):
        values = hard_stream(users, shufflers, epsilon, seed)
        fitting = [prefix for prefix in range(repeat + 1) if fits(values, prefix, repeat)]
        assert len(fitting) == 1  # so long a stream fits one prefix only
        lengths.add(fitting[0])
        bits |= set(values[: fitting[0]].tolist())
        same += [values[fitting[0]] == values[0]] if fitting[0] else []
    assert lengths == set(range(repeat + 1))
    assert bits == {0.0, 1.0}
    # The first single bit owes nothing to the prefix: about 160 fair tosses, six deviations.
    assert 0.25 < np.mean(same) < 0.75


def test_single_and_repeated_bits_are_fair_and_independent() -> None:
    """About 29,000 rounds: means and the correlation within seven deviations, a false alarm of 1e-11."""
    users, repeat = 10**6, repetitions(10**6, 1, 0.5)
    values = hard_stream(users, 1, 0.5, 4)
    prefix = next(prefix for prefix in range(repeat + 1) if fits(values, prefix, repeat))
    singles, repeated = rounds(values, prefix, repeat)[:-1, :2].T
    slack = 7 * 0.5 / math.sqrt(len(singles))
    assert abs(singles.mean() - 0.5) < slack
    assert abs(repeated.mean() - 0.5) < slack
    assert abs(np.mean((singles - 0.5) * (repeated - 0.5))) < 0.5 * slack
    assert abs(np.mean((singles[1:] - 0.5) * (repeated[:-1] - 0.5))) < 0.5 * slack


def test_a_seed_repeats_its_stream_and_another_one_does_not() -> None:
    assert np.array_equal(hard_stream(500, 2, 1.0, 3), hard_stream(500, 2, 1.0, 3))
    assert not np.array_equal(hard_stream(500, 2, 1.0, 3), hard_stream(500, 2, 1.0, 4))
    assert np.array_equal(bernoulli_stream(500, 0.5, 3), bernoulli_stream(500, 0.5, 3))


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_coin_tosses_have_their_rate(rate: float) -> None:
    """Within seven deviations of 100,000 tosses."""
    values = bernoulli_stream(100_000, rate, 1)
    assert set(values.tolist()) <= {0.0, 1.0}
    assert abs(values.mean() - rate) <= 7 * math.sqrt(rate * (1 - rate) / 100_000)


def named(text: str, users: int = 6) -> np.ndarray:
    return stream(text, users=users, shufflers=1, epsilon=1.0, seed=2)


def test_words_name_streams(tmp_path: Path) -> None:
    assert named("constant:0.25").tolist() == [0.25] * 6
    assert np.array_equal(named("bernoulli:0.5"), bernoulli_stream(6, 0.5, 2))
    assert np.array_equal(named("hard"), hard_stream(6, 1, 1.0, 2))
    path = tmp_path / "values.txt"
    path.write_text("0.5\n\n1\n 0 \n1e-1\n0.75\n0.25\n1\n")
    assert named(str(path)).tolist() == [0.5, 1.0, 0.0, 0.1, 0.75, 0.25]
    assert file_stream(path).tolist() == [0.5, 1.0, 0.0, 0.1, 0.75, 0.25, 1.0]


@pytest.mark.parametrize("text", ["coins", "bernoulli", "bernoulli:often", "constant:", "hard:1", ""])
def test_a_word_that_names_none_is_refused_with_those_that_do(text: str) -> None:
    with pytest.raises(InvalidParameter, match="stream = .*bernoulli:P, constant:P, hard"):
        named(text)


@pytest.mark.parametrize("text", ["bernoulli:1.5", "bernoulli:-0.1", "bernoulli:nan", "constant:nan", "constant:inf"])
def test_a_rate_must_be_a_number_in_its_range(text: str) -> None:
    with pytest.raises(InvalidParameter, match="rate|stream"):
        named(text)


def test_a_file_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "values.txt"
    path.write_text("1\n0\none\n")
    with pytest.raises(CroupierError, match="line 3: 'one' is not a number"):
        file_stream(path)
    path.write_text("1\nnan\n")
    with pytest.raises(CroupierError, match="line 2"):
        file_stream(path)
    path.write_text("\n\n")
    with pytest.raises(CroupierError, match="no numbers"):
        file_stream(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CroupierError, match="could not be read"):
        file_stream(path)
    with pytest.raises(CroupierError, match="could not be read"):
        file_stream(tmp_path / "nowhere.txt")
    path.write_text("1\n0\n")
    with pytest.raises(InvalidParameter, match="users = 3 .*at most 2"):
        named(str(path), users=3)


BAD = [
    (lambda: bernoulli_stream(0, 0.5, 1), "users = 0"),
    (lambda: bernoulli_stream(5, 1.5, 1), "rate = 1.5"),
    (lambda: hard_stream(0, 1, 1.0, 1), "users = 0"),
    (lambda: hard_stream(5, 0, 1.0, 1), "shufflers = 0"),
    (lambda: hard_stream(5, 1, 0.0, 1), "epsilon = 0.0"),
    (lambda: hard_stream(5, 1, math.nan, 1), "epsilon = nan"),
    (lambda: hard_stream(5, 1, 1.0, -1), "seed = -1"),
    (lambda: bernoulli_stream(5, 0.5, -1), "seed = -1"),
    (lambda: named("constant:1", users=-1), "users = -1"),
]


@pytest.mark.parametrize(("make", "found"), BAD, ids=[found for _, found in BAD])
def test_bad_input_is_refused_by_name(make, found: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=found):
        make()


def test_a_budget_without_any_privacy_leaves_nothing_to_repeat() -> None:
    assert repetitions(10**6, 1, 800.0) == 1
