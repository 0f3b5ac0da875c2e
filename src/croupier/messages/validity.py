"""Whether reports prove that they are in range, as both servers sign it, and the key that the servers check with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from croupier.checks import InvalidParameter, one_of
from croupier.messages.signing import from_text, to_text

VALIDITIES = ("prio3", "none")
HASH = 32


@dataclass(frozen=True)
class Validity:
    """How a report shows that its value is in range; `key` is the hash of the key that both servers check proofs with.

    The key itself is theirs alone: a client that knew it could prove anything.

    >>> Validity.checked_with(bytes(32)).proved, NOT_PROVED.proved
    (True, False)
    """

    kind: str
    key: bytes | None = None

    def __post_init__(self) -> None:
        one_of("validity", self.kind, VALIDITIES)
        if (None if self.key is None else len(self.key)) != (HASH if self.proved else None):
            shown = None if self.key is None else to_text(self.key)[:60]
            raise InvalidParameter("validity.key", shown, "a hash of 32 bytes with prio3, and left out with none")

    @classmethod
    def checked_with(cls, key: bytes) -> Validity:
        """Proofs of Prio3, checked with this key."""
        return cls("prio3", hashlib.sha256(key).digest())

    @property
    def proved(self) -> bool:
        return self.kind == "prio3"

    def is_checked_with(self, key: bytes | None) -> bool:
        """Whether this is the key that was signed."""
        return key is not None and self == Validity.checked_with(key)

    def to_dict(self) -> dict[str, str]:
        return {"kind": self.kind} | ({} if self.key is None else {"key": to_text(self.key)})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Validity:
        body = dict(data)
        if "key" in body:
            body["key"] = from_text("validity.key", body["key"])
        return cls(**body)


NOT_PROVED = Validity("none")
