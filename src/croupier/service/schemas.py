"""What goes in and out of both servers as JSON, as schemas for their OpenAPI documents."""

from __future__ import annotations

from typing import Any

from croupier.messages.sealing import SUITES
from croupier.messages.validity import VALIDITIES
from croupier.programs import OPERATIONS

Schema = dict[str, Any]

LONGEST_ARM = 200

TEXT: Schema = {"type": "string"}
BASE64: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]*$"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": ["number", "null"], "description": "null where it is infinite"}
ANY: Schema = {"type": "object"}


def fields(**properties: Schema) -> Schema:
    """An object that has all of these."""
    return {"type": "object", "required": list(properties), "properties": properties}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


STATEMENT: Schema = fields(body=TEXT, signatures={"type": "object", "additionalProperties": BASE64}) | {
    "description": "A text and who signed exactly that text; see docs/wire.md."
}
REGISTERED: Schema = STATEMENT | {
    "properties": STATEMENT["properties"] | {"proof_key": BASE64, "void": {"type": "array", "items": BASE64}},
    "description": "A configuration; with it the key that both servers check proofs with, where reports come with any, "
    "and the hashes of those under which the analyzer can open no report any more.",
}
SUITE_KEYS: Schema = {"type": "object", "propertyNames": {"enum": list(SUITES)}, "additionalProperties": BASE64}
ADMISSION: Schema = {"type": "object", "required": ["kind"], "properties": {"kind": TEXT, "issuer": BASE64}}
_STATES: Schema = {"enum": ["open", "closed", "ready", "released", "expired", "cancelled"]}
REFUSED: Schema = {
    "type": "object",
    "additionalProperties": COUNT,
    "description": "how many reports in shares did not count, by reason",
}
VALIDITY: Schema = {"enum": list(VALIDITIES)}
COUNTS = fields(
    finished=FLAG,
    paused=FLAG,
    assigned=COUNT,
    accepted=COUNT,
    refused=REFUSED,
    batches=array(fields(batch=COUNT, users=COUNT, received=COUNT, turns=optional(COUNT), state=_STATES, late=FLAG)),
)
_PRIVACY = fields(
    epsilon={"type": "number"}, delta={"type": "number"}, honest_fraction={"type": "number"}, unit=TEXT, protocol=TEXT
)
_OPEN = fields(offer=COUNT, arm=optional(COUNT), batches=array(fields(batch=COUNT, users=COUNT, received=COUNT)))
STANDING: Schema = {"enum": ["created", "running", "stalled", "paused", "finished", "archived"]}
SHORT = fields(name=TEXT, title=TEXT, finished=FLAG, standing=STANDING, public=FLAG)
SESSION = fields(operator=optional(TEXT), csrf=optional(TEXT), expires=optional(COUNT))
LOGIN: Schema = {
    "type": "object",
    "required": ["secret"],
    "properties": {"name": TEXT, "secret": TEXT | {"description": "a password, or a text token whatever the name"}},
}
CREATE: Schema = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": TEXT | {"description": "the experiment as TOML"}, "start": FLAG},
}
AUDITED = fields(number=COUNT, at=TEXT, who=TEXT, event=TEXT)
STATE = fields(
    experiment=TEXT,
    title=TEXT,
    kind=TEXT,
    asks_again=FLAG,
    arms=array(TEXT),
    public=FLAG,
    standing=STANDING,
    finished=FLAG,
    operations={"type": "object", "additionalProperties": optional(TEXT)},
    trouble=TEXT,
    stalled=TEXT,
    trust=TEXT,
    validity=VALIDITY,
    refused=REFUSED,
    privacy=_PRIVACY,
    smallest=COUNT,
    assigned=COUNT,
    accepted=COUNT,
    program=ANY,
    curve=array(fields(at={"type": "number"}, reports=COUNT)),
    open=array(_OPEN),
    records=COUNT,
    events=array(fields(number=COUNT, event=TEXT, at=TEXT)),
)
_SAMPLE = fields(
    batch=COUNT,
    users=COUNT,
    messages=COUNT,
    message_bytes=COUNT,
    front_bytes=COUNT,
    residual_epsilon=NUMBER,
    hides_nothing_alone=FLAG,
    residual_advantage=NUMBER,
    sample=array({"type": "object", "required": ["value", "messages"], "properties": {"messages": array(TEXT)}}),
)
PARTICIPATION = fields(
    experiment=TEXT,
    title=TEXT,
    arms=array(TEXT),
    trust=TEXT,
    validity=VALIDITY,
    report_at=array({"type": "number"}),
    privacy=_PRIVACY,
    values=optional(ANY),
    metrics=array(fields(name=TEXT, epsilon={"type": "number"})),
    smallest=COUNT,
    front_noise=FLAG,
    servers=optional(fields(analyzer=TEXT, front=TEXT)),
    admission=optional(ADMISSION),
    reports=array(
        fields(arm=optional(COUNT), batches=array(_SAMPLE), upload_bytes=COUNT, sample_upload=TEXT),
    ),
)
OFFER: Schema = {
    "type": "object",
    "required": ["offer"],
    "properties": {
        "offer": STATEMENT,
        "deadline": {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "seconds from now"},
        "odds": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1, "description": "where it tells none"},
        "rule": TEXT | {"description": "the text of what devices choose by, where they do"},
        "together": array(COUNT) | {"description": "offers that must be known here before turns of this one are dealt"},
    },
}
OPERATE: Schema = {
    "type": "object",
    "required": ["operation"],
    "properties": {
        "operation": {
            "anyOf": [{"enum": ["start", "archive", *OPERATIONS]}, TEXT],
            "description": "an experiment's `operations` are those that it knows: an installed kind may have others",
        },
        "arm": {
            "type": ["integer", "string", "null"],
            "minimum": 0,
            "description": "which arm to pause, resume or retire, by number or name; none for the whole experiment",
        },
        "name": {"type": ["string", "null"], "maxLength": LONGEST_ARM, "description": "of the arm to add"},
        "shares": {
            "type": ["object", "null"],
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
            "description": "of all arms, by name: how users are split from now on",
        },
    },
}
