"""Who may operate: by a text token, or by a password and then a session that ends.

Passwords are kept as Argon2id hashes. Tokens and sessions are 32 random bytes, which nobody guesses: of them SHA-256 is
kept. The holder of the server's own secret, its setting `admin`, is an operator too.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from croupier.checks import InvalidParameter
from croupier.messages.signing import to_text
from croupier.service.keys import bearer_hash
from croupier.service.store import AnalyzerStore
from croupier.service.store.operators import Account

ADMIN = "admin"
"""What the holder of the server's own secret is called."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
SHORTEST, LONGEST = 10, 200
"""Characters of a password."""
MEMORY, PASSES, LANES = 2**16, 3, 4
"""What a guess costs: 64 MiB, three times over; the second choice of RFC 9106."""


@dataclass(frozen=True)
class Session:
    """Somebody who is logged in: what their browser shows, and until when."""

    operator: str
    cookie: str
    expires: float

    @property
    def csrf(self) -> str:
        """What only a page of this server can have read, and shows with whatever changes something."""
        return to_text(hmac.digest(self.cookie.encode(), b"croupier/2 csrf", "sha256"))


def check_operator(name: object) -> str:
    """A name that somebody can have."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == ADMIN:
        raise InvalidParameter("operator", str(name)[:60], f"1 to 63 letters, digits and ._@-, and not {ADMIN!r}")
    return name


def new_account(name: str, password: str) -> tuple[Account, str]:
    """An operator with a password, or without one if it is empty, and a new text token, which is shown once."""
    check_operator(name)
    if password and not SHORTEST <= len(password) <= LONGEST:
        raise InvalidParameter("password", f"{len(password)} characters", f"{SHORTEST} to {LONGEST} characters")
    token = secrets.token_urlsafe(32)
    return Account(name, _hashed(password) if password else "", bearer_hash(token)), token


class Operators:
    """Those who may operate, and their sessions, which last `lasts` seconds."""

    def __init__(self, store: AnalyzerStore, admin: str, lasts: float, clock: Callable[[], float]) -> None:
        self.store, self.lasts, self.clock = store, lasts, clock
        self._admin = admin

    @cached_property
    def _nobody(self) -> str:
        """Who guesses names learns nothing from the time that it takes."""
        return _hashed(secrets.token_urlsafe(16))

    def of_token(self, token: str) -> str | None:
        """Whose text token this is."""
        known = bearer_hash(token)
        if hmac.compare_digest(known, self._admin):
            return ADMIN
        account = self.store.operator_with(known)
        return None if account is None else account.name

    def of_password(self, name: str, secret: str) -> str | None:
        """Whose password this is: that of this name, or nobody's."""
        account = self.store.operator(name)
        known, nobody = "" if account is None else account.password, self._nobody
        return name if _fits(secret, known or nobody) and known else None

    def begin(self, operator: str) -> Session:
        """Log somebody in."""
        now, cookie = self.clock(), secrets.token_urlsafe(32)
        self.store.begin_session(_mark(cookie), operator, now, now + self.lasts)
        return Session(operator, cookie, now + self.lasts)

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie, unless it has ended."""
        known = self.store.session(_mark(cookie))
        return None if known is None or known[1] <= self.clock() else Session(known[0], cookie, known[1])

    def end(self, session: Session) -> None:
        """Log somebody out."""
        self.store.end_session(_mark(session.cookie))


def _mark(cookie: str) -> str:
    return hashlib.sha256(b"croupier/2 session\0" + cookie.encode()).hexdigest()


def _hashed(password: str) -> str:
    made = Argon2id(salt=os.urandom(16), length=32, iterations=PASSES, lanes=LANES, memory_cost=MEMORY)
    return made.derive_phc_encoded(password.encode())


def _fits(password: str, known: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(password.encode(), known)
    except InvalidKey:
        return False
    return True
