"""Both servers' HTTP, in one process: refusals as problem documents, bearer tokens, operations, pages, metrics."""

import asyncio
import contextlib
import json
import sqlite3
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy.exc import OperationalError

from cases.service.both import PLAN, SUITE, Both, check_problem
from cases.service.forgery import resigned
from croupier.checks import InvalidParameter
from croupier.client.device import REPORT_TYPE
from croupier.messages.configuration import Configuration
from croupier.service import keys as key_files
from croupier.service.analyzer_app import AnalyzerApp
from croupier.service.experiment import plan
from croupier.service.experiment_log import Asked
from croupier.service.front_app import FrontApp
from croupier.service.verifying import BadTranscript, verify
from croupier.service.web import Room, body_of


@pytest.fixture
def both(tmp_path):
    return Both(tmp_path)


def test_refusals_are_problem_documents(both):
    async def work():
        async with both.running():
            send = both.http.request
            base = "http://front.test/experiments/colours"
            report = {"content-type": REPORT_TYPE}
            cases = [
                ("not-found", send("GET", "http://front.test/nowhere")),
                ("method-not-allowed", send("DELETE", "http://front.test/keys")),
                ("unknown-experiment", send("GET", "http://front.test/experiments/other")),
                ("unknown-experiment", send("GET", "http://analyzer.test/experiments/other/state")),
                ("unknown-experiment", send("POST", "http://front.test/experiments/other/assignments")),
                ("unknown-configuration", send("GET", f"{base}/configurations/AAAA")),
                ("bad-request", send("GET", f"{base}/configurations/!!")),
                ("wrong-type", send("POST", f"{base}/reports", content=b"x")),
                ("malformed-report", send("POST", f"{base}/reports", content=b"x", headers=report)),
                ("unopenable-report", send("POST", f"{base}/reports", content=b"\x02" + bytes(99), headers=report)),
                ("too-large", send("POST", f"{base}/reports", content=bytes(2**20 + 1), headers=report)),
                ("unauthorized", send("PUT", base, json={})),
                ("unauthorized", send("PUT", f"{base}/offers/0", json={})),
                ("unauthorized", send("POST", f"{base}/finish")),
                ("unauthorized", send("GET", f"{base}/batches/0/messages/0")),
                ("unauthorized", send("DELETE", f"{base}/batches/0/messages")),
                ("unauthorized", send("DELETE", f"{base}/batches/0", headers={"authorization": "Bearer wrong"})),
                ("unauthorized", send("POST", "http://analyzer.test/experiments/colours/operations", json={})),
                ("not-released", send("GET", f"{base}/batches/0/receipt")),
                ("unknown-batch", send("GET", f"{base}/batches/99/receipt")),
                ("not-found", send("GET", f"{base}/batches/-1/receipt")),
                ("not-found", send("GET", f"{base}/batches/99999999999/receipt")),
                ("not-found", send("GET", "http://analyzer.test/pages/secret.html")),
            ]
            for token, request in cases:
                check_problem(await request, token)
            trusted = {"authorization": f"Bearer {both.bearer}"}
            for token, content, kind in (
                ("wrong-type", b"{}", "text/plain"),
                ("bad-request", b"{", "application/json"),
                ("bad-request", b"[]", "application/json"),
                ("bad-request", b"[" * 100_000, "application/json"),
                ("bad-request", b'{"body": 3}', "application/json"),
                ("bad-request", json.dumps({"body": "{}", "signatures": {}}).encode(), "application/json"),
                ("too-large", bytes(2**20 + 1), "application/json"),
            ):
                answer = await send("PUT", base, content=content, headers=trusted | {"content-type": kind})
                check_problem(answer, token)
            answer = await send("PUT", f"{base}/offers/5", json={"deadline": "soon"}, headers=trusted)
            check_problem(answer, "bad-request")

    asyncio.run(work())


@pytest.mark.slow
def test_a_run_with_an_expiry_an_operator_and_a_new_arm(both):
    async def work():
        async with both.running():
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 1 in both.live.open)
            await both.users(5)
            both.clock.now += 51
            await both.until(lambda: 2 in both.live.open)
            assert (await both.operate(operation="add", name="blue")).status_code == 200
            check_problem(await both.operate(operation="add", name="blue"), "operation-refused")
            check_problem(await both.operate(operation="pause", arm=9), "operation-refused")
            check_problem(await both.operate(operation="explode"), "operation-refused")
            check_problem(await both.operate(operation="pause", arm="x"), "operation-refused")
            check_problem(await both.operate(operation="pause", arm=-1), "bad-request")
            await both.users(32)
            await both.until(lambda: any(offer.arm == 2 for offer in both.live.offers.values()))
            answer = await both.http.get("http://analyzer.test/experiments/colours")
            configuration = Configuration.from_text(answer.json()["body"])
            assert (configuration.revision, configuration.arms) == (1, ("red", "green", "blue"))
            assert "accepted" in await both.users(1)
            assert (await both.operate(operation="stop")).status_code == 200
            await both.until(lambda: both.live.standings.get("finished"))
            assert await both.users(1) == ["experiment-finished"]
            state = (await both.http.get("http://analyzer.test/experiments/colours/state")).json()
            assert state["finished"]
            assert [event["event"] for event in state["events"]].count("expired") == 1
            text = (await both.http.get("http://analyzer.test/experiments/colours/transcript")).text
            verdict = verify(text)
            assert (verdict.expired, verdict.operations, verdict.configurations) == (1, 2, 2)

    asyncio.run(work())


@pytest.mark.slow
def test_new_keys_are_a_new_revision_and_old_batches_still_open(both, tmp_path):
    async def first():
        async with both.running():
            await both.users(20)

    asyncio.run(first())
    for server in ("analyzer", "front"):
        key_files.rotate(tmp_path / server)
    again = Both(tmp_path)

    async def second():
        async with again.running():
            await again.until(lambda: len([r for r in again.live.records if r["event"] == "configured"]) == 2)
            assert set(await again.users(12)) == {"accepted"}
            await again.until(lambda: 1 in again.live.open)
            assert set(await again.users(32)) == {"accepted"}
            await again.until(lambda: 2 in again.live.open)
            found = Configuration.from_text(again.live.configured.text)
            assert found.revision == 1
            assert found.keys["analyzer"].seal == key_files.load(tmp_path / "analyzer").newest(SUITE).public
            assert verify(again.live.transcript()).released == 2
            assert all(r["damaged"] == 0 for r in again.live.records if r["event"] == "released")

    asyncio.run(second())


def test_an_experiment_may_not_change_what_it_promised(both, tmp_path):
    async def first():
        async with both.running():
            pass

    asyncio.run(first())
    changed = plan(PLAN | {"privacy": {"epsilon": 9.0, "honest_fraction": 1.0}})
    with pytest.raises(ValueError, match="as it was when it began"):
        AnalyzerApp(both.analyzer.settings, [changed])


def test_health_readiness_metrics_and_pages(both):
    async def work():
        async with both.running():
            await both.users(3)
            for host in ("analyzer", "front"):
                assert (await both.http.get(f"http://{host}.test/healthz")).json() == {"status": "alive"}
                assert (await both.http.get(f"http://{host}.test/readyz")).json() == {"status": "ready"}
            text = (await both.http.get("http://front.test/metrics")).text
            # How many there were is told in steps of 32, or anybody could see when one came.
            assert 'croupier_reports_total{outcome="accepted"} 0' in text
            await both.until(lambda: both.live.standings["batches"])
            text = (await both.http.get("http://analyzer.test/metrics")).text
            assert 'croupier_reports_accepted{experiment="colours"} 0' in text
            for path in ("/", "/participate/colours", "/pages/pages.js", "/pages/pages.css"):
                answer = await both.http.get("http://analyzer.test" + path)
                assert answer.status_code == 200
                assert len(answer.content) > 300
            body = (await both.http.get("http://analyzer.test/experiments/colours/participation")).json()
            (report,) = body["reports"]
            (batch,) = report["batches"]
            assert batch["hides_nothing_alone"]
            assert batch["residual_epsilon"] is None
            assert len(batch["sample"][0]["messages"]) == len(batch["sample"][1]["messages"]) == batch["messages"]
            listed = (await both.http.get("http://analyzer.test/experiments")).json()
            about = {"name": "colours", "title": "colours", "finished": False, "standing": "running", "public": True}
            assert listed["experiments"] == [about]

    asyncio.run(work())


@pytest.mark.slow
def test_a_front_that_drops_duplicates_or_changes_messages_is_found_out(both):
    """The analyzer refuses the batch, says why in the log, and asks for it again."""

    async def work():
        async with both.running():
            link, real = both.analyzer.link, both.analyzer.link.messages

            async def crooked(name, batch, part):
                payload = await real(name, batch, part)
                length = len(payload) // (32 * both.live.open[batch].shape.slots)
                if batch == 0:
                    return payload[:-length]
                if batch == 1:
                    return payload[:-length] + payload[:length]
                return payload[:-1] + bytes([payload[-1] ^ 1]) if batch == 2 else payload

            link.messages = crooked
            for number in range(4):
                await both.until(lambda number=number: number in both.live.open)
                assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 4 in both.live.open)
            events = [(r["event"], r.get("batch")) for r in both.live.records if "batch" in r]
            assert events == [("refused", 0), ("refused", 1), ("refused", 2), ("released", 3)]
            assert verify(both.live.transcript()).refused == 3

    asyncio.run(work())


@pytest.mark.slow
def test_a_counters_upper_batch_opens_whole_when_keys_changed_in_the_middle(tmp_path):
    """Else it would be released with the noise of some of its users only."""
    counter = {
        "name": "colours",
        "program": {"kind": "counter", "users": 96, "shufflers": 2},
        "reward": {"protocol": "shuffled-bits"},
        "privacy": {"epsilon": 4.0, "honest_fraction": 1.0},
        "reports": {"report_within": 600, "report_at": [0, 0]},
    }
    first = Both(tmp_path, experiment=counter)

    async def begin():
        async with first.running():
            assert set(await first.users(32)) == {"accepted"}
            await first.until(lambda: 1 in first.live.offers)

    asyncio.run(begin())
    for server in ("analyzer", "front"):
        key_files.rotate(tmp_path / server)
    again = Both(tmp_path, experiment=counter)

    async def end():
        async with again.running():
            await again.until(lambda: len([r for r in again.live.records if r["event"] == "configured"]) == 2)
            assert set(await again.users(64)) == {"accepted"}
            await again.until(lambda: again.live.standings.get("finished"))
            released = [r for r in again.live.records if r["event"] == "released"]
            bodies = [json.loads(r["receipt"]["body"]) for r in released]
            assert sorted(body["reports"] for body in bodies) == [32, 32, 32, 64]
            assert [r["damaged"] for r in released] == [0] * 4
            assert verify(again.live.transcript()).finished

    asyncio.run(end())


@pytest.mark.slow
def test_a_bad_moment_of_the_store_or_an_odd_answer_does_not_end_an_experiment(both, monkeypatch):
    async def work():
        async with both.running():
            with monkeypatch.context() as broken:
                for name in ("append", "read"):
                    broken.setattr(both.analyzer.store, name, _failing)
                assert set(await both.users(32)) == {"accepted"}
                await both.until(lambda: "went wrong" in both.live.trouble)
            await both.until(lambda: 1 in both.live.open and both.live.trouble == "")
            with monkeypatch.context() as broken:
                broken.setattr(both.analyzer.link, "standings", _odd)
                await both.until(lambda: "went wrong" in both.live.trouble)
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 2 in both.live.open)
            assert verify(both.live.transcript()).reports == 64

    asyncio.run(work())


def _failing(*_, **__):
    raise OSError("no space left on the disk")


async def _odd(*_):
    return {}


def test_uploads_beyond_what_may_wait_are_told_to_come_again(both):
    async def work():
        async with both.running():
            both.front._room = Room(100)
            send = partial(both.http.post, "http://front.test/experiments/colours/reports")
            kind = {"content-type": REPORT_TYPE}
            for body in (bytes(101), aiter_of(bytes(60), bytes(60))):
                answer = await send(content=body, headers=kind)
                check_problem(answer, "too-busy")
                assert answer.headers["retry-after"] == "1"
            check_problem(await send(content=bytes(100), headers=kind), "malformed-report")

    asyncio.run(work())


def test_bodies_that_are_announced_and_do_not_come_stand_in_nobodys_way(both, monkeypatch):
    async def never():
        yield b"some"
        await asyncio.Event().wait()

    async def work():
        async with both.running():
            monkeypatch.setitem(body_of.__globals__, "BODY_SECONDS", 0.5)
            both.front._room = Room(10_000)
            send = partial(both.http.post, "http://front.test/experiments/colours/reports")
            slow = {"content-type": REPORT_TYPE, "content-length": "100"}
            waiting = [asyncio.create_task(send(content=never(), headers=slow)) for _ in range(100)]
            await asyncio.sleep(0)
            assert set(await both.users(3)) == {"accepted"}
            for answer in await asyncio.gather(*waiting):
                check_problem(answer, "too-slow")
            assert both.front._room.left == 10_000

    asyncio.run(work())


async def aiter_of(*pieces):
    for piece in pieces:
        yield piece


@pytest.mark.slow
def test_a_front_that_has_lost_its_store_is_told_again(both):
    """The reports in it are lost with it, as the documents say; the experiment goes on."""

    async def work():
        async with both.running():
            await both.users(5)
            emptied = FrontApp(replace(both.front.settings, store=str(both.directory / "new.db")))
            async with emptied.app.router.lifespan_context(emptied.app):
                both.front = emptied
                await both.until(lambda: emptied.front.store.finished("colours") is False)
                await both.until(lambda: both.live.trouble == "")
                assert set(await both.users(32)) == {"accepted"}
                await both.until(lambda: 1 in both.live.open)
                assert verify(both.live.transcript()).reports == 32

    asyncio.run(work())


def test_a_full_queue_says_try_again(tmp_path):
    async def work():
        from croupier.service.group_commit import Groups
        from croupier.service.problems import Problem

        release = asyncio.Event()

        async def slow(items):
            await release.wait()
            return [item * 2 for item in items]

        groups = Groups(slow, size=2, seconds=0.0, queue=3)
        runner = asyncio.create_task(groups.run())
        pending = []
        refused = 0
        for item in range(20):
            task = asyncio.create_task(groups.submit(item))
            await asyncio.sleep(0.01)
            if task.done():
                assert isinstance(task.exception(), Problem)
                assert task.exception().token == "too-busy"
                assert task.exception().retry_after == 1
                refused += 1
            else:
                pending.append((item, task))
        assert refused > 5
        release.set()
        assert [await task for _, task in pending] == [2 * item for item, _ in pending]
        runner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await runner

    asyncio.run(work())


@pytest.mark.slow
def test_the_hybrid_suite_against_quantum_computers_goes_the_whole_way(tmp_path):
    both = Both(tmp_path, "mlkem768-x25519-aes128gcm")

    async def work():
        async with both.running():
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 1 in both.live.open)
            (released,) = [record for record in both.live.records if record["event"] == "released"]
            assert released["damaged"] == 0
            assert verify(both.live.transcript()).reports == 32

    asyncio.run(work())


@pytest.mark.parametrize(
    ("origins", "page", "allowed"),
    [
        ("", "https://shop.example", None),
        ("https://shop.example https://two.example", "https://shop.example", "https://shop.example"),
        ("https://shop.example", "https://shop.example.evil.example", None),
        ("*", "https://anybody.example", "*"),
    ],
)
def test_a_web_page_may_be_a_client_when_its_site_is_named(tmp_path, origins, page, allowed):
    both = Both(tmp_path, origins=origins)
    asking = {"origin": page, "access-control-request-method": "POST"}

    async def work():
        async with both.running():
            report = "http://front.test/experiments/colours/reports"
            for url in (report, "http://analyzer.test/experiments/colours"):
                headers = {"access-control-request-headers": "content-type, prefer, croupier-ticket"}
                first = await both.http.options(url, headers=asking | headers)
                assert (first.status_code == 200) == (allowed is not None)
                assert first.headers.get("access-control-allow-origin") == allowed
                answer = await both.http.get(url, headers={"origin": page})
                assert answer.headers.get("access-control-allow-origin") == allowed
            # A refusal can be read too, and no page may show a secret.
            refused = await both.http.post(report, content=b"", headers={"origin": page})
            check_problem(refused, "wrong-type")
            assert refused.headers.get("access-control-allow-origin") == allowed
            secret = asking | {"access-control-request-headers": "authorization"}
            operations = "http://analyzer.test/experiments/colours/operations"
            assert (await both.http.options(operations, headers=secret)).status_code in (400, 405)

    asyncio.run(work())


def revisions(live):
    return [record for record in live.records if record["event"] == "configured"]


@pytest.mark.slow
def test_a_revision_waits_while_turns_of_the_one_before_the_last_are_given_out(both, tmp_path):
    """A device refuses what is older than the revision before the newest that it has seen."""

    async def adding():
        async with both.running():
            assert (await both.operate(operation="add", name="blue")).status_code == 200
            await both.until(lambda: len(revisions(both.live)) == 2)
            assert (await both.operate(operation="add", name="black")).status_code == 200
            await both.until(lambda: both.live.held)
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: len(revisions(both.live)) == 3 and not both.live.held)
            assert Configuration.from_text(both.live.configured.text).arms == ("red", "green", "blue", "black")
            assert set(await both.users(96)) == {"accepted"}
            await both.until(lambda: sum(record["event"] == "released" for record in both.live.records) == 4)
            opened = [json.loads(r["offer"]["body"]) for r in both.live.records if r["event"] == "opened"]
            assert {offer["arm"] for offer in opened} == {0, 1, 2, 3}

    asyncio.run(adding())
    assert verify(both.live.transcript()).configurations == 3


@pytest.mark.slow
def test_keys_changed_twice_do_not_lock_devices_out_of_a_counter(tmp_path):
    counter = {
        "name": "colours",
        "program": {"kind": "counter", "users": 64, "shufflers": 1},
        "reward": {"protocol": "shuffled-bits"},
        "privacy": {"epsilon": 4.0, "honest_fraction": 1.0},
        "reports": {"report_within": 600, "report_at": [0, 0]},
    }
    for reports, held in ((5, False), (5, False), (54, True)):
        both = Both(tmp_path, experiment=counter)

        async def work(both=both, reports=reports, held=held):
            async with both.running():
                await both.until(lambda: both.live.registered)
                assert both.live.held == held
                assert set(await both.users(reports)) == {"accepted"}

        asyncio.run(work())
        for server in ("analyzer", "front"):
            key_files.rotate(tmp_path / server)


def test_arms_may_not_change_their_places_or_names(both, tmp_path):
    async def begin():
        async with both.running():
            await both.users(1)

    asyncio.run(begin())
    for arms in (["green", "red"], ["red", "blue"]):
        with pytest.raises(InvalidParameter, match=r"arms was \['red', 'green'\], and is"):
            Both(tmp_path, experiment=PLAN | {"arms": arms})
    with pytest.raises(InvalidParameter, match=r"program.horizon was 400, and is 500"):
        Both(tmp_path, experiment=PLAN | {"program": PLAN["program"] | {"horizon": 500}})


@pytest.mark.slow
def test_an_analyzer_that_was_restored_from_a_backup_counts_what_it_lost_as_expired_and_goes_on(both, tmp_path):
    """The front has released, and deleted, a batch that this log has never heard of."""

    async def first():
        async with both.running():
            await both.users(5)
            with sqlite3.connect(tmp_path / "analyzer.db") as now, sqlite3.connect(tmp_path / "backup.db") as then:
                now.backup(then)
            await both.users(27)
            await both.until(lambda: 1 in both.live.open)

    asyncio.run(first())
    for leftover in tmp_path.glob("analyzer.db*"):
        leftover.unlink()
    (tmp_path / "backup.db").rename(tmp_path / "analyzer.db")
    again = Both(tmp_path)

    async def second():
        async with again.running():
            await again.until(lambda: any(record["event"] == "expired" for record in again.live.records))

    asyncio.run(second())
    assert [record["batch"] for record in again.live.records if record["event"] == "expired"] == [0]


def test_the_front_signs_no_address_but_its_own(both, tmp_path):
    """Else an analyzer could have all reports sent to itself, and pick one out."""
    both.analyzer.analyzer.urls["front"] = "http://elsewhere.test"

    async def work():
        app = both.front.app
        async with (
            app.router.lifespan_context(app),
            both.analyzer.app.router.lifespan_context(both.analyzer.app),
        ):
            await both.until(lambda: "elsewhere.test" in both.live.trouble)
            assert "beyond-policy" in both.live.trouble
            assert both.live.configured is None

    asyncio.run(work())


def test_nothing_is_operated_after_the_end(both):
    async def work():
        async with both.running():
            assert (await both.operate(operation="stop")).status_code == 200
            for operation in ({"operation": "stop"}, {"operation": "add", "name": "blue"}):
                check_problem(await both.operate(**operation), "operation-refused")

    asyncio.run(work())


def test_a_store_that_cannot_be_read_leaves_the_public_record_as_it_was(both, monkeypatch):
    async def work():
        async with both.running():
            await both.users(3)
            before, shown = both.live.transcript(), both.analyzer._shown_of(both.live)
            assert json.loads(shown.text())["records"] == before.count("\n")

            def broken(*_, **__):
                raise OSError("the disk is away")

            monkeypatch.setattr(both.live.store, "read", broken)
            monkeypatch.setattr(both.live.store, "append", broken)
            with pytest.raises(OSError, match="away"):
                await both.live.operate(Asked("pause", 1))
            assert both.live.stale
            assert json.loads(shown.text())["records"] == before.count("\n")
            monkeypatch.undo()
            await both.until(lambda: not both.live.stale)
            assert both.live.transcript() == before != ""

    asyncio.run(work())


@pytest.mark.slow
def test_nobody_is_sent_to_an_arm_once_it_is_paused_or_retired(both):
    """Its open batch is given up: an operator may have a reason that does not wait for a full batch."""

    async def work():
        async with both.running():
            assert both.live.offers[0].arm == 0
            assert set(await both.users(3)) == {"accepted"}
            assert (await both.operate(operation="pause", arm=0)).status_code == 200
            assert state_of(both)["arms"][0]["paused"]
            await both.until(lambda: 1 in both.live.open)
            assert both.live.offers[1].arm == 1
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 2 in both.live.open)
            assert both.live.offers[2].arm == 1
            assert (await both.operate(operation="resume", arm=0)).status_code == 200
            assert (await both.operate(operation="retire", arm=1)).status_code == 200
            await both.until(lambda: 3 in both.live.open)
            assert both.live.offers[3].arm == 0
            check_problem(await both.operate(operation="resume", arm=1), "operation-refused")
            assert [r["batch"] for r in both.live.records if r["event"] == "expired"] == [0, 2]
            verify(both.live.transcript())

    asyncio.run(work())


def state_of(both):
    return both.live.program.show()


def test_a_server_that_is_not_ready_says_why(both, monkeypatch, caplog):
    def full(*_, **__):
        cause = sqlite3.OperationalError("database or disk is full")
        cause.sqlite_errorname = "SQLITE_FULL"
        raise OperationalError("INSERT ...", {"token": b"secret"}, cause)

    async def work():
        async with both.running():
            store = both.front.front.store
            monkeypatch.setattr(store, "assign", full)
            monkeypatch.setattr(store, "touch", full)
            check_problem(await both.http.post("http://front.test/experiments/colours/assignments"), "internal")
            answer = await both.http.get("http://front.test/readyz")
            check_problem(answer, "not-ready")
            assert answer.json()["detail"] == "the store: OperationalError (SQLITE_FULL)"
            monkeypatch.undo()
            assert (await both.http.get("http://front.test/readyz")).status_code == 200
            both.live.trouble = "the front at http://front.test does not answer"
            check_problem(await both.http.get("http://analyzer.test/readyz"), "not-ready")
            await both.until(lambda: not both.live.trouble)
            assert (await both.http.get("http://analyzer.test/readyz")).status_code == 200

    with caplog.at_level("INFO", "croupier"):
        asyncio.run(work())
    errors = [record.fields for record in caplog.records if record.message == "internal"]
    assert [error["error"] for error in errors] == ["OperationalError (SQLITE_FULL)"]
    assert "recovered" in [record.message for record in caplog.records]


def finished_run(both):
    """A transcript with a release, as records."""

    async def work():
        async with both.running():
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 1 in both.live.open)

    asyncio.run(work())
    return [json.loads(line) for line in both.live.transcript().splitlines()]


@pytest.mark.slow
def test_a_transcript_with_numbers_that_no_batch_gives_is_refused(both):
    records = finished_run(both)
    (at,) = [n for n, record in enumerate(records) if record["event"] == "released"]
    wrong = [("damaged", value) for value in (-1, 10**9, 0.5, float("nan"), True)]
    wrong += [("decoded", value) for value in (10**30, 3.7, "17", True, float("inf"), [1, 2])]
    for key, value in wrong:
        changed = [*records[:at], records[at] | {key: value}, *records[at + 1 :]]
        with pytest.raises((BadTranscript, ValueError), match=f"line {at + 1}|not JSON compliant"):
            verify(resigned(changed, both.keys.sign))


@pytest.mark.slow
def test_batches_that_the_analyzer_refused_are_counted_apart(both):
    """Whoever reads a verdict sees that sums were thrown away."""
    records = finished_run(both)
    (at,) = [n for n, record in enumerate(records) if record["event"] == "released"]
    instead = {"event": "refused", "batch": 0, "reason": "I did not like it"}
    instead |= {key: records[at][key] for key in ("at", "witness")}
    verdict = verify(resigned([*records[:at], instead], both.keys.sign))
    assert (verdict.refused, verdict.expired, verdict.released) == (1, 0, 0)


def test_arms_in_a_transcript_are_those_that_were_signed_and_added(both):
    async def work():
        async with both.running():
            refused = await both.operate(operation="add", name="blue \u2028 or so")
            assert refused.status_code == 409
            assert "none of them for control" in refused.json()["detail"]
            assert (await both.operate(operation="add", name="blue ♣ or so")).status_code == 200
            await both.until(lambda: len(revisions(both.live)) == 2)

    asyncio.run(work())
    assert verify(both.live.transcript()).configurations == 2
    without = [record for record in both.live.records if record["event"] != "operated"]
    with pytest.raises(BadTranscript, match="the arms are"):
        verify(resigned(without, both.keys.sign))
