"""Keys that live as long as a batch: what a store holds of an open batch is unreadable once its key is destroyed.

A database keeps more than its tables: logs, dead rows, replicas and backups hold every state that was ever written. So
seeds and running sums of shares are written only under a random key of their own batch, which lies in a file beside the
server's other keys and never in the database. When the batch is over the file is overwritten and removed.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from croupier.service.shredding import finish, shred, sync
from croupier.service.store.database import StoreProblem

KEY, NONCE = 32, 12


class BatchKeys:
    """A directory of keys by name; without a directory they are kept in memory, for simulations and tests.

    >>> keys = BatchKeys(None)
    >>> hidden = keys.hide("homepage.3", b"a running sum")
    >>> keys.show("homepage.3", hidden)
    b'a running sum'
    >>> keys.destroy(["homepage.3"])
    >>> keys.show("homepage.3", hidden)
    Traceback (most recent call last):
    croupier.service.store.database.StoreProblem: homepage.3 does not decrypt: its key is another one, or destroyed
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            finish(directory)
        self._known: dict[str, AESGCM] = {}
        self._lock = threading.Lock()

    def hide(self, name: str, payload: bytes) -> bytes:
        """The payload, encrypted under the key of this name, which is made where there is none."""
        return self.hide_all(name, [payload])[0]

    def hide_all(self, name: str, payloads: Sequence[bytes]) -> list[bytes]:
        """The same for many payloads at once, each by itself."""
        cipher, nonces, about = self._cipher(name, make=True), secrets.token_bytes(NONCE * len(payloads)), name.encode()
        each = zip((nonces[at : at + NONCE] for at in range(0, len(nonces), NONCE)), payloads, strict=True)
        return [nonce + cipher.encrypt(nonce, payload, about) for nonce, payload in each]

    def show(self, name: str, hidden: bytes) -> bytes:
        """What was hidden under this name."""
        return self.show_all(name, [hidden])[0]

    def show_all(self, name: str, hidden: Sequence[bytes]) -> list[bytes]:
        """The same for many at once."""
        try:
            cipher, about = self._cipher(name, make=False), name.encode()
            return [cipher.decrypt(one[:NONCE], one[NONCE:], about) for one in hidden]
        except (InvalidTag, ValueError, KeyError, FileNotFoundError):
            problem = f"{name} does not decrypt: its key is another one, or destroyed"
            raise StoreProblem(problem) from None

    def destroy(self, names: Iterable[str]) -> None:
        """Forget these keys for good."""
        with self._lock:
            for name in names:
                self._known.pop(name, None)
                if self.directory is not None:
                    shred(self.directory / name)
            if self.directory is not None:
                sync(self.directory)

    def names(self, older_than: float = 0.0) -> list[str]:
        """Every key that there is, or those made so many seconds ago."""
        if self.directory is None:
            return [] if older_than else sorted(self._known)
        latest, found = time.time() - older_than, []
        for path in self.directory.iterdir():
            with suppress(FileNotFoundError):
                if not path.name.startswith(".") and path.stat().st_mtime <= latest:
                    found.append(path.name)
        return sorted(found)

    def _cipher(self, name: str, *, make: bool) -> AESGCM:
        with self._lock:
            if self.directory is not None and not os.path.exists(self.directory / name):
                # Another process has destroyed it.
                self._known.pop(name, None)
            if name not in self._known:
                if self.directory is not None:
                    key = self._read(self.directory, name, make)
                elif make:
                    key = secrets.token_bytes(KEY)
                else:
                    raise KeyError(name)
                self._known[name] = AESGCM(key)
            return self._known[name]

    def _read(self, directory: Path, name: str, make: bool) -> bytes:
        """The key in a file, on disk before anything is written under it; of two who make it one wins."""
        path = directory / name
        if make and not path.exists():
            own = directory / f".{name}.{secrets.token_hex(8)}"
            handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, secrets.token_bytes(KEY))
                os.fsync(handle)
            finally:
                os.close(handle)
            with suppress(FileExistsError):
                os.link(own, path)
            own.unlink()
            sync(directory)
        data = path.read_bytes()
        if len(data) != KEY or data == bytes(KEY):
            raise StoreProblem(f"the batch key {path} has {len(data)} bytes where {KEY} are due")
        return data
