"""Servers that answer without end: whoever asks them stops at a stated limit, with one clear error."""

import asyncio
import io
import json
from itertools import count

import httpx2
import pytest

from cases.service.shares import NAME, PLAN, opened
from croupier.checks import CroupierError
from croupier.cli import operator
from croupier.client.exchange import LONGEST_ANSWER, LONGEST_STATE
from croupier.messages.sealing import SUITES
from croupier.messages.signing import Statement, to_text
from croupier.service import crowd, settling
from croupier.service.front_client import BadAnswer, FrontClient
from croupier.service.groups import LONGEST_GROUP, MOST_REPORTS, Group, Sealed
from croupier.service.openapi import MOST_BATCHES
from croupier.service.receipts import BadRelease
from croupier.service.store.outbox import PART_BYTES
from croupier.service.waits import Waits

FRONT = "http://front.test"


def asking(answer, ask):
    """What comes of a request to a front that answers like this."""

    async def work():
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        try:
            return await ask(FrontClient(FRONT, "bearer", Waits(front=1.0), http))
        finally:
            await http.aclose()

    return asyncio.run(work())


def standing(number, **more):
    return {"batch": number, "users": 8, "received": 0, "state": "open"} | more


def pages(first, asked):
    """A front that shows a full page of batches, whatever it is asked."""

    def answer(request):
        since = int(request.url.params["since"])
        asked.append(since)
        return httpx2.Response(200, json={"batches": [standing(first(since) + i) for i in range(MOST_BATCHES)]})

    return answer


def test_standings_without_end_are_read_a_page_further_than_this_log():
    asked = []
    with pytest.raises(BadAnswer, match="shows more than .* batches from 5 on"):
        asking(pages(lambda since: since, asked), lambda link: link.standings(NAME, 5, 2500))
    assert asked == [5, 1005, 2005, 3005], "all that 2,496 batches and one page can need"


def test_the_same_standings_again_and_again_are_refused():
    asked = []
    with pytest.raises(BadAnswer, match="shows batch 0 where 1000 is due"):
        asking(pages(lambda since: 0, asked), lambda link: link.standings(NAME, 0, 2500))
    assert len(asked) == 2


def test_of_a_standing_no_more_is_kept_than_is_read():
    much = {"batches": [standing(0, state="x" * 10_000, more=["x"] * 10_000)]}
    found = asking(lambda request: httpx2.Response(200, json=much), lambda link: link.standings(NAME, 0, 0))
    assert len(json.dumps(found)) < 200


class Endless(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """A body without end, and how much of it was read."""

    def __init__(self):
        self.read = 0

    def _piece(self):
        self.read += 2**20
        return b" " * 2**20

    async def __aiter__(self):
        while True:
            yield self._piece()

    def __iter__(self):
        while True:
            yield self._piece()


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda link: link.keys(), LONGEST_ANSWER),
        (lambda link: link.standings(NAME, 0, 0), LONGEST_ANSWER),
        (lambda link: link.group(NAME), LONGEST_GROUP),
        (lambda link: link.settle(NAME, 0, b"answer"), LONGEST_GROUP),
        (lambda link: link.messages(NAME, 0, 0), PART_BYTES),
    ],
)
def test_no_answer_of_a_front_is_read_without_end(ask, most):
    body = Endless()
    with pytest.raises(BadAnswer, match=f"more than {most} bytes"):
        asking(lambda request: httpx2.Response(200, stream=body), ask)
    assert body.read <= most + 2**20


def test_groups_without_end_do_not_keep_an_analyzer_from_all_else(tmp_path, monkeypatch):
    service = opened(tmp_path)
    monkeypatch.setattr(settling, "MOST_GROUPS", 5)
    work, numbers = service.servers.analyzer.analyzer.settling, count(1)
    (number,) = service.live.open

    async def one_more(*_):
        return Group(next(numbers), (number,), (Sealed(bytes(16), bytes(32), b"", b"garbage"),)).to_bytes()

    monkeypatch.setattr(work.link, "group", one_more)
    monkeypatch.setattr(work.link, "settle", one_more)
    service.servers.run(work.settle_all(service.live))
    assert next(numbers) == 7
    service.close()


def test_the_largest_group_is_no_endless_one():
    """As many reports as a group may have, with heads and verifier shares, are within the limit."""
    report = Sealed(bytes(16), bytes(32), bytes(8_000), bytes(16_000))
    assert len(Group(2**53, tuple(range(64)), (report,) * MOST_REPORTS).to_bytes()) <= LONGEST_GROUP


@pytest.mark.parametrize(("whole", "asked"), [(0, 1), (1, 2)])
def test_a_release_in_parts_without_end_is_refused(tmp_path, monkeypatch, whole, asked):
    """Parts without anything in them, or with all messages in each."""
    plan = PLAN | {"privacy": {"epsilon": 8.0, "trust": "shuffler"}, "batches": {"smallest": 30, "deadline": 60}}
    service = opened(tmp_path, experiment=plan, validity="none", admission="everybody")
    analyzer, batch = service.servers.analyzer.analyzer, next(iter(service.live.open.values()))
    suite, parts = service.live.state.configuration(batch.pin).suite, count()
    due = {
        "reports": batch.mechanism.users,
        "messages": batch.mechanism.users * batch.shape.slots + batch.shape.front,
        "length": batch.shape.length + SUITES[suite].overhead,
    }
    hashes = {"configuration": to_text(batch.pin), "batch_hash": to_text(batch.hash), "sha256": to_text(bytes(32))}
    body = {"experiment": NAME, "batch": batch.number, "parts": 10**12} | due | hashes

    async def receipt(*_):
        return Statement.of("release", body).signed("front", service.servers.keys["front"].sign)

    async def messages(*_):
        next(parts)
        return bytes(whole * due["messages"] * due["length"])

    monkeypatch.setattr(analyzer.link, "receipt", receipt)
    monkeypatch.setattr(analyzer.link, "messages", messages)
    with pytest.raises(BadRelease, match="empty or cut|were announced"):
        service.servers.run(analyzer._decoded(service.live, batch))
    assert next(parts) == asked
    service.close()


@pytest.fixture
def endless(monkeypatch):
    """What any request of httpx2 without a client of its own is answered."""
    body = Endless()
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=body))
    client = httpx2.Client(transport=transport)
    monkeypatch.setattr(httpx2, "stream", client.stream)
    monkeypatch.setattr(httpx2, "Client", lambda **_: client)
    return body


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda analyzer: analyzer.get("/experiments"), LONGEST_STATE),
        (lambda analyzer: analyzer.post("/experiments", {}), LONGEST_STATE),
        (lambda analyzer: analyzer.download("/audit.csv", io.BytesIO()), 2**22),
        (lambda analyzer: crowd.experiments(analyzer.url), LONGEST_STATE),
    ],
)
def test_commands_read_no_answer_without_end(monkeypatch, endless, ask, most):
    monkeypatch.setattr(operator, "LONGEST_DOWNLOAD", 2**22)
    with pytest.raises(CroupierError, match=f"more than ({most}|{most:,}) bytes"):
        ask(operator.Analyzer("http://127.0.0.1:1", ""))
    assert endless.read <= most + 2**20
