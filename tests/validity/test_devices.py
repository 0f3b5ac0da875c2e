"""What a device does: it refuses what is out of range, knows its bytes beforehand, and needs no NumPy."""

import subprocess
import sys

import pytest

from cases.prio3 import PAIRS
from croupier.checks import InvalidParameter
from croupier.validity import Sizes, prio3_count, prio3_histogram, prio3_ranges, prio3_sum, prio3_sum_vec


@pytest.mark.parametrize(
    ("prio3", "leader"),
    [
        (prio3_count(), 48),
        (prio3_sum(7), 88),
        (prio3_sum(127), 184),
        (prio3_sum(255), 320),
        (prio3_histogram(5), 288),
        (prio3_sum_vec(20, 255), 3440),
        (prio3_sum_vec(20, 255, 13), 3504),
        (prio3_sum_vec(20, 255, proofs=3), 2584),
    ],
    ids=repr,
)
def test_bytes_of_a_leader_share(prio3, leader):
    assert prio3.sizes.leader == leader


def test_a_number_of_eight_bits_takes_less_than_500_bytes():
    assert sum(prio3_sum(255).sizes[:3]) < 500


@pytest.mark.parametrize("name", PAIRS)
def test_shares_have_the_bytes_that_were_said(name):
    prio3, _, measurements = PAIRS[name]
    for measurement in measurements:
        made = prio3.shard(measurement, bytes(16), b"")
        assert tuple(map(len, made)) == prio3.sizes[:3]
    assert isinstance(prio3.sizes, Sizes)


@pytest.mark.parametrize("name", PAIRS)
def test_two_reports_of_one_value_share_no_randomness(name):
    prio3, _, measurements = PAIRS[name]
    one, two = (prio3.shard(measurements[0], bytes(16), b"") for _ in range(2))
    assert one[1] != two[1]
    assert one[2] != two[2]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: prio3_count().shard(2, bytes(16), b""), "measurement"),
        (lambda: prio3_count().shard(True, bytes(16), b""), "measurement"),
        (lambda: prio3_sum(7).shard(8, bytes(16), b""), "measurement"),
        (lambda: prio3_sum(7).shard(-1, bytes(16), b""), "measurement"),
        (lambda: prio3_sum_vec(2, 7).shard([1, 8], bytes(16), b""), "measurement[1]"),
        (lambda: prio3_sum_vec(2, 7).shard([1], bytes(16), b""), "measurement"),
        (lambda: prio3_ranges([7, 1]).shard([1, 2], bytes(16), b""), "measurement[1]"),
        (lambda: prio3_ranges([7, 1]).shard([1], bytes(16), b""), "measurement"),
        (lambda: prio3_histogram(5).shard(5, bytes(16), b""), "measurement"),
        (lambda: prio3_count().shard(1, bytes(15), b""), "nonce"),
        (lambda: prio3_count().shard(1, bytes(16), bytes(2**16)), "context"),
        (lambda: prio3_count().shard(1, bytes(16), b"", bytes(63)), "rand"),
        (lambda: prio3_count(shares=1), "shares"),
        (lambda: prio3_sum(0), "max_measurement"),
        (lambda: prio3_sum_vec(0, 7), "length"),
        (lambda: prio3_sum_vec(2, 7, proofs=2), "proofs"),
        (lambda: prio3_sum_vec(2, 7, 0), "chunk_length"),
        (lambda: prio3_histogram(5, 6), "chunk_length"),
    ],
)
def test_whatever_is_out_of_range_is_refused_by_name(make, word):
    with pytest.raises(InvalidParameter) as refused:
        make()
    assert refused.value.name == word


def test_shares_are_made_without_numpy():
    program = """
import sys
sys.modules["numpy"] = None
from croupier.validity import prio3_count, prio3_histogram, prio3_ranges, prio3_sum, prio3_sum_vec
for prio3, value in ((prio3_count(), 1), (prio3_sum(7), 5), (prio3_sum_vec(2, 3), [1, 3]), (prio3_histogram(5), 4)):
    print(*(len(share) for share in prio3.shard(value, bytes(16), b"context")))
try:
    from croupier.validity import Verifier
except ImportError as error:
    print("numpy" in str(error))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == ["0 48 32", "0 88 32", "64 272 64", "64 288 64", "True"]
