"""What lies in the front's store is unreadable without a key that is not in the store.

A database keeps more than its tables: logs, dead rows, replicas and backups hold every state in the order it was
written. So messages are written encrypted, and what was spent is written as keyed marks: whoever has all of that, and
not the key, finds no message, no report id and no token, and an order of marks that says nothing.
"""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from croupier.service.store.database import StoreProblem

NONCE = 12


class Vault:
    """Encrypts with AES-256-GCM, under a key for each batch, which keeps random nonces far from their limit.

    >>> vault = Vault(bytes(32))
    >>> hidden = vault.hide("homepage", 3, b"pool", b"sealed messages")
    >>> b"sealed" in hidden, vault.show("homepage", 3, b"pool", hidden)
    (False, b'sealed messages')
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = lru_cache(maxsize=1024)(self._cipher_of)

    @property
    def own_mark(self) -> bytes:
        """What the key itself is known by."""
        return self.mark(b"key", b"")

    def _cipher_of(self, experiment: str, batch: int) -> AESGCM:
        return AESGCM(hmac.digest(self._key, b"croupier/2 batch\0%s\0%d" % (experiment.encode(), batch), "sha256"))

    def hide(self, experiment: str, batch: int, place: bytes, payload: bytes) -> bytes:
        """The payload, encrypted; it can be read at this place alone."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._cipher(experiment, batch).encrypt(nonce, payload, place)

    def show(self, experiment: str, batch: int, place: bytes, hidden: bytes) -> bytes:
        """What was hidden there."""
        try:
            return self._cipher(experiment, batch).decrypt(hidden[:NONCE], hidden[NONCE:], place)
        except (InvalidTag, ValueError):
            problem = f"batch {batch} of {experiment} does not decrypt: another key, or a changed store"
            raise StoreProblem(problem) from None

    def mark(self, kind: bytes, thing: bytes) -> bytes:
        """What a thing is known by again, and nothing else can be learned from."""
        return hmac.digest(self._key, b"croupier/2 mark\0" + kind + b"\0" + thing, "sha256")
