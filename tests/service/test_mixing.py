"""The shuffle: every order equally likely, whatever order came in."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from croupier.noise import secure, seeded
from croupier.service.shuffling import mixed, random_order


@pytest.mark.slow
def test_every_order_of_four_is_equally_likely():
    rounds, source = 48_000, seeded(1)
    found = Counter(tuple(random_order(4, source).tolist()) for _ in range(rounds))
    assert set(found) == set(itertools.permutations(range(4)))
    statistic = sum((count - rounds / 24) ** 2 / (rounds / 24) for count in found.values())
    # Chi-square with 23 degrees of freedom exceeds 90 with probability below 1e-9.
    assert statistic < 90


def test_where_a_thing_goes_does_not_depend_on_where_it_came_from():
    size, rounds, source = 8, 40_000, seeded(2)
    table = np.zeros((size, size))
    for _ in range(rounds):
        for place, thing in enumerate(random_order(size, source).tolist()):
            table[thing, place] += 1
    expected = rounds / size
    # 49 degrees of freedom: above 130 with probability below 1e-9.
    assert ((table - expected) ** 2 / expected).sum() < 130


def test_equal_words_are_drawn_again():
    class Twice:
        def __init__(self):
            self.calls = 0

        def words(self, count):
            self.calls += 1
            return np.zeros(count, dtype=np.uint64) if self.calls == 1 else np.arange(count, dtype=np.uint64)[::-1]

    source = Twice()
    assert random_order(3, source).tolist() == [2, 1, 0]
    assert source.calls == 2


def test_nothing_is_lost_and_nothing_added():
    things = [bytes([i]) for i in range(200)]
    assert sorted(mixed(things, secure())) == things
    assert mixed(things, secure()) != things  # all in place: one chance in 200!
    assert math.factorial(200) > 10**300
    assert mixed([], secure()) == []


def test_decrypting_processes_that_were_killed_are_replaced():
    import asyncio
    import os
    import signal

    from croupier.messages.sealing import DEFAULT_SUITE, SUITES, seal
    from croupier.service.decryption import Opener
    from croupier.service.waits import Waits

    private = SUITES[DEFAULT_SUITE].generate()
    public = SUITES[DEFAULT_SUITE].public_of(private)
    jobs = [(DEFAULT_SUITE, private, b"here", seal(DEFAULT_SUITE, public, b"%d" % i, b"here")) for i in range(5)]
    jobs.append((DEFAULT_SUITE, private, b"there", jobs[0][3]))

    async def work():
        opener = Opener(1, Waits(decryption=60.0))
        await opener.warm()
        first = await opener.open(jobs)
        for process in list(opener.pool._executor._processes.values()):
            os.kill(process.pid, signal.SIGKILL)
        second = await opener.open(jobs)
        opener.close()
        return first, second, await Opener(0, Waits(decryption=60.0)).open(jobs)

    assert asyncio.run(work()) == (([b"0", b"1", b"2", b"3", b"4", None],) * 3)
