"""Several workers of one server behind one socket: started, replaced when they end, and ended together."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any

from croupier.service import logs

log = logging.getLogger("croupier")

PAUSE_SECONDS = 1.0
"""Between two workers in the same place, so that one that cannot start costs little."""


def supervise(count: int, grace: float, work: Callable[..., None], *given: Any) -> None:
    """Keep so many processes at `work(*given)` until SIGTERM or SIGINT; then each has `grace` seconds to end."""
    with _signals() as told:
        workers = [_start(work, given) for _ in range(count)]
        while not told:
            wait([worker.sentinel for worker in workers], PAUSE_SECONDS)
            for place, worker in enumerate(workers):
                if not told and not worker.is_alive():
                    log.error("worker ended", extra={"fields": {"status": worker.exitcode}})
                    time.sleep(PAUSE_SECONDS)
                    workers[place] = _start(work, given)
        for worker in workers:
            worker.terminate()
        end = time.monotonic() + grace
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
            worker.kill()
            worker.join()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals to end that have come."""
    told: list[int] = []
    before = {kind: signal.signal(kind, lambda sent, _: told.append(sent)) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _start(work: Callable[..., None], given: tuple[Any, ...]) -> SpawnProcess:
    # Spawned, not forked: nothing of one worker is another's.
    process = get_context("spawn").Process(target=_worker, args=(work, given))
    process.start()
    return process


def _worker(work: Callable[..., None], given: tuple[Any, ...]) -> None:
    """One worker; whatever it ends by is one line of the log."""
    logs.set_up()
    logs.catch_all()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*given)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        logs.failed(error)
        sys.exit(1)


def _end_with_parent() -> None:
    """Nobody would end a worker whose supervisor was killed, and it would keep the port."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
