"""Files that hold secrets, destroyed for good: whoever looks for one finds it whole, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def shred(path: Path) -> None:
    """Overwrite a file and remove it; one that is not there is no matter."""
    gone = path.with_name(f".{path.name}.gone")
    _overwrite(gone)
    with suppress(FileNotFoundError):
        # Renamed first: whoever looks for it finds none, never one that is overwritten.
        path.rename(gone)
    _overwrite(gone)


def finish(directory: Path) -> None:
    """Destroy what a crash has left of files that were being destroyed."""
    for gone in directory.glob(".*.gone"):
        _overwrite(gone)


def sync(directory: Path) -> None:
    """What was made or removed in a directory stays so."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _overwrite(path: Path) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_WRONLY)
        try:
            os.write(handle, bytes(os.fstat(handle).st_size))
            os.fsync(handle)
        finally:
            os.close(handle)
        path.unlink()
