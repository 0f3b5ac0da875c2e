"""Servers to be killed: both as process groups, and clients whose reports say when the next one dies."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress

import httpx2

from croupier.client.device import Response
from croupier.service.crowd_wire import CrowdWire
from croupier.service.problems import URN
from croupier.service.processes import Child

MEANWHILE = 15
"""Reports that go out while a server is killed and starts again."""

PAUSE = 0.05
"""Seconds until a user asks again who found a server dead: to ask at once would only keep it from starting."""

OWN_GROUP = (sys.executable, "-c", "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])")
"""Starts a server in a process group of its own, so that its workers die with it."""


class Victims:
    """Both servers as process groups that can be killed and started again."""

    def __init__(self, home, experiments, settings):
        self.home, self.experiments, self.settings = home, experiments, settings
        self.children = {}
        home.prepare()

    def start(self, server):
        home, url = self.home, getattr(self.home, f"{server}_url")
        command = home.command(server, self.experiments, **self.settings[server])
        child = Child([*OWN_GROUP, *command], url, home.directory / server / "log.jsonl")
        self.children[server] = child
        child.wait_answering(path="/readyz" if server == "front" else "/healthz")

    def kill(self, server):
        """`kill -9` of the server, its workers and its openers, all at once."""
        process = self.children[server].process
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._wait_free(getattr(self.home, f"{server}_port"))

    def restart(self, server, seconds):
        """Kill it in so many seconds, and start it again."""
        time.sleep(seconds)
        self.kill(server)
        self.start(server)

    @staticmethod
    def _wait_free(port):
        """The last of a group to die may still hold the port for a moment."""
        for _ in range(200):
            with socket.socket() as probe, suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                return
            time.sleep(0.02)

    def stop(self):
        for child in self.children.values():
            child.stop()
            with suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)


class Watched(CrowdWire):
    """The clients' wire: counts reports and what is answered to them.

    Kills are due after so many reports, and a restart may take any time: of those that come meanwhile only some go out
    before it is over, or else a slow restart would let all of them pass, and the next kill would find none.
    """

    def __init__(self):
        super().__init__()
        self.begun, self.answers, self._most = 0, Counter(), math.inf
        self._changed = asyncio.Condition()

    async def exchange(self, request):
        if not request.url.endswith("/reports"):
            return await super().exchange(request)
        async with self._changed:
            await self._changed.wait_for(lambda: self.begun < self._most)
            self.begun += 1
            self._changed.notify_all()
        answer = await super().exchange(request)
        if isinstance(answer, Response):
            body = json.loads(answer.content)
            self.answers[body["status"] if answer.status < 400 else body["type"].removeprefix(URN)] += 1
        return answer

    async def more(self, reports):
        """Wait until so many more are on their way."""
        async with self._changed:
            due = self.begun + reports
            self._most = due + MEANWHILE
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.begun >= due)

    async def all_the_rest(self):
        async with self._changed:
            self._most = math.inf
            self._changed.notify_all()


def wait_joinable(home, *names):
    """Both servers have signed these experiments."""
    end = time.monotonic() + 60
    for name in names:
        while httpx2.get(f"{home.analyzer_url}/experiments/{name}", timeout=30).status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
