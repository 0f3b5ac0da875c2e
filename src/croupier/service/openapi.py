"""A server's HTTP as OpenAPI 3.1, from its table of requests (see `http_operations`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from croupier import __version__
from croupier.messages.configuration import NAME
from croupier.service.exports import FORMATS, TABLES
from croupier.service.pages import PAGES
from croupier.service.problems import PROBLEMS, URN
from croupier.service.schemas import BASE64, TEXT, Schema, fields

MESSAGES_TYPE = "application/vnd.croupier.messages"
GROUP_TYPE = "application/vnd.croupier.group"
JSON = "application/json"
MOST_NUMBER = 2**32 - 1
MOST_BATCHES = 1000
"""Batches that are shown at a time: anybody may ask."""
MOST_LINES = 10_000
"""Lines of a log whose digests are shown at a time."""

PARAMETERS: dict[str, Schema] = {
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "hash": BASE64 | {"minLength": 1},
    "page": {"enum": list(PAGES)},
    "table": {"enum": list(TABLES)},
    "format": {"enum": list(FORMATS)},
}
WHOLE: Schema = {"type": "integer", "minimum": 0, "maximum": MOST_NUMBER}
SINCE = {"name": "since", "in": "query", "description": "batches from this one on", "schema": WHOLE}
PREFER = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=5`: hold the request up to so many seconds until there is a turn (RFC 7240)",
    "schema": TEXT,
}
TICKET = {"name": "Croupier-Ticket", "in": "header", "description": "a ticket or token, as base64", "schema": BASE64}


@dataclass(frozen=True)
class Operation:
    """One request: what it does, who may ask it, what goes in, what comes out, how it is refused.

    `bearer`: the other server's token is needed. `operator`: an operator's token or session is, always or, where it is
    `"private"`, for experiments that are.
    """

    method: str
    path: str
    summary: str
    answer: Schema | None = None
    body: Schema | None = None
    bearer: bool = False
    refusals: tuple[str, ...] = ()
    status: tuple[int, ...] = (200,)
    media: tuple[str, ...] = (JSON,)
    takes: str = JSON
    parameters: tuple[Schema, ...] = ()
    operator: bool | str = False

    @property
    def problems(self) -> tuple[str, ...]:
        """Every problem that this can be answered with."""
        named = "{" in self.path
        guarded = ("unauthorized",) if self.bearer or self.operator else ()
        changes = ("cross-site",) if self.operator and self.method != "get" else ()
        own = (*self.refusals, *guarded, *changes, *(("not-found",) if named else ()))
        return tuple(token for token in PROBLEMS if token in (*own, "internal"))

    def to_dict(self) -> Schema:
        content = {} if self.answer is None else {"content": {kind: {"schema": self.answer} for kind in self.media}}
        responses: Schema = {
            str(status): {"description": self.summary} | (content if status != 204 else {}) for status in self.status
        }
        for status in sorted({PROBLEMS[token].status for token in self.problems}):
            responses[str(status)] = _refusal([t for t in self.problems if PROBLEMS[t].status == status])
        operation: Schema = {"summary": self.summary, "responses": responses}
        names = re.findall(r"{(\w+)}", self.path)
        parameters = [{"name": n, "in": "path", "required": True, "schema": PARAMETERS.get(n, WHOLE)} for n in names]
        if parameters or self.parameters:
            operation["parameters"] = [*parameters, *self.parameters]
        if self.body is not None:
            operation["requestBody"] = {"required": True, "content": {self.takes: {"schema": self.body}}}
        if self.bearer:
            operation["security"] = [{"bearer": []}]
        if self.operator:
            cookie: Schema = {"session": []} | ({} if self.method == "get" else {"csrf": []})
            operation["security"] = [*([] if self.operator is True else [{}]), {"bearer": []}, cookie]
        return operation


def _refusal(tokens: list[str]) -> Schema:
    """One status, and exactly the problems that come with it here."""
    kind = {"properties": {"type": {"enum": [URN + token for token in tokens]}}}
    schema = {"allOf": [{"$ref": "#/components/schemas/Problem"}, kind]}
    return {
        "description": "; ".join(f"{token}: {PROBLEMS[token].title}" for token in tokens),
        "content": {"application/problem+json": {"schema": schema}},
        "headers": {
            "Retry-After": {"description": "seconds, where waiting helps", "schema": {"type": "integer", "minimum": 1}}
        },
    }


def document(title: str, operations: tuple[Operation, ...]) -> Schema:
    """The whole description of one server."""
    paths: Schema = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation.to_dict()
    problem = fields(type=TEXT, title=TEXT, status={"type": "integer"})
    problem["properties"] |= {
        "detail": TEXT,
        "retry_after": {"type": "number", "minimum": 0, "description": "seconds; as Retry-After, but not rounded up"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"croupier {title}", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-croupier"},
                "csrf": {"type": "apiKey", "in": "header", "name": "Croupier-CSRF"},
            },
        },
    }
