"""Clients as apps use them: reports go by themselves when they are due, and no app waits longer than it said."""

import asyncio
import json
import socketserver
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from cases.client import SHARED, Server, answer, both_signed, configuration, offer
from croupier.checks import InvalidParameter
from croupier.client import AsyncClient, Client, Limits, NoTurn, Refused, Shown, TimedOut, Turn, Unreachable
from croupier.client.device import Lost
from croupier.client.steps import Response
from croupier.messages.configuration import Reports
from croupier.messages.signing import to_text
from croupier.messages.validity import NOT_PROVED, Validity

ANALYZER, FRONT = Server.make(), Server.make()
URL = "https://analyzer.test"


def experiment(at=(0.0, 0.1), **changes):
    """An experiment whose reports are due at once, and what servers say of it."""
    found = configuration(ANALYZER, FRONT, SHARED, reports=Reports(600, at, 0.0), **changes)
    signed = both_signed(found.statement(), ANALYZER, FRONT)
    given = both_signed(offer(signed, SHARED).statement(), ANALYZER, FRONT)
    return {
        "experiments/colours": answer(200, signed.to_dict()),
        "assignments": answer(201, {"offer": given.to_dict(), "token": to_text(bytes(56)), "expires": 2**40}),
        "reports": answer(201, {"status": "accepted"}),
    }


KEYS = {"analyzer": ANALYZER.public.verify, "front": FRONT.public.verify}


class Wire:
    """Servers without a network, for a client that waits."""

    def __init__(self, answers, delay=0.0):
        self.answers, self.delay, self.asked, self.reported = answers, delay, [], threading.Event()

    def answer(self, request):
        (name,) = [name for name in self.answers if request.url.endswith(name)]
        self.asked.append(name)
        found = self.answers[name]
        found = found.pop(0) if isinstance(found, list) else found
        if name == "reports" and isinstance(found, Response):
            self.reported.set()
        return found

    def exchange(self, request):
        time.sleep(self.delay)
        return self.answer(request)

    def wait(self, seconds):
        time.sleep(min(seconds, 0.01))


class AsyncWire(Wire):
    async def exchange(self, request):
        await asyncio.sleep(self.delay)
        return self.answer(request)

    async def wait(self, seconds):
        await asyncio.sleep(min(seconds, 0.01))


def until(happened, seconds=20.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_thread_sends_what_is_due_and_ends_when_there_is_nothing_left():
    wire = Wire(experiment())
    with Client(URL, http=wire, keys=KEYS) as client:
        found = client.play("colours")
        assert isinstance(found, Turn)
        assert client.turn(found.id) == found
        assert client.turns == [found]
        assert wire.reported.wait(20.0)
        until(lambda: not client.device.account.pending and client._thread is None)
        assert client.report(found, 1.0) is False
        assert (client.turns, client.turn(found.id), client.trouble) == ([], None, None)
        # What comes later starts it again.
        client.play("colours", sticky=False)
        until(lambda: wire.asked.count("reports") == 2)


def test_what_was_closed_when_it_was_due_is_sent_at_the_next_opening(tmp_path):
    wire = Wire(experiment((0.2, 0.2)))
    client = Client(URL, account=tmp_path / "a.json", http=wire, keys=KEYS)
    found = client.play("colours")
    assert client.report(found, 1.0)
    client.close()
    time.sleep(0.3)
    assert "reports" not in wire.asked
    with Client(URL, account=tmp_path / "a.json", http=wire, keys=KEYS):
        assert wire.reported.wait(20.0)


def test_without_the_background_nothing_is_sent_but_when_the_app_says():
    wire = Wire(experiment((0.05, 0.05)))
    with Client(URL, http=wire, keys=KEYS, background=False) as client:
        client.play("colours")
        assert 0.0 < client.send_due() <= 0.05
        time.sleep(0.2)
        assert "reports" not in wire.asked
        assert client.send_due() is None
        assert wire.asked.count("reports") == 1


def test_a_network_that_fails_keeps_the_report_and_says_why():
    wire = Wire(experiment() | {"reports": Lost("nobody is there")})
    with Client(URL, http=wire, keys=KEYS) as client:
        client.play("colours")
        until(lambda: client.trouble is not None)
        assert "nobody is there" in client.trouble
        assert len(client.device.account.pending) == 1


def test_closing_stops_the_thread_in_the_middle_of_sending(tmp_path):
    wire = Wire(experiment(), delay=0.3)
    client = Client(URL, account=tmp_path / "a.json", http=wire, keys=KEYS)
    client.play("colours")
    until(lambda: client.device.account.pending)
    thread = client._thread
    client.close()
    with Client(URL, account=tmp_path / "a.json", http=Wire(experiment()), keys=KEYS, background=False) as again:
        thread.join(20.0)
        assert not thread.is_alive()
        # The old one changed nothing behind the new one's back.
        assert len(again.device.account.pending) == 1
        assert again.send_due() is None


def test_a_task_sends_what_is_due():
    async def work():
        wire = AsyncWire(experiment())
        async with AsyncClient(URL, http=wire, keys=KEYS) as client:
            found = await client.play("colours")
            assert await client.report(found, 1.0)
            for _ in range(2000):
                if not client.device.account.pending and client._task.done():
                    break
                await asyncio.sleep(0.01)
            assert wire.asked.count("reports") == 1
            assert await client.report(found, 0.0) is False
            assert await client.send_due() is None
            await client.play("colours", sticky=False)
        # Closing cancels the task; another opening would send.
        assert client._task.done()
        silent = AsyncWire(experiment())
        async with AsyncClient(URL, http=silent, keys=KEYS, background=False) as client:
            await client.play("colours")
            await asyncio.sleep(0.2)
            assert "reports" not in silent.asked

    asyncio.run(work())


# In time


class Dripping(socketserver.ThreadingTCPServer):
    """A server that answers byte by byte, without end."""

    daemon_threads = allow_reuse_address = True


class Drip(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
            while True:
                self.wfile.write(b"a")
                time.sleep(0.02)
        except OSError:
            pass


@pytest.fixture
def dripping():
    with Dripping(("127.0.0.1", 0), Drip) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_an_app_gets_its_default_in_time_from_a_server_that_drips(dripping):
    with Client(dripping) as client:
        for _ in range(2):
            began = time.monotonic()
            shown = client.play("colours", timeout=0.3, default="red")
            assert time.monotonic() - began < 1.0
            assert (shown.arm_name, shown.arm, shown.is_default) == ("red", None, True)
            assert isinstance(shown.why, TimedOut)
            assert client.report(shown, 1.0) is False
        with pytest.raises(TimedOut, match="no turn within 0.1 s"):
            client.play("colours", timeout=0.1)


def test_an_app_with_a_loop_gets_its_default_in_time_too(dripping):
    async def work():
        async with AsyncClient(dripping) as client:
            began = time.monotonic()
            shown = await client.play("colours", timeout=0.3, default="red")
            assert time.monotonic() - began < 1.0
            assert (shown.arm_name, shown.is_default, await client.report(shown, 1.0)) == ("red", True, False)
            with pytest.raises(TimedOut, match="no turn within 0.1 s"):
                await client.play("colours", timeout=0.1)

    asyncio.run(work())


def test_a_turn_that_came_too_late_is_neither_charged_nor_reported():
    wire = Wire(experiment(), delay=0.2)
    with Client(URL, http=wire, keys=KEYS) as client:
        shown = client.play("colours", timeout=0.3, default="green")
        assert shown.is_default
        assert shown.arm == 1
        time.sleep(0.5)
        assert (client.left, client.turns, client.device.account.seen) == (Limits().epsilon_per_period, [], {})
        assert isinstance(client.play("colours", timeout=20.0, default="green"), Turn)


def test_a_turn_that_was_charged_when_the_time_was_over_is_forgotten_and_its_charge_stays(monkeypatch):
    with Client(URL, http=Wire(experiment((60.0, 60.0))), keys=KEYS) as client:
        account = client.device.account
        real = account.charge

        def slow(*args):
            real(*args)
            time.sleep(0.3)

        monkeypatch.setattr(account, "charge", slow)
        assert client.play("colours", timeout=0.15, default="green").is_default
        until(lambda: account.turns and not account.taken and not account.seen)
        assert client.left == Limits().epsilon_per_period - 1.0


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"experiments/colours": Lost("nothing")}, Unreachable),
        ({"assignments": answer(410, {"type": "urn:croupier:error:experiment-finished"})}, Refused),
        ({"assignments": answer(201, {"offer": 3})}, NoTurn),
    ],
)
def test_whatever_goes_wrong_the_default_is_shown_or_one_exception_is_raised(answers, kind):
    for timeout in (None, 20.0):
        with Client(URL, http=Wire(experiment() | answers), keys=KEYS) as client:
            shown = client.play("colours", default="red", timeout=timeout)
            assert (shown.arm_name, shown.is_default) == ("red", True)
            assert isinstance(shown.why, kind)
            with pytest.raises(kind):
                client.play("colours", timeout=timeout)


def test_who_returns_sees_the_arm_again_and_not_the_default_when_there_is_no_time():
    wire = Wire(experiment((60.0, 60.0)))
    with Client(URL, http=wire, keys=KEYS) as client:
        found = client.play("colours")
        client.device.joined.clear()
        wire.delay = 0.5
        assert client.play("colours", timeout=0.1, default="green") == found


def test_mistakes_of_the_app_are_named_whatever_the_default():
    with Client(URL, http=Wire(experiment()), keys=KEYS) as client:
        for options, name in (
            ({"timeout": 0}, "timeout"),
            ({"timeout": "soon"}, "timeout"),
            ({"patience": -1}, "patience"),
            ({"default": 0}, "default"),
            ({"ticket": "text"}, "ticket"),
        ):
            with pytest.raises(InvalidParameter, match=name):
                client.play("colours", **{"default": "red"} | options)
        with pytest.raises(InvalidParameter, match="experiment"):
            client.play("Colours!", default="red")


def test_an_arm_shown_without_a_turn_says_what_it_is():
    seen, default = Shown("colours", "red", 0), Shown("colours", "red", None, TimedOut("late"))
    assert (seen.is_default, default.is_default) == (False, True)


# Without NumPy

LIGHT = """
import json, sys
sys.path.insert(0, {tests!r})

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "scipy", "flint", "rich", "httpx2"):
            raise ImportError("not here: " + name, name=name)
sys.meta_path.insert(0, Block())

from croupier.client import Client
from croupier.client.steps import Response

answers = {{name: Response(status, {{}}, content.encode()) for name, status, content in json.loads({answers!r})}}
sent = []

class Wire:
    def exchange(self, request):
        sent.append(request)
        (name,) = [name for name in answers if request.url.endswith(name)]
        return answers[name]
    def wait(self, seconds):
        pass

keys = {{name: bytes.fromhex(key) for name, key in {keys!r}.items()}}
now = 1000.0
client = Client({url!r}, http=Wire(), keys=keys, background=False, account={account!r}, clock=lambda: now)
turn = client.play("colours", timeout=20.0)
assert client.report(turn, 1.0) is True
try:
    client.report(turn, 0.5)
except ValueError as error:
    assert "0 or 1" in str(error)
now += 550.0
assert client.send_due() is None
assert [len(one.content) for one in sent if one.url.endswith("reports")] == [{length}]
client.close()
print([name for name in ("numpy", "scipy", "flint", "rich") if name in sys.modules])
"""


@pytest.mark.parametrize("validity", [NOT_PROVED, Validity.checked_with(bytes(32))], ids=lambda one: one.kind)
def test_a_device_without_noise_of_its_own_needs_no_numpy_from_join_to_report(tmp_path, validity):
    found = experiment((10.0, 500.0), title="Which?", validity=validity)
    said = [(name, one.status, one.content.decode()) for name, one in found.items()]
    code = LIGHT.format(
        tests=str(tmp_path),
        answers=json.dumps(said),
        keys={name: key.hex() for name, key in KEYS.items()},
        url=URL,
        account=str(tmp_path / "account.json"),
        length=294 if validity.proved else 254,
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_client_is_light_to_import():
    code = (
        "import sys, croupier.client; "
        "print([m for m in ('numpy', 'scipy', 'flint', 'sqlalchemy', 'starlette', 'uvicorn', 'httpx2',"
        " 'croupier.bandits', 'croupier.service', 'croupier.simulation') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_needs_numpy_says_what_to_install_where_there_is_none(tmp_path):
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numpy":
            raise ImportError("not here", name=name)
sys.meta_path.insert(0, Block())
from croupier.messages.asked import library
try:
    library().laplace
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("CroupierError this experiment needs numpy on the device: install croupier[library]")


def test_a_configuration_may_be_replaced_under_a_sticky_arm():
    wire = Wire(experiment((60.0, 60.0)))
    with Client(URL, http=wire, keys=KEYS) as client:
        first = client.play("colours")
        joined = client.device.joined["colours"]
        retired = replace(joined.configuration, retired=(first.arm,))
        client.device.joined["colours"] = replace(joined, configuration=retired)
        second = client.play("colours")
        assert isinstance(second, Turn)
        assert second.id != first.id


def test_a_turn_that_was_kept_before_survives_a_look_that_took_too_long():
    wire = Wire(experiment((60.0, 60.0)))
    with Client(URL, http=wire, keys=KEYS) as client:
        found = client.play("colours")
        client.device.joined.clear()
        wire.delay = 0.3
        client.play("colours", timeout=0.1, default="green")
        time.sleep(0.5)
        assert client.turns == [found]
        assert client.report(found, 1.0)
