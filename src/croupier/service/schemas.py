"""What goes in and out of both servers as JSON, as schemas for their OpenAPI documents."""

from __future__ import annotations

from typing import Any

from croupier.messages.sealing import SUITES
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
SUITE_KEYS: Schema = {"type": "object", "propertyNames": {"enum": list(SUITES)}, "additionalProperties": BASE64}
ADMISSION: Schema = {"type": "object", "required": ["kind"], "properties": {"kind": TEXT, "issuer": BASE64}}
_STATES: Schema = {"enum": ["open", "closed", "ready", "released", "expired", "cancelled"]}
COUNTS = fields(
    finished=FLAG,
    assigned=COUNT,
    accepted=COUNT,
    refused=COUNT,
    batches=array(fields(batch=COUNT, users=COUNT, received=COUNT, state=_STATES, late=FLAG)),
)
_PRIVACY = fields(
    epsilon={"type": "number"}, delta={"type": "number"}, honest_fraction={"type": "number"}, unit=TEXT, protocol=TEXT
)
_OPEN = fields(offer=COUNT, arm=optional(COUNT), batches=array(fields(batch=COUNT, users=COUNT, received=COUNT)))
STATE = fields(
    experiment=TEXT,
    title=TEXT,
    kind=TEXT,
    asks_again=FLAG,
    arms=array(TEXT),
    finished=FLAG,
    trouble=TEXT,
    stalled=TEXT,
    trust=TEXT,
    privacy=_PRIVACY,
    smallest=COUNT,
    assigned=COUNT,
    accepted=COUNT,
    program=ANY,
    open=array(_OPEN),
    records=COUNT,
    events=array(fields(number=COUNT, event=TEXT, at=TEXT)),
)
_SAMPLE = fields(
    batch=COUNT,
    users=COUNT,
    messages=COUNT,
    message_bytes=COUNT,
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
    report_at=array({"type": "number"}),
    privacy=_PRIVACY,
    values=optional(ANY),
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
        "together": array(COUNT) | {"description": "offers that must be known here before turns of this one are dealt"},
    },
}
OPERATE: Schema = {
    "type": "object",
    "required": ["operation"],
    "properties": {
        "operation": {"enum": list(OPERATIONS)},
        "arm": COUNT | {"type": ["integer", "null"], "description": "which arm to pause, resume or retire"},
        "name": {"type": ["string", "null"], "maxLength": LONGEST_ARM, "description": "of the arm to add"},
    },
}
