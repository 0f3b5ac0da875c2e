"""What carries a sweep: engines that run independent pieces of work, and the store that keeps what is finished.

An engine takes a function, its inputs and a number of jobs, and yields each input with its result as it is finished,
in any order: on this machine's cores, or on a Ray cluster. Neither engines nor the store know what the work is about.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeVar

from croupier.checks import CroupierError, InvalidParameter

Item = TypeVar("Item")
Result = TypeVar("Result")


def needed(module: str, extra: str) -> Any:
    """Import a library that only some commands need, or say how to get it."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise CroupierError(f"{name} is not installed: install croupier[{extra}]") from None


def local(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int | None = None
) -> Generator[tuple[Item, Result], None, None]:
    """Use processes of this machine, as many as it has cores unless told; one job needs no process.

    >>> from math import sqrt
    >>> list(local(sqrt, [4.0, 9.0], jobs=1))
    [(4.0, 2.0), (9.0, 3.0)]
    """
    jobs = min(jobs or os.cpu_count() or 1, len(items))
    if jobs <= 1:
        yield from ((item, work(item)) for item in items)
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    try:
        waiting = {pool.submit(work, item): item for item in items}
        for future in as_completed(waiting):
            yield waiting.pop(future), future.result()
    except BaseException as problem:
        pool.shutdown(wait=False, cancel_futures=True)
        # A piece of work may take minutes, and nobody waits for it any more.
        for worker in set(active_children()) - others:
            worker.terminate()
        if isinstance(problem, BrokenProcessPool):
            raise CroupierError("a worker process died; was there enough memory? Fewer --jobs need less") from None
        raise
    pool.shutdown()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ray_cluster(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int | None = None
) -> Generator[tuple[Item, Result], None, None]:
    """Use the Ray cluster that RAY_ADDRESS names, or one on this machine; `jobs` limits the tasks under way."""
    ray = needed("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        task = ray.remote(work)
        left, under_way = list(reversed(items)), dict[Any, Item]()
        while left or under_way:
            while left and (jobs is None or len(under_way) < jobs):
                item = left.pop()
                under_way[task.remote(item)] = item
            finished, _ = ray.wait(list(under_way), num_returns=1)
            for reference in finished:
                yield under_way.pop(reference), _fetched(ray, reference)
    finally:
        if ours:
            ray.shutdown()


def _fetched(ray: Any, reference: Any) -> Any:
    """A task's result, or the error it raised itself, without Ray's account of where."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, CroupierError):
            raise error.cause from None
        raise


Engine = Callable[[Callable[[Any], Any], Sequence[Any], int | None], Generator[tuple[Any, Any], None, None]]

ENGINES: dict[str, Engine] = {"local": local, "ray": ray_cluster}
"""Every engine by name."""


class Store:
    """A Parquet file in the making: finished parts wait in a folder beside it until all are there.

    `columns` gives the schema, when it is told the pyarrow module.
    """

    def __init__(self, out: str | Path, columns: Callable[[Any], Any]) -> None:
        self.out = Path(out)
        self.folder = self.out.with_name(self.out.name + ".parts")
        self._arrow, self._parquet = needed("pyarrow", "figures"), needed("pyarrow.parquet", "figures")
        self._schema = columns(self._arrow)
        if self.out.is_dir() or not self.out.parent.is_dir():
            raise InvalidParameter("out", str(out), "a file in a folder that exists")

    def has(self, name: str, rows: int) -> bool:
        """Whether a part is there, and whole."""
        try:
            return bool(self._parquet.read_metadata(self._part(name)).num_rows == rows)
        except (OSError, self._arrow.ArrowInvalid):
            return False

    def keep(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a finished part."""
        self._write(self._part(name), [self._arrow.Table.from_pylist(rows, self._schema)], {})

    def merge(self, names: Iterable[str], about: Mapping[str, str]) -> None:
        """Put the parts into the file, in this order, and remove them; parts that others left stay."""
        parts = [self._part(name) for name in names]
        self._write(self.out, (self._parquet.read_table(part) for part in parts), about)
        for path in [*parts, *self.folder.glob("*.unfinished")]:
            path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def read(self) -> tuple[dict[str, str], Any]:
        """What the finished file says about itself, and its table."""
        try:
            table = self._parquet.read_table(self.out)
        except (OSError, self._arrow.ArrowInvalid):
            raise CroupierError(f"{self.out} is not a Parquet file that can be read") from None
        about = table.schema.metadata or {}
        return {key.decode(): value.decode() for key, value in about.items()}, table

    def _part(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def _write(self, path: Path, tables: Iterable[Any], about: Mapping[str, str]) -> None:
        """Write a whole file or none."""
        unfinished = self.folder / f"{path.name}.{os.getpid()}.unfinished"
        try:
            self.folder.mkdir(exist_ok=True)
            with self._parquet.ParquetWriter(unfinished, self._schema.with_metadata(about)) as writer:
                for table in tables:
                    writer.write_table(table)
            unfinished.replace(path)
        except OSError as error:
            raise CroupierError(f"{path} cannot be written: {error.strerror or error}") from None
