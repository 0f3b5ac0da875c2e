"""Every refusal of the table happens, over HTTP and by its name, and is explained in the documentation."""

import asyncio
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import text

from cases.service.attacker import ADDRESS, BASE, EXACT, USERS, Attacker
from cases.service.both import Both, check_problem
from croupier.client.device import REPORT_TYPE
from croupier.messages.admission import Admission
from croupier.messages.offer import Batch, Offer
from croupier.programs.records import Head
from croupier.protocols import shuffled_bits
from croupier.service.problems import PROBLEMS
from croupier.service.web import body_of

ROOT = Path(__file__).parents[2]


async def _provoked(both, attacker, late, monkeypatch):
    """Every problem but those of a server that is not ready or broken: its name, and a request that brings it about."""
    http, turn = both.http, await attacker.turn()
    trusted = {"headers": attacker.trusted}
    parts = attacker.opened(turn).parts
    offer = next(iter(both.live.offers.values()))
    pin = attacker.configured.hash
    weak = Offer("colours", pin, 50, 0, (Batch.of(50, pin, shuffled_bits(epsilon=9.0).plan(40)),))
    other = replace(offer, batches=(replace(offer.batches[0], number=77),))
    greedy = replace(
        attacker.configuration, experiment="greedy", privacy=replace(attacker.configuration.privacy, epsilon=21.0)
    )
    changed = replace(attacker.configuration, title="another")
    weaker = replace(attacker.configuration, revision=1, privacy=replace(attacker.configuration.privacy, delta=0.5))
    forged = attacker.rebuilt(turn, token=bytes(56))
    elsewhere = attacker.rebuilt(turn, parts=tuple(replace(part, batch=9) for part in parts))
    fewer = attacker.rebuilt(turn, parts=tuple(replace(part, messages=part.messages[:-1]) for part in parts))
    assert (await attacker.send(attacker.report(turn))).status_code == 201
    sign = attacker.signed
    yield "bad-request", http.get(f"{BASE}/configurations/!")
    yield "malformed-report", attacker.send(b"x")
    yield "unopenable-report", attacker.send(b"\x02" + bytes(99))
    yield "unauthorized", http.post(f"{BASE}/finish")
    yield "bad-token", attacker.send(forged)
    yield "token-expired", attacker.send(late)
    yield "not-found", http.get("http://front.test/nowhere")
    yield "unknown-experiment", http.get("http://analyzer.test/experiments/other/state")
    yield "unknown-configuration", http.get(f"{BASE}/configurations/AAAA")
    yield "unknown-rule", http.get(f"{BASE}/rules/AAAA")
    yield "unknown-batch", http.get(f"{BASE}/batches/99/receipt")
    yield "method-not-allowed", http.delete("http://front.test/keys")
    yield "token-spent", attacker.send(attacker.report(replace(turn, report=bytes(16)), 0.0))
    yield "not-released", http.get(f"{BASE}/batches/0/receipt")
    yield "configuration-conflict", http.put(BASE, json=sign(changed.statement()), **trusted)
    yield "broken-promise", http.put(BASE, json=sign(weaker.statement()), **trusted)
    yield "offer-conflict", http.put(f"{BASE}/offers/0", json={"offer": sign(other.statement())}, **trusted)
    other_log = {"head": sign(Head(0, bytes(32)).statement("colours")), "lines": []}
    yield "head-conflict", http.put(f"{BASE}/head", json=other_log, **trusted)
    yield "not-covered", http.put(f"{BASE}/offers/50", json={"offer": sign(weak.statement())}, **trusted)
    yield "bad-signature", http.put(BASE, json=changed.statement().to_dict(), **trusted)
    yield "beyond-policy", http.put(BASE.replace("colours", "greedy"), json=sign(greedy.statement()), **trusted)
    operators = {"authorization": f"Bearer {both.admin}"}
    again = {"text": 'name = "colours"\narms = ["a", "b"]\n[program]\nhorizon = 100'}
    yield "name-taken", http.post("http://analyzer.test/experiments", json=again, headers=operators)
    # By the module that is loaded, whatever other tests have done to the package around it.
    monkeypatch.setattr(import_module("croupier.service.exports"), "find_spec", lambda _: None)
    yield "no-such-format", http.get("http://analyzer.test/experiments/colours/tables/result.parquet")
    elsewhere_too = {"origin": "http://elsewhere.test"}
    yield "cross-site", http.post("http://analyzer.test/session", json={"secret": "x"}, headers=elsewhere_too)
    yield "operation-refused", both.operate(operation="pause", arm=9)
    yield "too-large", attacker.send(bytes(2**20 + 1))
    yield "wrong-type", http.post(ADDRESS, content=b"x")
    yield "wrong-shape", attacker.send(fewer)
    yield "wrong-batch", attacker.send(elsewhere)


@pytest.mark.slow
def test_every_problem_of_the_table_is_answered_over_http_by_its_name(tmp_path, monkeypatch):
    both, found = Both(tmp_path, experiment=EXACT, largest_epsilon=20.0, queue=4), []

    async def due(token, request):
        answer = await request
        check_problem(answer, token)
        found.append(token)
        return answer

    async def work():
        # Nobody has asked the front yet.
        await due("not-ready", both.http.get("http://analyzer.test/experiments/colours"))
        async with both.running():
            attacker, http = Attacker(both), both.http
            late = await attacker.turn()
            body = attacker.report(late)
            both.clock.now = late.expires
            async for token, request in _provoked(both, attacker, body, monkeypatch):
                await due(token, request)
            issuer = bytes(32)
            rules = both.front.front.rules
            both.front.front.rules = replace(rules, admission=Admission("tickets", issuer))
            await due("not-admitted", http.post(f"{BASE}/assignments"))
            both.front.front.rules = rules
            monkeypatch.setitem(body_of.__globals__, "BODY_SECONDS", 0.05)
            await due("too-slow", http.post(ADDRESS, content=_never(), headers={"content-type": REPORT_TYPE}))
            monkeypatch.undo()
            flood = await asyncio.gather(*(attacker.send(body[:99]) for _ in range(40)))
            await due("too-busy", _first(answer for answer in flood if answer.status_code == 429))
            over = await attacker.turn()
            answers = [await http.post(f"{BASE}/assignments") for _ in range(60)]
            nothing = await due("nothing-open", _first(answer for answer in answers if answer.status_code == 409))
            assert (nothing.headers["retry-after"], nothing.json()["retry_after"]) == ("1", 0.2)
            both.clock.now += 10
            assert await both.users(USERS - 1, 1.0) == ["accepted"] * (USERS - 1)
            # The analyzer has it first in its log, and then lets the front delete it.
            await both.until(lambda: both.front.front.store.standings("colours")[0].state == "released")
            await due("batch-closed", attacker.send(attacker.report(over)))
            await due("already-released", http.get(f"{BASE}/batches/0/messages/0", headers=attacker.trusted))
            await both.until(lambda: 1 in [one["batch"] for one in both.live.standings["batches"]])
            both.clock.now += 10_001
            await both.until(lambda: 1 in both.live.done)
            await due("batch-expired", http.get(f"{BASE}/batches/1/receipt"))
            assert (await both.operate(operation="stop")).status_code == 200
            await both.until(lambda: both.front.front.store.finished("colours"))
            await due("experiment-finished", http.post(f"{BASE}/assignments"))
            with both.front.front.store.database.write() as connection:
                connection.execute(text("DROP TABLE experiments"))
            await due("internal", http.get(f"{BASE}/batches"))

    asyncio.run(work())
    assert set(found) == set(PROBLEMS)


async def _never():
    yield b"x"
    await asyncio.Event().wait()


async def _first(answers):
    return next(iter(answers))


def test_every_problem_is_explained_in_the_documentation():
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:4] for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4]
    documented = {name.strip(" `"): status.strip() for name, status, _ in rows}
    assert {token: documented.get(token) for token in PROBLEMS} == {t: str(k.status) for t, k in PROBLEMS.items()}
