"""Several workers behind one socket: they end with their supervisor, wait for their store, and log lines of JSON."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from cases.service import stores
from cases.service.processes import home_of
from cases.service.sockets import wait_until
from croupier.checks import CroupierError
from croupier.service.processes import Child, check_free

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are told apart by /proc"),
]


def free(port):
    try:
        check_free("127.0.0.1", port)
    except CroupierError:
        return False
    return True


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


def events(child):
    """What a server has logged: every line is one JSON object."""
    return [json.loads(line)["event"] for line in child.log.read_text().splitlines()]


@pytest.fixture
def serve(tmp_path):
    """Starts a front with two workers, and sees to it that none is left."""
    home, started = home_of(tmp_path), []

    def start(**settings):
        home.prepare()
        command = home.command("front", [], **({"workers": 2, "openers": 0} | settings))
        child = Child(command, home.front_url, tmp_path / "log.jsonl")
        started.append(child)
        child.wait_answering(path="/readyz")
        wait_until(lambda: events(child).count("started") == 2)
        return child

    yield start
    for child in started:
        child.stop()


def test_workers_end_with_a_supervisor_that_is_killed(serve):
    child = serve(openers=1)
    workers = children(child.process.pid)
    assert len(workers) == 2
    helpers = [one for worker in workers for one in children(worker)]
    assert helpers
    child.kill()
    wait_until(lambda: free(int(child.url.rpartition(":")[2])))
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in (*workers, *helpers)))
    assert events(child)


def test_a_worker_that_is_killed_is_replaced_and_all_end_when_they_are_told_to(serve):
    child = serve()
    victim, other = children(child.process.pid)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: events(child).count("started") == 3)
    assert "worker ended" in events(child)
    assert other in children(child.process.pid)
    workers = children(child.process.pid)
    child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(60) == 0
    assert not any(Path(f"/proc/{one}").exists() for one in workers)
    assert events(child).count("stopped") == 2


def test_a_worker_that_cannot_reach_its_store_tries_again(serve, tmp_path):
    url = urlsplit(stores.new_store("postgresql", tmp_path))
    given = parse_qs(url.query)
    way = tmp_path / "way"
    way.symlink_to(given["host"][0])
    options = "&".join(f"{name}={quote(values[0])}" for name, values in (given | {"host": [str(way)]}).items())
    child = serve(store=f"{url.scheme}://{url.netloc}{url.path}?{options}")
    victim, _ = children(child.process.pid)
    away = way.readlink()
    way.unlink()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: "waiting" in events(child))
    way.symlink_to(away)
    wait_until(lambda: events(child).count("started") == 3)
    child.wait_answering(path="/readyz")


CRASHES = """
import asyncio, contextlib, logging, threading, warnings
from croupier.service import logs
from croupier.service.pool import Pool

SECRET = "what a request held"

class Unlucky:
    def __del__(self):
        raise ValueError(SECRET)

def prepare():
    raise ValueError(SECRET)

def thread():
    raise ValueError(SECRET)

async def work():
    asyncio.get_running_loop().create_task(fail())
    asyncio.get_running_loop().call_soon(callback, SECRET)
    await asyncio.sleep(0.05)
    pool = Pool(1, 30.0, contextlib.nullcontext, prepare)
    try:
        await pool.run(print)
    except Exception as error:
        logging.getLogger("uvicorn.error").error("Exception in ASGI application\\n", exc_info=error)
        logs.failed(error)
        logging.getLogger("uvicorn.error").error("Exception in ASGI application\\n", exc_info=error)
    pool.close()

async def fail():
    raise ValueError(SECRET)

def callback(secret):
    raise ValueError(secret)

if __name__ == "__main__":
    logs.set_up()
    logs.catch_all()
    Unlucky()
    warnings.warn(SECRET)
    logging.getLogger("somebody").error("%d", SECRET)
    logging.getLogger("somebody").error("a line\\nand " + SECRET)
    one = threading.Thread(target=thread)
    one.start()
    one.join()
    asyncio.run(work())
    raise ValueError(SECRET)
"""


def test_whatever_goes_wrong_is_lines_of_json_that_quote_nothing(tmp_path):
    script = tmp_path / "crashes.py"
    script.write_text(CRASHES)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "request" not in ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    kinds = [line.get("error", line.get("kind")) for line in lines]
    assert kinds.count("ValueError") >= 6
    assert "UserWarning" in kinds
    # What a handler has told, the web server does not tell again.
    assert kinds.count("Stuck") == 2
    assert all(line["where"] for line in lines if "error" in line)
