"""Ten thousand requests that nobody should send: each is refused by name, none breaks a server or changes anything."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases.service.held import held
from cases.service.world import GENEROUS
from croupier.client import AsyncClient
from croupier.client.device import REPORT_TYPE
from croupier.messages.signing import from_text
from croupier.service import http_operations
from croupier.service.problems import PROBLEMS, URN

AT_ONCE = 5

PATHS = {
    server: sorted({one.path for one in operations} - {"/experiments/{name}/live"})
    for server, operations in (("front", http_operations.FRONT), ("analyzer", http_operations.ANALYZER))
}
THERE = {"{page}": "pages.js", "{hash}": "AAAA"}
METHODS = ["GET", "GET", "GET", "POST", "POST", "PUT", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "ab-cd"]
WORDS = [
    "..",
    "%2e%2e",
    "%00",
    "-1",
    "9" * 30,
    "AAAA",
    "other",
    "'; --",
    "%ff",
    "ε",
    "a" * 300,
    "",
    "0x10",
    "a%0a",
    "?",
]
TYPES = [REPORT_TYPE, "application/json", "text/plain", "", "application/json; charset=utf-16", "multipart/form-data"]
LENGTHS = ["-1", "9" * 30, "\xb2", "1e3", "9" * 5000]
WAITS = ["wait=-1", "wait=1e9", "wait=\xff", "wait=" + "9" * 40]
QUERIES = ["", "", "", "?since=x", "?since=-1", "?since=" + "9" * 30, "?since=\xb2", "?a=b&a=b", "?%", "?since=%00"]
SINGLES = [None, True, -1, 2**70, 10**400, 1e308, "", "x", "\ud800", "\0", "{}", [], [[]], {}, "a" * 3000]
KEYS = ["operation", "arm", "name", "offer", "body", "signatures", "deadline", "analyzer", ""]


EXPECTED = {
    *("bad-request", "malformed-report", "unopenable-report", "unauthorized", "not-found"),
    *("method-not-allowed", "too-large", "wrong-type", "operation-refused"),
}
"""What wrong requests alone can bring about; other refusals need a right one at the wrong time."""
RARE = {"not-released", "unknown-configuration", "unknown-experiment"}
"""Of these, what a few thousand requests may miss."""


def of(*choices):
    return st.sampled_from(choices)


STATEMENTS = [{"body": text, "signatures": {"analyzer": signed}} for text in ("{}", "3", "\ud800") for signed in "!A3"]
VALUES = of(*SINGLES, *STATEMENTS) | st.dictionaries(of(*KEYS), of(*SINGLES, *STATEMENTS), max_size=3)
BODIES = st.one_of(
    st.binary(max_size=100),
    VALUES.map(lambda value: json.dumps(value).encode()),
    of(b"[" * 5000, b'{"a":NaN}', b"{", b"\xff\xfe{\0}\0", b'{"a":1,"a":2}', b"9" * 5000),
)


NAMELESS = (
    of("red", *SINGLES)
    .filter(lambda name: name not in ("x", "\0", "{}"))
    .map(lambda name: json.dumps({"operation": "add", "name": name}).encode())
)
"""An arm may have any short name, but not one of these."""


@st.composite
def strays(draw):
    """Anything at any address, with whatever headers; never with a right secret."""
    server = draw(of("front", "analyzer"))
    there = THERE | {"{name}": draw(of("colours", "colours", "other"))}
    parts = [there.get(part, "0" if part.startswith("{") else part) for part in draw(of(*PATHS[server])).split("/")]
    if draw(of(True, False, False)):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(of(*WORDS))
    headers = {"content-type": draw(of(*TYPES)), "croupier-ticket": draw(of("!", "A", "\xff"))}
    for name, choices in (
        ("authorization", ("Bearer", "Bearer x", "Basic eDp5", "\xff", "Bearer ALMOST")),
        ("prefer", WAITS),
        ("content-length", LENGTHS),
    ):
        if draw(of(True, False, False)):
            headers[name] = draw(of(*choices))
    path = "/".join(parts).lstrip("/") + draw(of(*QUERIES))
    return draw(of(*METHODS)), f"http://{server}.test/{path}", draw(BODIES), headers


@st.composite
def spoiled(draw):
    """What an honest user could have sent, but for a few bytes; `UPLOAD` stands for the honest bytes."""
    place, junk = draw(st.integers(0, 10**6)), draw(st.binary(min_size=1, max_size=64))
    headers = draw(of({}, {}, {}, *({"content-length": length} for length in LENGTHS)))
    return "POST", "http://front.test/experiments/colours/reports", (draw(of(*SPOILS)), place, junk), headers


SPOILS = {
    "cut": lambda body, place, _: body[:place],
    "longer": lambda body, _, junk: body + junk,
    "flipped": lambda body, place, junk: body[:place] + bytes([body[place] ^ (junk[0] | 1)]) + body[place + 1 :],
    "replaced": lambda body, place, junk: body[:place] + bytes(b ^ 255 for b in body[place:]),
    "inserted": lambda body, place, junk: body[:place] + junk + body[place:],
}


@st.composite
def trusted(draw):
    """The right secret, with a body that says nothing: no word of it is an operation or a signed statement."""
    method, server, path = draw(
        of(("PUT", "front", ""), ("PUT", "front", "/offers/0"), ("POST", "analyzer", "/operations"))
    )
    headers = {"content-type": draw(of("application/json", *TYPES)), "authorization": "RIGHT"}
    if draw(of(True, False, False, False)):
        headers["content-length"] = draw(of(*LENGTHS))
    return method, f"http://{server}.test/experiments/colours{path}", draw(BODIES | NAMELESS), headers


def written(both, upload, method, url, content, headers):
    """A drawn request as bytes, with the upload and the secrets of this run in their places."""
    if isinstance(content, tuple):
        kind, place, junk = content
        content, headers = SPOILS[kind](upload, place % len(upload), junk), headers | {"content-type": REPORT_TYPE}
        assert content != upload
    secret = both.bearer if "front" in url else both.admin
    secrets = {"RIGHT": f"Bearer {secret}", "Bearer ALMOST": f"Bearer {secret[:-1]}!"}
    encoded = {name: secrets.get(value, value).encode("latin-1") for name, value in headers.items()}
    return both.http.build_request(method, url, content=content, headers=encoded)


@pytest.mark.slow
@pytest.mark.parametrize("many", [1_000, pytest.param(30_000, marks=pytest.mark.evidence)])
def test_malformed_requests_are_refused_by_name_and_change_nothing(tmp_path, many):
    with held(tmp_path, users=5, poll=1.0) as servers:
        both, seen = servers.both, Counter()

        async def honest_upload():
            client = AsyncClient("http://analyzer.test", http=both.http, limits=GENEROUS, background=False)
            turn = await client.play("colours", patience=2.0)
            return from_text("body", client.device.sealed(turn, 1.0).body)

        async def send(requests):
            for method, url, content, headers in requests:
                try:
                    request = written(both, upload, method, url, content, headers)
                except (ValueError, UnicodeError):
                    seen["cannot be written"] += 1
                    continue
                answer = await both.http.send(request)
                assert answer.status_code < 500, (method, url, content, headers, answer.text)
                seen[answer.status_code] += 1
                if answer.status_code >= 400 and method != "HEAD":
                    token = answer.json()["type"].removeprefix(URN)
                    assert answer.status_code == PROBLEMS[token].status, (method, url)
                    seen[token] += 1

        upload = servers.run(honest_upload())
        before = servers.rows()

        @settings(
            max_examples=many // AT_ONCE,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(st.one_of(strays(), spoiled(), trusted()), min_size=AT_ONCE, max_size=AT_ONCE))
        def check(requests):
            servers.run(send(requests))

        check()
        sent = sum(count for status, count in seen.items() if isinstance(status, int))
        assert sent >= 0.99 * many, seen
        assert sum(seen[token] for token in PROBLEMS) > 0.7 * sent, seen
        due = EXPECTED | (RARE if many > 3000 else set())
        assert set(seen) >= due, due - set(seen)
        assert servers.rows() == before
        # Both servers go on as if nothing had happened.
        assert servers.run(both.users(3)) == ["accepted"] * 3
