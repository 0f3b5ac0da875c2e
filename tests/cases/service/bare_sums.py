"""Sums without noise: how they are overheard, what they look like wherever they lie, and a process to be searched.

Run as a program, both servers live in it until a batch is released. It says what its sums and their keys were, under a
mask: so they are in its memory only if a server has left them there.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cases.service.shares import USERS, opened
from croupier.messages.signing import to_text
from croupier.service.store.batch_keys import BatchKeys

DIGIT = 30
"""Bits of a Python integer in each four bytes."""
EMPTY = bytes(4096)
"""A page of memory in which there is nothing."""
SMALL, EACH = range(48, 161, 16), 50_000
"""The sizes of objects that a sum, a key or their text may lie in, and more of each than there are free."""


def overhear(change: Callable[[Any, str, Any], None], hear: Callable[[bytes], None]) -> None:
    """Hear every running sum of either server, as it is encoded; `change` sets an attribute."""
    hide = BatchKeys.hide

    def heard(self: BatchKeys, name: str, payload: bytes) -> bytes:
        if ".sum." in name:
            hear(payload)
        return hide(self, name, payload)

    change(BatchKeys, "hide", heard)


def forms(encoded: bytes) -> set[bytes]:
    """A sum as it may lie in a file, a log, a metric or a memory."""
    number = int.from_bytes(encoded, "little")
    digits = range(0, number.bit_length(), DIGIT)
    integer = b"".join((number >> at & (1 << DIGIT) - 1).to_bytes(4, "little") for at in digits)
    texts = (str(number), encoded.hex(), f"{number:x}", to_text(encoded), str(float(number)).partition("e")[0])
    return {encoded, encoded[::-1], integer, *(text.encode() for text in texts)}


def found(sums: list[bytes], *places: bytes) -> set[bytes]:
    """Those that are in any of these."""
    return {one for one in sums if any(form in place for form in forms(one) for place in places)}


@contextmanager
def searched(directory: Path, leave: bool) -> Iterator[tuple[list[bytes], bytes]]:
    """The sums of such a process, and what can be read of its memory; `leave` lets it keep them on purpose."""
    mask = os.urandom(32)
    command = [sys.executable, "-c", "from cases.service.bare_sums import main; main()", str(directory), mask.hex()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [*command, "leave"[: 5 * leave]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        masked = json.loads(process.stdout.readline())
        yield [_masked(bytes.fromhex(one), mask) for one in masked], _memory(process.pid)
        process.stdin.close()
        assert process.wait() == 0


def _memory(process: int) -> bytes:
    pieces = []
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if place and "[v" not in line:
                start, end = (int(edge, 16) for edge in place.groups())
                memory.seek(start)
                pieces += _without_emptiness(memory.read(end - start))
    return b"".join(pieces)


def _without_emptiness(content: bytes) -> Iterator[bytes]:
    """All pages, but of several in a row that hold only zeros the first: most of a memory was never written to."""
    before = b""
    for start in range(0, len(content), len(EMPTY)):
        page = content[start : start + len(EMPTY)]
        if not page == before == EMPTY:
            yield page
        before = page


def _masked(payload: bytes, mask: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(payload, mask, strict=False))


def main() -> None:
    directory, mask, leave = Path(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3]
    said, left, read = list[str](), list[bytes](), BatchKeys._read

    def hear(secret: bytes) -> None:
        said.append(_masked(secret, mask).hex())
        if leave:
            left.append(secret)

    def read_key(self: BatchKeys, keys: Path, name: str, make: bool) -> bytes:
        key = read(self, keys, name, make)
        if ".sum." in name:
            hear(key)
        return key

    overhear(setattr, hear)
    BatchKeys._read = read_key  # type: ignore[method-assign]
    service = opened(directory)
    # The share of one report its device knows too, and here devices live in the same process.
    for count in (2, USERS - 2, 0):
        for _ in range(count):
            service.reports(service.comes(value=1.0))
        service.step()
    assert service.records("released")
    _overwrite_what_is_free()
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    service.close()


def _overwrite_what_is_free() -> None:
    """Python does not: without this a search finds also what nobody keeps any longer."""
    gc.collect()
    empty = sys.getsizeof(b"")
    assert [bytes(size - empty - 1) + bytes([place % 256]) for size in SMALL for place in range(EACH)]
