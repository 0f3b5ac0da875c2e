"""The JSON part of both servers' HTTP as OpenAPI 3.1, from one table of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier import __version__
from croupier.service.problems import PROBLEMS, URN

Schema = dict[str, Any]

NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$"}}
STATEMENT: Schema = {
    "type": "object",
    "description": "A text and who signed exactly that text; see docs/wire.md.",
    "required": ["body", "signatures"],
    "properties": {
        "body": {"type": "string"},
        "signatures": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
OBJECT: Schema = {"type": "object"}


@dataclass(frozen=True)
class Operation:
    """One request: what it does, whether it needs a bearer token, what goes in, what comes out, how it is refused."""

    method: str
    path: str
    summary: str
    status: int = 200
    answer: Schema | None = None
    body: Schema | None = None
    bearer: bool = False
    refusals: tuple[str, ...] = ()
    media: str = "application/json"

    def to_dict(self) -> Schema:
        content = {} if self.answer is None else {"content": {self.media: {"schema": self.answer}}}
        responses: Schema = {str(self.status): {"description": self.summary} | content}
        for token in (*self.refusals, *(("unauthorized",) if self.bearer else ())):
            status = str(PROBLEMS[token].status)
            known = responses.setdefault(status, {"description": "", "content": _PROBLEM})
            known["description"] = "; ".join(filter(None, [known["description"], f"{token}: {PROBLEMS[token].title}"]))
        found: Schema = {"summary": self.summary, "responses": responses}
        names = [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
        if names:
            found["parameters"] = [NAME if name == "name" else _parameter(name) for name in names]
        if self.body is not None:
            found["requestBody"] = {"required": True, "content": {"application/json": {"schema": self.body}}}
        if self.bearer:
            found["security"] = [{"bearer": []}]
        return found


_PROBLEM: Schema = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def _parameter(name: str) -> Schema:
    kind = {"type": "string"} if name in ("hash", "page") else {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
    return {"name": name, "in": "path", "required": True, "schema": kind}


_BASE = "/experiments/{name}"
_BATCH = _BASE + "/batches/{batch}"
_OFFER: Schema = {
    "type": "object",
    "required": ["offer"],
    "properties": {"offer": STATEMENT, "deadline": {"type": ["number", "null"]}},
}
_TURN: Schema = {
    "type": "object",
    "required": ["offer", "token", "expires"],
    "properties": {"offer": STATEMENT, "token": {"type": "string"}, "expires": {"type": "integer"}},
}
_OPERATE: Schema = {
    "type": "object",
    "required": ["operation"],
    "properties": {
        "operation": {"enum": ["pause", "resume", "retire", "add", "stop"]},
        "arm": {"type": "integer", "minimum": 0},
        "name": {"type": "string"},
    },
}
_COMMON = (
    Operation("get", "/healthz", "The process is alive", answer=OBJECT),
    Operation("get", "/readyz", "The server can do its work", answer=OBJECT, refusals=("not-ready",)),
    Operation("get", "/metrics", "Counts for Prometheus", answer={"type": "string"}, media="text/plain"),
)
_UNKNOWN = ("unknown-experiment",)
_WRITES = ("bad-request", "wrong-type", "too-large", "bad-signature")

SHUFFLER = (
    *_COMMON,
    Operation("get", "/keys", "The shuffler's public keys", answer=OBJECT),
    Operation("get", _BASE, "The signed configuration", answer=STATEMENT, refusals=_UNKNOWN),
    Operation(
        "put",
        _BASE,
        "Register a configuration that the analyzer signed",
        answer=STATEMENT,
        body=STATEMENT,
        bearer=True,
        refusals=(*_WRITES, "configuration-conflict", "beyond-policy"),
    ),
    Operation(
        "get",
        _BASE + "/configurations/{hash}",
        "A configuration by its hash",
        answer=STATEMENT,
        refusals=("unknown-configuration", "bad-request"),
    ),
    Operation(
        "put",
        _BASE + "/offers/{offer}",
        "Open an offer and its batches",
        answer=STATEMENT,
        body=_OFFER,
        bearer=True,
        refusals=(
            *_WRITES,
            "unknown-configuration",
            "offer-conflict",
            "not-covered",
            "not-found",
            "experiment-finished",
        ),
    ),
    Operation(
        "post",
        _BASE + "/assignments",
        "Take a turn; with `Prefer: wait=5` the request is held until there is one",
        201,
        _TURN,
        refusals=(*_UNKNOWN, "nothing-open", "not-admitted", "bad-request", "experiment-finished", "too-busy"),
    ),
    Operation("get", _BASE + "/batches", "Public counts of all batches", answer=OBJECT, refusals=_UNKNOWN),
    Operation(
        "get",
        _BATCH + "/receipt",
        "What a released batch is, signed by the shuffler",
        answer=STATEMENT,
        refusals=("unknown-batch", "not-found", "not-released", "batch-expired"),
    ),
    Operation(
        "delete",
        _BATCH + "/messages",
        "Acknowledge a released batch: its messages are deleted",
        204,
        bearer=True,
        refusals=("unknown-batch", "not-found", "not-released", "batch-expired"),
    ),
    Operation("delete", _BATCH, "Delete an open batch", 204, bearer=True, refusals=("unknown-batch", "not-found")),
    Operation("post", _BASE + "/finish", "The experiment has ended", 204, bearer=True, refusals=_UNKNOWN),
)

ANALYZER = (
    *_COMMON,
    Operation("get", "/experiments", "Every experiment, in short", answer=OBJECT),
    Operation("get", _BASE, "The signed configuration", answer=STATEMENT, refusals=(*_UNKNOWN, "not-ready")),
    Operation("get", _BASE + "/state", "The live state", answer=OBJECT, refusals=_UNKNOWN),
    Operation("get", _BASE + "/participation", "What a participant sends", answer=OBJECT, refusals=_UNKNOWN),
    Operation(
        "get",
        _BASE + "/transcript",
        "The log, a record a line",
        answer={"type": "string"},
        media="application/jsonl",
        refusals=_UNKNOWN,
    ),
    Operation(
        "post",
        _BASE + "/operations",
        "Pause, resume, retire or add an arm, or stop",
        answer=OBJECT,
        body=_OPERATE,
        bearer=True,
        refusals=(*_UNKNOWN, "bad-request", "wrong-type", "too-large", "operation-refused"),
    ),
)


def document(title: str, operations: tuple[Operation, ...]) -> Schema:
    """The whole description of one server."""
    paths: Schema = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation.to_dict()
    problem = {
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"enum": [URN + token for token in PROBLEMS]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"croupier {title}", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
