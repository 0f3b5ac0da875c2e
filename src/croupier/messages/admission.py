"""Who may take part, as both servers sign it: everybody, or who shows something of an issuer's.

Another way of admitting people is a `Kind` and a row in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.checks import InvalidParameter, one_of
from croupier.messages.admittance import Door, Kind
from croupier.messages.blind_tokens import Tokens
from croupier.messages.signing import from_text, to_text
from croupier.messages.tickets import Tickets


class Everybody(Kind):
    """Nobody has to show anything."""

    name = "everybody"
    key = ""

    def words(self, _: bytes) -> str:
        return self.name

    def check(self, _issuer: bytes, _shown: bytes, _door: Door) -> None:
        return None


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Everybody(), Tickets(), Tokens())}
ADMISSIONS = tuple(KINDS)


@dataclass(frozen=True)
class Admission:
    """Whom the front lets take part, and the public key of who issues what they show.

    >>> EVERYBODY.words, Admission("tickets", bytes(32)).issuer == bytes(32)
    ('everybody', True)
    """

    kind: str
    issuer: bytes | None = None

    def __post_init__(self) -> None:
        one_of("admission", self.kind, ADMISSIONS)
        if not self._kind.fits(self.issuer):
            key = f"{self._kind.key} of {self._kind.key_length} bytes" if self._kind.key else "left out"
            shown = None if self.issuer is None else to_text(self.issuer)[:60]
            raise InvalidParameter("issuer", shown, f"{key} with admission = {self.kind!r}")

    @property
    def _kind(self) -> Kind:
        return KINDS[self.kind]

    @property
    def words(self) -> str:
        """Who is admitted, in words."""
        return self._kind.words(self.issuer or b"")

    @property
    def lasting(self) -> bool:
        """Whether what is shown has no end, so that what was spent is remembered for good."""
        return self._kind.lasting

    def check(self, shown: bytes, door: Door) -> bytes | None:
        """The name under which what was shown is spent, or `NotAdmitted`; None where everybody is admitted."""
        return self._kind.check(self.issuer or b"", shown, door)

    def to_dict(self) -> dict[str, str]:
        return {"kind": self.kind} | ({} if self.issuer is None else {"issuer": to_text(self.issuer)})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Admission:
        body = dict(data)
        if "issuer" in body:
            body["issuer"] = from_text("issuer", body["issuer"])
        return cls(**body)


EVERYBODY = Admission("everybody")
