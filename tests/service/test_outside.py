"""Attacks that somebody from outside found: each succeeded on an earlier version, and must not."""

import asyncio
import contextlib
import itertools
import json
import re
from dataclasses import replace

import pytest

from cases.service.both import COUNTER, Both
from cases.service.world import SIGN, Clock, World, keys_of
from croupier.checks import CroupierError
from croupier.client.account import Account, Spent, Taken
from croupier.client.limits import Limits
from croupier.messages.configuration import Configuration
from croupier.messages.signing import Statement, to_text
from croupier.noise import secure
from croupier.programs import records
from croupier.programs.records import Head
from croupier.service.front import Front
from croupier.service.notary import Rules
from croupier.service.problems import Problem
from croupier.service.store import FrontStore
from croupier.service.verifying import verify

BASE = "http://front.test/experiments/colours"


@pytest.fixture
def store(tmp_path):
    found = FrontStore(f"sqlite:///{tmp_path}/front.db", secure(), bytes(32))
    yield found
    found.close()


@pytest.mark.slow
def test_a_log_cannot_be_written_anew_after_its_heads_were_countersigned(tmp_path):
    """The analyzer writes another log from record 1 on: revisions push its numbers past those countersigned, the public
    receipts are used again, and all decoded numbers are changed.
    """
    both = Both(tmp_path, experiment=COUNTER)

    async def rewritten():
        async with both.running():
            assert set(await both.users(96, value=0.0)) == {"accepted"}
            await both.until(lambda: both.live.program.counter.summed == 96)
            first = both.live.transcript()
            key, trusted = both.keys.sign, {"authorization": f"Bearer {both.bearer}"}

            async def put(path, statement, lines=None):
                signed = statement.signed("analyzer", key).to_dict()
                body = signed if lines is None else {"head": signed, "lines": [to_text(line) for line in lines]}
                answer = await both.http.put(BASE + path, json=body, headers=trusted)
                if answer.status_code != 200:
                    raise CroupierError(answer.text)
                return answer.json()

            log = [json.loads(line) for line in first.splitlines()]
            begun = Configuration.from_text(log[0]["configuration"]["body"])
            shown = json.loads((await both.http.get(BASE + "/head")).json()["body"])["number"]
            head, lines = Head(), []

            def add(record):
                nonlocal head
                body = {name: record[name] for name in record if name not in ("number", "previous", "signature")}
                lines.append(records.make(head, body, key))
                head = head.after(lines[-1])

            add(log[0])
            while head.number < shown:
                revision = replace(begun, revision=head.number + 1, title=f"{head.number}")
                add(log[0] | {"configuration": await put("", revision.statement())})
            for record in log[1:]:
                if record["event"] == "released":
                    # It may show whatever lines it likes: these end in its own head, those in the one that was signed.
                    own, true = ([records.digest(line) for line in found] for found in (lines, first.splitlines()))
                    witness = await put("/head", head.statement("colours"), own[shown + 1 :] or true)
                    record |= {"decoded": record["decoded"] + 30, "witness": witness}
                add(record)
            await put("/head", head.statement("colours"), [])
            newest = Statement.from_dict("head", (await both.http.get(BASE + "/head")).json())
            return begun.verify_keys, first, "".join(line + "\n" for line in lines), newest

    def believed():
        """Both keys are pinned, and the front is asked for its newest head."""
        trust, first, second, newest = asyncio.run(rewritten())
        verdict = verify(second, trust)
        verdict.check_head(newest)
        assert verdict.result["estimate"] > verify(first, trust).result["estimate"] + 20

    with pytest.raises(CroupierError, match="head-conflict"):
        believed()


def test_messages_are_not_given_before_the_log_was_countersigned(store):
    world = World(store)
    number = world.open()[0].batches[0].number
    world.fill()
    assert world.front.close_full()
    with pytest.raises(Problem):
        world.front.head("colours")
    with pytest.raises(Problem):
        world.front.part("colours", number, 0)


def test_public_counts_do_not_show_when_a_single_report_came(tmp_path):
    both = Both(tmp_path)

    async def watched():
        seen = []
        async with both.running():
            for _ in range(3):
                await both.users(1)
                text = (await both.http.get("http://front.test/metrics")).text
                seen += re.findall(r"^croupier_(?:reports|assignments)_total.* (\S+)$", text, re.MULTILINE)
        return seen

    assert len(set(asyncio.run(watched()))) <= 1


def test_two_first_revisions_at_the_same_moment_promise_the_same(store, tmp_path, monkeypatch):
    """The first revision is written after the second was checked and before it is written."""
    found = World(FrontStore(f"sqlite:///{tmp_path}/other.db", secure(), bytes(32))).configuration()
    front, write = Front(store, keys_of("front"), Rules(), Clock()), store.put_configuration
    weaker = replace(found, revision=1, privacy=replace(found.privacy, epsilon=9.0))

    def late(name, revision, *others):
        if revision:
            front.register("colours", found.statement().signed("analyzer", SIGN()))
        return write(name, revision, *others)

    monkeypatch.setattr(store, "put_configuration", late)
    with pytest.raises(Problem):
        front.register("colours", weaker.statement().signed("analyzer", SIGN()))


def test_a_clock_that_is_wrong_during_one_charge_does_not_renew_the_budget():
    now = [10_000.0]
    limits = Limits(epsilon_per_period=4.0, shortest_period=100, longest_period=1000)
    account = Account(None, limits, clock=lambda: now[0])
    turns = itertools.count()

    def charged():
        number = next(turns)
        with contextlib.suppress(Spent):
            account.charge(1.0, 1e-6, Taken(str(number), "e", 0.0, 0.0, ""), {number: bytes([number]) * 32})
            return 1
        return 0

    assert sum(charged() for _ in range(6)) == 4
    now[0] += 5_000.0
    charged()
    now[0] -= 4_999.0
    assert sum(charged() for _ in range(6)) == 0
