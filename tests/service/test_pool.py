"""Processes that work for a server: one that is killed is replaced, and takes the others of its kind with it."""

import asyncio
import os
import signal
from contextlib import nullcontext

from croupier.service.pool import Pool


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_work_goes_on_when_an_idle_process_is_killed_and_nobody_is_left_behind():
    pool = Pool(3, 60.0, nullcontext)

    async def work():
        await pool.warm()
        old = list(pool._executor._processes)
        assert len(old) == 3
        os.kill(old[0], signal.SIGKILL)
        found = set()
        for _ in range(200):
            found.add(await pool.run(os.getpid))
            if not any(alive(pid) for pid in old):
                return old, found
            await asyncio.sleep(0.05)
        raise AssertionError("some are still there")

    try:
        old, found = asyncio.run(work())
        assert found - set(old)
    finally:
        pool.close()
