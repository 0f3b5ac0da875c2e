"""Ten thousand requests that nobody should send: each is refused by name, none breaks a server or changes anything."""

import asyncio
import json
import random

import pytest
from service_world import GENEROUS
from test_apps import Both

from croupier.client import AsyncClient
from croupier.client.signing import from_text
from croupier.client.steps import REPORT_TYPE
from croupier.service.problems import PROBLEMS, URN

REQUESTS = 10_000

PATHS = [
    "/",
    "/keys",
    "/experiments",
    "/experiments/colours",
    "/experiments/colours/state",
    "/experiments/colours/operations",
    "/experiments/colours/offers/0",
    "/experiments/colours/reports",
    "/experiments/colours/finish",
    "/experiments/colours/batches",
    "/experiments/colours/batches/0",
    "/experiments/colours/batches/0/receipt",
    "/experiments/colours/batches/0/messages",
    "/experiments/colours/batches/0/messages/0",
    "/experiments/colours/configurations/AAAA",
    "/experiments/colours/transcript",
    "/participate/colours",
    "/pages/pages.js",
]
WORDS = ["..", "%2e%2e", "%00", "-1", "9" * 30, "AAAA", "colours", "'; --", "%ff", "ε", "a" * 300, "", "0x10", "1e9"]
VALUES = [
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "x",
    [],
    {},
    [[]],
    {"body": 3},
    {"body": "{}", "signatures": {"analyzer": "!"}},
]
TYPES = [REPORT_TYPE, "application/json", "text/plain", "", "application/json; charset=utf-16", "multipart/form-data"]


def mutated(body: bytes, rng: random.Random) -> bytes:
    """A valid upload with something wrong in it."""
    kind = rng.randrange(5)
    place = rng.randrange(len(body))
    if kind == 0:
        return body[:place]
    if kind == 1:
        return body + rng.randbytes(rng.randint(1, 64))
    if kind == 2:
        return body[:place] + bytes([body[place] ^ (1 << rng.randrange(8))]) + body[place + 1 :]
    if kind == 3:
        return rng.randbytes(len(body))
    return body[:place] + rng.randbytes(8) + body[place + 8 :]


def request(rng: random.Random, upload: bytes, bearers: list[str]) -> tuple[str, str, bytes, dict[str, str]]:
    """One request that is wrong in some way."""
    host = rng.choice(["shuffler", "analyzer"])
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    path = rng.choice(PATHS)
    if rng.random() < 0.3:
        parts = path.split("/")
        parts[rng.randrange(len(parts))] = rng.choice(WORDS)
        path = "/".join(parts)
    content = rng.choice([b"", rng.randbytes(rng.randint(1, 400)), json.dumps(rng.choice(VALUES)).encode()])
    headers = {"content-type": rng.choice(TYPES)}
    if rng.random() < 0.5:
        # What an honest user could have sent, but for a few bytes.
        host, method, path = "shuffler", "POST", "/experiments/colours/reports"
        content, headers = mutated(upload, rng), {"content-type": REPORT_TYPE}
    if rng.random() < 0.2:
        headers["authorization"] = rng.choice(["Bearer", "Bearer x", "Basic eDp5", *(b[:-1] + "!" for b in bearers)])
    if rng.random() < 0.1:
        headers["prefer"] = rng.choice(["wait=-1", "wait=1e9", "wait=\xff", "wait=" + "9" * 40])
    if rng.random() < 0.1:
        path += rng.choice(["?since=x", "?since=-1", "?since=" + "9" * 30, "?a=b&a=b", "?%"])
    return method, f"http://{host}.test/{path.lstrip('/')}", content, headers


@pytest.mark.slow
def test_ten_thousand_malformed_requests_are_refused_by_name_and_change_nothing(tmp_path):
    both, rng = Both(tmp_path), random.Random(20)

    async def work():
        async with both.running():
            await both.users(5)
            client = AsyncClient("http://analyzer.test", http=both.http, limits=GENEROUS)
            turn = await client.play("colours", patience=2.0)
            upload = from_text("body", client.device.sealed(turn, 1.0).body)
            before, records = await standings(), len(both.live.records)
            refused = 0
            for _ in range(REQUESTS):
                method, url, content, headers = request(rng, upload, [both.bearer, both.admin])
                try:
                    sent = both.http.build_request(method, url, content=content, headers=headers)
                except (ValueError, UnicodeError):
                    continue  # no client can even write it down
                if sent.url.path.endswith("/live"):
                    continue
                answer = await both.http.send(sent)
                assert answer.status_code < 500, (method, url, answer.text)
                if answer.status_code >= 400:
                    refused += 1
                    token = answer.json()["type"].removeprefix(URN)
                    assert answer.status_code == PROBLEMS[token].status, (method, url)
            assert refused > 0.8 * REQUESTS
            assert await standings() == before
            assert len(both.live.records) == records
            # Both servers go on as if nothing had happened.
            assert await both.users(3) == ["accepted"] * 3

    async def standings():
        answer = await both.http.get("http://shuffler.test/experiments/colours/batches")
        return answer.json()

    asyncio.run(work())
