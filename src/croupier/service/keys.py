"""A server's secret keys on disk: made on first use, readable by their owner alone, replaced without losing the old.

One directory a server: `sign` (Ed25519), `token` (the front's key for one-time tokens), `store` (the one that its
store is encrypted with), `proofs` (the analyzer's: what keys of proofs are derived from) and `seal-NUMBER.json` (one
sealing key a suite and rotation). An issuer of blind tokens has `tokens.pem`, too. Bearer secrets, which one party
shows another, are files of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from croupier.checks import CroupierError, InvalidParameter
from croupier.client.account import write_atomically
from croupier.messages.configuration import ServerKeys
from croupier.messages.sealing import DEFAULT_SUITE, key_id, suite
from croupier.messages.signing import from_text, to_text
from croupier.service.issuing import TokenIssuer, make_key
from croupier.service.shredding import finish, shred, sync

SECRETS = ("token", "store", "proofs")
"""Files of 32 random bytes."""
BATCH_KEYS, ANSWERED = "batches", "answered"
"""Beside a server's keys: the directory of those that live as long as a batch, and how many answers it has given."""


class KeyProblem(CroupierError):
    """A key that is missing, unreadable, or readable by others."""


@dataclass(frozen=True)
class SealingKey:
    """One private sealing key."""

    number: int
    suite: str
    private: bytes
    made: float = 0.0
    """When, in Unix time; 0 where that is not known."""

    @cached_property
    def public(self) -> bytes:
        return suite(self.suite).public_of(self.private)

    @cached_property
    def id(self) -> bytes:
        return key_id(self.public)


@dataclass(frozen=True)
class Keys:
    """All secret keys of one server; the newest sealing key of a suite is the one in use."""

    sign: Ed25519PrivateKey
    token: bytes
    store: bytes
    proofs: bytes
    sealing: tuple[SealingKey, ...]

    def proof_key(self, experiment: str) -> bytes:
        """What proofs of an experiment are checked with, by both servers: no client must know it."""
        return hmac.digest(self.proofs, b"croupier/2 proofs\0" + experiment.encode(), "sha256")

    def newest(self, suite_name: str) -> SealingKey:
        keys = [key for key in self.sealing if key.suite == suite_name]
        if not keys:
            remedy = f"`croupier serve keys DIR --suite {suite_name}` makes one"
            raise KeyProblem(f"there is no sealing key for {suite_name}: {remedy}")
        return keys[-1]

    def without(self, gone: Collection[bytes]) -> Keys:
        """Those that are left without some sealing keys, by their ids."""
        return replace(self, sealing=tuple(key for key in self.sealing if key.id not in gone))

    def by_id(self, wanted: bytes) -> SealingKey | None:
        return next((key for key in self.sealing if key.id == wanted), None)

    @property
    def verify(self) -> bytes:
        return self.sign.public_key().public_bytes_raw()

    def public(self, suite_name: str) -> ServerKeys:
        return ServerKeys(self.newest(suite_name).public, self.verify)


def load(directory: Path) -> Keys:
    """Read a server's keys; a missing one is an error, since a server must not start as somebody else."""
    if not directory.is_dir():
        raise KeyProblem(f"there are no keys in {directory}: make them with `croupier serve keys {directory}`")
    finish(directory)
    sign = Ed25519PrivateKey.from_private_bytes(_read(directory / "sign"))
    secret = {name: _read(directory / name) for name in SECRETS}
    return Keys(sign, sealing=tuple(_sealing(directory)), **secret)


def make(directory: Path, *, suites: tuple[str, ...] = (DEFAULT_SUITE,)) -> Keys:
    """Make whatever keys are missing, and read them all."""
    with _refusals(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("sign", *SECRETS):
        if not (directory / name).exists():
            renew(directory / name)
    for name in suites:
        if not any(key.suite == name for key in _sealing(directory)):
            rotate(directory, name)
    return load(directory)


def renew(path: Path) -> None:
    """Put a new secret in the place of the one in a file."""
    _write(path, secrets.token_bytes(32))


def rotate(directory: Path, suite_name: str = DEFAULT_SUITE, now: float | None = None, least: int = 1) -> SealingKey:
    """Add a new sealing key; the old ones stay, for the batches that were begun with them."""
    kept = _sealing(directory)
    number = max(least, 1 + max((key.number for key in kept), default=0))
    key = SealingKey(number, suite_name, suite(suite_name).generate(), time.time() if now is None else now)
    body = json.dumps({"suite": key.suite, "private": to_text(key.private), "made": key.made}).encode()
    _write(directory / f"seal-{number:04d}.json", body)
    return key


def destroy(directory: Path, key: SealingKey) -> None:
    """Remove a sealing key for good: nothing that was sealed to it opens any more."""
    path = directory / f"seal-{key.number:04d}.json"
    with _refusals(path):
        shred(path)
        sync(directory)


def destroy_again(directory: Path, keys: Keys, destroyed: Collection[bytes]) -> Collection[bytes]:
    """Destroy the sealing keys that were destroyed before and are here nevertheless; which those are, by id."""
    for key in keys.sealing:
        if key.id in destroyed:
            destroy(directory, key)
    return destroyed


def make_token_issuer(directory: Path) -> TokenIssuer:
    """Who issues blind tokens; its key is made when it is missing."""
    path = directory / "tokens.pem"
    if not path.exists():
        with _refusals(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, make_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return token_issuer(directory)


def token_issuer(directory: Path) -> TokenIssuer:
    """Who issues blind tokens, by the key in this directory."""
    path = directory / "tokens.pem"
    if not path.is_file():
        raise KeyProblem(f"the key {path} is missing: `croupier serve keys {directory} --tokens` makes it")
    _check_mode(path)
    try:
        with _refusals(path):
            return TokenIssuer(load_pem_private_key(path.read_bytes(), None))
    except (ValueError, TypeError, CroupierError) as error:
        raise KeyProblem(f"{path} holds no key for tokens ({error})") from None


def make_bearer(path: Path) -> str:
    """The secret that one party shows another; made when it is missing."""
    if not path.exists():
        with _refusals(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, secrets.token_bytes(32))
    return bearer(path)


def bearer(path: Path) -> str:
    """The secret in a file, as it is shown."""
    return to_text(_read(path))


def public_key(name: str, text: str, what: str = "a public key", length: int = 32) -> bytes:
    """A public key, or a hash, as people paste it: base64, URL-safe or padded or not, or hexadecimal digits.

    >>> public_key("analyzer", "00" * 32) == public_key("analyzer", "A" * 43) == bytes(32)
    True
    """
    try:
        if re.fullmatch(f"[0-9a-fA-F]{{{2 * length}}}", text):
            return bytes.fromhex(text)
        data = from_text(name, text.rstrip("=").replace("+", "-").replace("/", "_"))
    except InvalidParameter:
        data = b""
    if len(data) != length:
        form = f"{what} of {length} bytes, as base64 or {2 * length} hexadecimal digits"
        raise InvalidParameter(name, text[:80], form)
    return data


def bearer_hash(token: str) -> str:
    """What is kept of a bearer token where it is checked."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_matches(token: str, known: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(bearer_hash(token), known)


def _sealing(directory: Path) -> list[SealingKey]:
    keys = []
    for path in sorted(directory.glob("seal-*.json")):
        _check_mode(path)
        try:
            with _refusals(path):
                body = json.loads(path.read_text(encoding="utf-8"))
            number, made = int(path.stem.removeprefix("seal-")), float(body.get("made", 0.0))
            key = SealingKey(number, body["suite"], from_text("private", body["private"]), made)
            suite(key.suite).read_private(key.private)
        except (ValueError, KeyError, TypeError) as error:
            raise KeyProblem(f"{path} holds no sealing key ({error})") from None
        keys.append(key)
    return sorted(keys, key=lambda key: key.number)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise KeyProblem(f"the key {path} is missing")
    _check_mode(path)
    with _refusals(path):
        data = path.read_bytes()
    if len(data) != 32:
        raise KeyProblem(f"the key {path} has {len(data)} bytes where 32 are due")
    return data


def _write(path: Path, data: bytes) -> None:
    with _refusals(path):
        write_atomically(path, data)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """What the system refuses, as one line."""
    try:
        yield
    except OSError as error:
        raise KeyProblem(f"{path} cannot be made or read: {error.strerror}") from None


def _check_mode(path: Path) -> None:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if os.name == "posix" and mode & 0o077:
        raise KeyProblem(f"{path} may be read by others (mode {mode:o}): make it 600")
