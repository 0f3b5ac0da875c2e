"""Every refusal of the service, in one table: RFC 9457 problem documents named urn:croupier:error:<token>."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from croupier.checks import CroupierError

URN = "urn:croupier:error:"


@dataclass(frozen=True)
class Kind:
    """One kind of refusal: its HTTP status and what it means."""

    status: int
    title: str


PROBLEMS: dict[str, Kind] = {
    "bad-request": Kind(400, "The request is not well formed"),
    "malformed-report": Kind(400, "The report is not well formed"),
    "unopenable-report": Kind(400, "The report does not open with the front's key under this configuration"),
    "unauthorized": Kind(401, "A valid bearer token is needed"),
    "bad-token": Kind(403, "The one-time token is not one that this front issued for this offer"),
    "token-expired": Kind(403, "The one-time token has expired"),
    "not-admitted": Kind(403, "The front does not admit this request"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-experiment": Kind(404, "There is no such experiment"),
    "unknown-configuration": Kind(404, "There is no such configuration of this experiment"),
    "unknown-rule": Kind(404, "There is no such rule of this experiment"),
    "unknown-batch": Kind(404, "There is no such batch"),
    "no-such-format": Kind(406, "This server cannot write this format"),
    "method-not-allowed": Kind(405, "The method does not apply here"),
    "too-slow": Kind(408, "The body did not come in time; try again"),
    "nothing-open": Kind(409, "There is no turn to take right now"),
    "token-spent": Kind(409, "The one-time token was used for another report"),
    "batch-closed": Kind(409, "The batch has all its reports or has expired; this report is not used"),
    "not-released": Kind(409, "The batch is not ready to be released"),
    "configuration-conflict": Kind(409, "This revision exists with other contents, or an older one was sent"),
    "offer-conflict": Kind(409, "This offer or batch exists with other contents"),
    "head-conflict": Kind(409, "The log that was countersigned is longer than this one, or another"),
    "operation-refused": Kind(409, "The program does not accept this operation"),
    "experiment-finished": Kind(410, "The experiment has ended"),
    "already-released": Kind(410, "The batch was released and acknowledged; its messages are deleted"),
    "batch-expired": Kind(410, "The batch did not fill in time; its messages are deleted"),
    "too-large": Kind(413, "The body is too large"),
    "wrong-type": Kind(415, "The body has another media type than this resource takes"),
    "wrong-shape": Kind(422, "The report has not as many messages, or not as long ones, as its batches take"),
    "wrong-batch": Kind(422, "The report names other batches than its offer"),
    "not-covered": Kind(422, "The offer goes beyond what the signed configuration promises"),
    "cross-site": Kind(403, "This does not come from this server's own page"),
    "name-taken": Kind(409, "There is an experiment with this name, or there was one"),
    "bad-signature": Kind(422, "A signature is missing or does not fit"),
    "broken-promise": Kind(409, "A later revision would change what was promised"),
    "beyond-policy": Kind(422, "This front does not serve experiments with this privacy"),
    "too-busy": Kind(429, "Too many requests at once; try again later"),
    "internal": Kind(500, "Something went wrong here"),
    "not-ready": Kind(503, "The server is not ready"),
}
"""Every refusal by its token."""


class Problem(CroupierError):
    """A refusal with a name from `PROBLEMS`; `retry_after` in seconds where waiting helps."""

    def __init__(self, token: str, detail: str = "", *, retry_after: float | None = None) -> None:
        assert token in PROBLEMS, token
        super().__init__(f"{token}: {detail or PROBLEMS[token].title}")
        self.token, self.detail, self.retry_after = token, detail, retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.token, self.detail), {"retry_after": self.retry_after}

    @property
    def status(self) -> int:
        return PROBLEMS[self.token].status

    def document(self) -> bytes:
        """The body of the answer."""
        kind = PROBLEMS[self.token]
        body: dict[str, object] = {"type": URN + self.token, "title": kind.title, "status": kind.status}
        if self.detail:
            body["detail"] = self.detail
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        return json.dumps(body, ensure_ascii=False).encode()


def kind_of(error: BaseException) -> str:
    """What an unforeseen error is, and a database's own name for it: its message might quote a request."""
    cause = getattr(error, "orig", None)
    name = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
    return f"{type(error).__name__} ({name})" if name else type(error).__name__
