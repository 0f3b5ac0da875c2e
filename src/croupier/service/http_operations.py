"""Every request that a server answers, a row each: what goes in, what comes out, how it is refused."""

from __future__ import annotations

from typing import Any

from croupier.client.device import REPORT_TYPE
from croupier.service.exports import FORMATS
from croupier.service.openapi import (
    GROUP_TYPE,
    MESSAGES_TYPE,
    MOST_BATCHES,
    PREFER,
    SINCE,
    TICKET,
    Operation,
)
from croupier.service.pages import PAGES
from croupier.service.schemas import (
    ADMISSION,
    ANY,
    AUDITED,
    BASE64,
    COUNT,
    COUNTS,
    CREATE,
    LOGIN,
    OFFER,
    OPERATE,
    PARTICIPATION,
    REGISTERED,
    SESSION,
    SHORT,
    STANDING,
    STATE,
    STATEMENT,
    SUITE_KEYS,
    TEXT,
    Schema,
    array,
    fields,
    optional,
)


def _get(path: str, summary: str, answer: Schema, *refusals: str, **more: Any) -> Operation:
    return Operation("get", path, summary, answer, refusals=refusals, **more)


def _tell(path: str, summary: str, *refusals: str) -> Operation:
    return Operation("post", path, summary, bearer=True, refusals=refusals, status=(204,))


_BASE = "/experiments/{name}"
_BATCH = _BASE + "/batches/{batch}"
_UNKNOWN = "unknown-experiment"
_WRITES = ("bad-request", "wrong-type", "too-large", "too-slow")
_RELEASE = ("unknown-batch", "not-released", "batch-expired")
_BINARY: Schema = {"type": "string", "format": "binary"}
_COMMON = (
    _get("/healthz", "The process is alive", fields(status={"const": "alive"})),
    _get("/readyz", "The server can do its work", fields(status={"const": "ready"}), "not-ready"),
    _get("/openapi.json", "This description", fields(openapi=TEXT, paths=ANY)),
)

FRONT = (
    *_COMMON,
    _get("/metrics", "Counts for Prometheus", TEXT, media=("text/plain",)),
    _get("/keys", "The front's public keys", fields(verify=BASE64, seal=SUITE_KEYS, admission=ADMISSION)),
    _get(_BASE, "The signed configuration", STATEMENT, _UNKNOWN),
    Operation(
        "put",
        _BASE,
        "Register a configuration that the analyzer signed",
        STATEMENT,
        REGISTERED,
        True,
        (*_WRITES, "bad-signature", "broken-promise", "configuration-conflict", "beyond-policy"),
    ),
    _get(
        _BASE + "/configurations/{hash}",
        "A configuration by its hash",
        STATEMENT,
        "unknown-configuration",
        "bad-request",
    ),
    _get(
        _BASE + "/rules/{hash}",
        "The rule that devices choose by, by the hash that its offer names",
        ANY,
        "unknown-rule",
        "bad-request",
    ),
    Operation(
        "put",
        _BASE + "/offers/{offer}",
        "Open an offer and its batches",
        STATEMENT,
        OFFER,
        True,
        (
            *_WRITES,
            "bad-signature",
            "unknown-configuration",
            "offer-conflict",
            "not-covered",
            "beyond-policy",
            "experiment-finished",
        ),
    ),
    _get(_BASE + "/head", "The newest head of the analyzer's log that was countersigned", STATEMENT, _UNKNOWN),
    Operation(
        "put",
        _BASE + "/head",
        "Countersign the head of the analyzer's log, with the digests of the lines since the last one",
        fields(head=STATEMENT, lines=array(BASE64)),
        STATEMENT,
        True,
        (*_WRITES, _UNKNOWN, "bad-signature", "head-conflict"),
    ),
    Operation(
        "post",
        _BASE + "/assignments",
        "Take a turn",
        fields(offer=STATEMENT, token=BASE64, expires=COUNT),
        refusals=(_UNKNOWN, "nothing-open", "not-admitted", "bad-request", "experiment-finished", "too-busy"),
        status=(201,),
        parameters=(PREFER, TICKET),
    ),
    Operation(
        "post",
        _BASE + "/reports",
        "Report; 201 when it counts, 200 when it was sent before",
        fields(status={"enum": ["accepted", "repeated"]}),
        _BINARY,
        refusals=(
            *_WRITES,
            _UNKNOWN,
            "malformed-report",
            "unopenable-report",
            "bad-token",
            "token-expired",
            "token-spent",
            "batch-closed",
            "experiment-finished",
            "wrong-batch",
            "wrong-shape",
            "too-busy",
        ),
        status=(201, 200),
        takes=REPORT_TYPE,
    ),
    _get(
        _BASE + "/batches",
        f"Public counts of the batches, {MOST_BATCHES} at a time",
        COUNTS,
        _UNKNOWN,
        "bad-request",
        "unauthorized",
        parameters=(SINCE,),
    ),
    _get(_BATCH + "/receipt", "What a released batch is, signed by the front", STATEMENT, *_RELEASE, "unauthorized"),
    _get(
        _BATCH + "/messages/{part}",
        "One part of a released batch's messages",
        _BINARY,
        *_RELEASE,
        "already-released",
        bearer=True,
        media=(MESSAGES_TYPE,),
    ),
    Operation(
        "delete",
        _BATCH + "/messages",
        "Acknowledge a released batch: its messages are deleted",
        bearer=True,
        refusals=_RELEASE,
        status=(204,),
    ),
    _get(_BATCH + "/share", "The front's answer for a batch in shares", STATEMENT, *_RELEASE, bearer=True),
    Operation(
        "get",
        _BASE + "/groups",
        "The next reports in shares to be settled; 204 when there are none",
        _BINARY,
        bearer=True,
        refusals=(_UNKNOWN,),
        status=(200, 204),
        media=(GROUP_TYPE,),
    ),
    Operation(
        "post",
        _BASE + "/groups/{group}",
        "Settle a group: what becomes of each report; the answer is the next group",
        _BINARY,
        _BINARY,
        True,
        (*_WRITES, _UNKNOWN),
        status=(200, 204),
        media=(GROUP_TYPE,),
        takes="application/octet-stream",
    ),
    Operation("delete", _BATCH, "Delete an open batch", bearer=True, refusals=("unknown-batch",), status=(204,)),
    _tell(_BATCH + "/close", "A batch in shares closes with what it has", "unknown-batch"),
    _tell(_BASE + "/close", "Open blocks close now", _UNKNOWN),
    _tell(_BASE + "/pause", "Deal nobody a turn for now", _UNKNOWN),
    _tell(_BASE + "/resume", "Deal turns again", _UNKNOWN),
    _tell(_BASE + "/finish", "The experiment has ended", _UNKNOWN),
)

ANALYZER = (
    *_COMMON,
    _get(
        "/metrics",
        "Counts for Prometheus; those of private experiments to operators",
        TEXT,
        operator="private",
        media=("text/plain",),
    ),
    _get("/session", "Who is logged in", SESSION),
    Operation(
        "post",
        "/session",
        "Log in, with a password or a text token",
        SESSION,
        LOGIN,
        refusals=(*_WRITES, "unauthorized", "cross-site", "too-busy"),
    ),
    Operation("delete", "/session", "Log out", refusals=("cross-site",), status=(204,)),
    _get("/audit", "Who did what, the newest last", fields(audit=array(AUDITED)), operator=True),
    _get("/audit.{format}", "All of it as rows", {}, "no-such-format", operator=True, media=tuple(FORMATS.values())),
    _get("/", "The dashboard", TEXT, media=("text/html",)),
    _get("/participate/{name}", "A participant's page", TEXT, media=("text/html",)),
    _get("/pages/{page}", "What the pages are made of", TEXT, media=tuple(dict.fromkeys(PAGES.values()))),
    _get(
        "/experiments",
        "Every experiment, in short",
        fields(experiments=array(SHORT), formats=array({"enum": list(FORMATS)})),
        operator="private",
    ),
    Operation(
        "post",
        "/experiments",
        "Create an experiment, and start it if wanted",
        SHORT,
        CREATE,
        operator=True,
        refusals=(*_WRITES, "name-taken"),
        status=(201,),
    ),
    _get(_BASE, "The signed configuration", STATEMENT, _UNKNOWN, "not-ready"),
    _get(_BASE + "/state", "The live state", STATE, _UNKNOWN, operator="private"),
    _get(
        _BASE + "/live",
        "The live state whenever it changes",
        TEXT,
        _UNKNOWN,
        "too-busy",
        operator="private",
        media=("text/event-stream",),
    ),
    _get(_BASE + "/participation", "What a participant sends", PARTICIPATION, _UNKNOWN),
    _get(
        _BASE + "/transcript",
        "The log, a record a line",
        TEXT,
        _UNKNOWN,
        operator="private",
        media=("application/jsonl",),
    ),
    _get(
        _BASE + "/tables/{table}.{format}",
        "Batches as they came, how the experiment stands, or how its estimates went, as rows",
        {},
        _UNKNOWN,
        "no-such-format",
        operator="private",
        media=tuple(FORMATS.values()),
    ),
    Operation(
        "post",
        _BASE + "/operations",
        "Start, pause, resume, stop or archive an experiment; pause, resume, retire or add an arm",
        fields(record=optional(COUNT), standing=STANDING),
        OPERATE,
        operator=True,
        refusals=(*_WRITES, _UNKNOWN, "operation-refused", "not-ready"),
    ),
)
