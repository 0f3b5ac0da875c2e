"""What stands still shows: a stopped front, a stuck process, a frozen, full or read-only disk, seen from outside."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, nullcontext

import httpx2
import pytest
from sqlalchemy import event

from cases.service.both import Both, check_problem
from cases.service.processes import HISTOGRAM, QUICK, home_of, written
from croupier.service import analyzer_app, meters, waits
from croupier.service.pool import Pool, Stuck
from croupier.service.processes import both as both_processes
from croupier.service.waits import Waits


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Both servers, looked at often."""
    monkeypatch.setattr(waits, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(analyzer_app, "TOUCH_SECONDS", 0.1)
    return Both(tmp_path)


def impatient(both, what):
    """Only for this: everything else may take as long as a busy machine takes."""
    both.analyzer.waits._late[what] = 0.3


async def ready(both):
    return await both.http.get("http://analyzer.test/readyz")


async def until_not_ready(both, why):
    for _ in range(1000):
        answer = await ready(both)
        if answer.status_code == 503 and why in answer.json()["detail"]:
            check_problem(answer, "not-ready")
            return answer.json()["detail"]
        await asyncio.sleep(0.02)
    raise AssertionError(f"it is {answer.status_code} {answer.text}")


async def waiting(both, what):
    text = (await both.http.get("http://analyzer.test/metrics")).text
    return float(re.search(rf'croupier_waiting_seconds{{what="{what}"}} (\S+)', text)[1])


def test_a_front_that_takes_requests_and_gives_no_answer_shows_and_a_pause_does_not_wait_for_it(
    both, monkeypatch, caplog
):
    real = both.http.stream

    @asynccontextmanager
    async def stopped(method, url, **more):
        if "front.test" in str(url):
            await asyncio.Event().wait()
        async with real(method, url, **more) as answer:
            yield answer

    async def work():
        async with both.running():
            await both.users(1)
            monkeypatch.setattr(both.http, "stream", stopped)
            impatient(both, "front")
            detail = await until_not_ready(both, "front: no answer for")
            assert "store" not in detail
            assert await waiting(both, "front") > 0.3
            assert (await both.operate(operation="pause", arm=1)).status_code == 200
            assert both.live.records[-1]["operation"] == "pause"
            assert both.live.program.show()["arms"][1]["paused"]
            await both.until(lambda: any(record.message == "not ready" for record in caplog.records))

    with caplog.at_level("INFO", "croupier"):
        asyncio.run(work())
    said = [record.fields["what"] for record in caplog.records if record.message == "not ready"]
    assert any("front: no answer for" in what for what in said)


@pytest.mark.slow
def test_a_frozen_disk_shows_while_the_server_still_answers_and_nothing_is_lost_when_it_thaws(both, monkeypatch):
    thawed = threading.Event()

    async def work():
        async with both.running():
            real = both.live.store.append

            def frozen(*given, **more):
                thawed.wait()
                real(*given, **more)

            monkeypatch.setattr(both.live.store, "append", frozen)
            assert set(await both.users(32)) == {"accepted"}
            impatient(both, "store")
            await until_not_ready(both, "store: no answer for")
            assert await waiting(both, "store") > 0.3
            assert (await both.http.get("http://analyzer.test/healthz")).status_code == 200
            state = await both.http.get("http://analyzer.test/experiments/colours/state")
            # What is not on the disk is in no log.
            assert [event["event"] for event in state.json()["events"]] == ["configured", "opened"]
            with monkeypatch.context() as hasty:
                hasty.setattr(analyzer_app, "OPERATE_SECONDS", 0.5)
                check_problem(await both.operate(operation="pause", arm=1), "not-ready")
            thawed.set()
            await both.until(lambda: 1 in both.live.open)
            assert (await both.operate(operation="stop")).status_code == 200
            await both.until(lambda: both.live.standings.get("finished"))
            assert [r["event"] for r in both.live.records if r["event"] == "released"] == ["released"]
            for _ in range(100):
                if (await ready(both)).status_code == 200:
                    return
                await asyncio.sleep(0.05)
            raise AssertionError((await ready(both)).text)

    try:
        asyncio.run(work())
    finally:
        thawed.set()


def test_a_disk_that_takes_nothing_shows_though_there_is_nothing_to_write(both):
    pragma = "OFF"

    def obey(connection, *_):
        connection.execute(f"PRAGMA query_only={pragma}")

    async def work():
        nonlocal pragma
        async with both.running():
            before = both.live.count
            event.listen(both.analyzer.store.database.engine, "checkout", obey)
            pragma = "ON"
            assert "SQLITE_READONLY" in await until_not_ready(both, "the store: ")
            text = (await both.http.get("http://analyzer.test/metrics")).text
            assert 'croupier_ready{server="analyzer"} 0.0' in text
            pragma = "OFF"
            for _ in range(100):
                if (await ready(both)).status_code == 200:
                    break
                await asyncio.sleep(0.05)
            assert (await ready(both)).status_code == 200
            assert both.live.count == before

    asyncio.run(work())


def test_a_wait_that_is_not_late_shows_nowhere():
    """Each wait is that of somebody's turn or report: who watches the metrics would see when it came."""
    seen = Waits(work=0.05)
    with seen.on("work"):
        assert seen.ages == {"work": 0.0}
        time.sleep(0.06)
        assert seen.ages["work"] > 0.05
    assert seen.ages == {"work": 0.0}


def test_single_refusals_of_the_front_show_nowhere():
    front = meters.Meters(meters.FRONT, meters.COARSE)
    for count in range(1, 65):
        front.add("problems", "too-late")
        told = re.search(rb'croupier_problems_total{outcome="too-late"} (\S+)', front.answer().body)[1]
        assert float(told) == count // 32 * 32


@pytest.mark.slow
def test_a_process_that_stands_still_is_replaced_and_its_work_done_again():
    seen = Waits(work=0.0)
    pool = Pool(2, 4.0, lambda: seen.on("work"))

    async def work():
        await pool.warm()
        old = list(pool._executor._processes)
        for pid in old:
            os.kill(pid, signal.SIGSTOP)
        asked = [asyncio.create_task(pool.run(os.getpid)) for _ in range(5)]
        await asyncio.sleep(0.5)
        assert seen.ages["work"] > 0.3
        assert "work: no answer" in seen.trouble
        found = await asyncio.gather(*asked)
        assert not set(found) & set(old)
        assert seen.ages["work"] == 0.0

    try:
        asyncio.run(work())
    finally:
        pool.close()


def test_work_that_no_process_finishes_is_given_up():
    pool = Pool(1, 0.2, nullcontext)

    async def work():
        with pytest.raises(Stuck, match="no process has finished"):
            await pool.run(time.sleep, 60)

    try:
        asyncio.run(work())
    finally:
        pool.close()


WORKER = """
import sys
from croupier.service.meters import FRONT, Meters
meters = Meters(FRONT)
meters.add("reports", "accepted", 32 * int(sys.argv[1]))
meters.show("waiting_seconds", {"store": float(sys.argv[1])})
meters.show("ready", {"front": sys.argv[1] == "3"})
print("counted", flush=True)
sys.stdin.readline()
print(meters.answer().body.decode(), flush=True)
"""


@pytest.mark.slow
def test_several_workers_are_one_scrape_and_a_dead_one_waits_for_nothing():
    def worker(count):
        command = [sys.executable, "-c", WORKER, str(count)]
        found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert found.stdout.readline() == "counted\n"
        return found

    with meters.shared():
        workers = [worker(3), worker(4), worker(5)]
        workers[2].kill()
        workers[2].communicate()
        scraped = workers[0].communicate("\n")[0]
        workers[1].communicate("\n")
    assert 'croupier_reports_total{outcome="accepted"} 384.0' in scraped
    assert 'croupier_waiting_seconds{what="store"} 4.0' in scraped
    assert 'croupier_ready{server="front"} 0.0' in scraped
    assert meters.SHARED not in os.environ


@pytest.mark.slow
def test_a_stopped_front_process_shows_in_seconds_and_everything_goes_on_after(tmp_path):
    home = home_of(tmp_path)
    with both_processes(home, [written(tmp_path, HISTOGRAM)], **QUICK) as children:
        address = f"{home.analyzer_url}/readyz"
        os.kill(children["front"].process.pid, signal.SIGSTOP)
        try:
            detail = until(lambda: httpx2.get(address, timeout=5), lambda answer: answer.status_code == 503)
            assert "front" in detail.json()["detail"]
            admin = {"authorization": f"Bearer {analyzer_app.key_files.bearer(home.admin)}"}
            operations = f"{home.analyzer_url}/experiments/fruit/operations"
            answer = httpx2.post(operations, json={"operation": "stop"}, headers=admin, timeout=5)
            assert answer.status_code == 200
            until(children["analyzer"].log.read_text, lambda text: '"event": "not ready"' in text)
        finally:
            os.kill(children["front"].process.pid, signal.SIGCONT)
        until(lambda: httpx2.get(address, timeout=5), lambda answer: answer.status_code == 200)


def until(ask, good):
    for _ in range(300):
        answer = ask()
        if good(answer):
            return answer
        time.sleep(0.1)
    raise AssertionError(str(answer))
