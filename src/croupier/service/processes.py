"""Servers as processes: one server in this process, several workers of it, or both servers as children of this one."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from croupier.checks import CroupierError
from croupier.messages.signing import to_text
from croupier.service import keys as key_files
from croupier.service import logs
from croupier.service.experiment import Plan, read_plan
from croupier.service.pool import spare_collector
from croupier.service.settings import AnalyzerSettings, FrontSettings, address
from croupier.service.supervisor import supervise

log = logging.getLogger("croupier")

GRACE = 10
STORE_SECONDS = 1.0
"""Until a store that did not answer is asked again."""
QUIET_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections, one of which could take a server's port while it restarts."""
COMMAND = (sys.executable, "-c", "import sys; from croupier.cli import main; sys.exit(main())")


def serve_front(settings: FrontSettings) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was begun."""
    from croupier.service.front_app import FrontApp
    from croupier.service.meters import shared

    logs.set_up()
    with _private_files():
        if settings.workers == 1:
            _run(FrontApp(settings).app, settings)
            return
        # Everything that can be wrong is found here, once, before workers are started.
        FrontApp(settings).front.store.close()
        logs.catch_all()
        with shared(), _listener(settings) as listener:
            supervise(settings.workers, GRACE + 5, _front_worker, settings, listener)


def _front_worker(settings: FrontSettings, listener: socket.socket) -> None:
    """One of several workers. All settings are right, so a store that does not answer now will later."""
    from croupier.service.front_app import FrontApp
    from croupier.service.store.database import StoreProblem

    while True:
        try:
            app = FrontApp(settings).app
            break
        except StoreProblem as problem:
            log.error("waiting", extra={"fields": {"what": str(problem)}})
            time.sleep(STORE_SECONDS)
    _run(app, settings, listener)


def serve_analyzer(settings: AnalyzerSettings, experiments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    from croupier.service.analyzer_app import AnalyzerApp

    logs.set_up()
    plans: dict[str, tuple[str, Plan]] = {}
    for path in experiments:
        plan = read_plan(path)
        if plan.name in plans:
            raise CroupierError(f"{plans[plan.name][0]} and {path} have the same name, {plan.name!r}")
        plans[plan.name] = path, plan
    with _private_files():
        _run(AnalyzerApp(settings, [plan for _, plan in plans.values()]).app, settings)


@contextmanager
def _private_files() -> Iterator[None]:
    """Stores are their owner's alone, as keys are."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def check_free(host: str, port: int) -> None:
    """Refuse an address that somebody listens on."""
    _bound(host, port).close()


def _bound(host: str, port: int) -> socket.socket:
    probe = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    except OSError as error:
        probe.close()
        raise CroupierError(f"{host}:{port} cannot be listened on: {error.strerror}") from None
    return probe


def _listener(settings: FrontSettings | AnalyzerSettings) -> socket.socket:
    host, port = address(settings.listen)
    return _bound(host, port)


def _run(app: Any, settings: FrontSettings | AnalyzerSettings, listener: socket.socket | None = None) -> None:
    """Serve an application in this process until it is told to end, at its address or behind a socket that has it."""
    import uvicorn

    from croupier.service.connections import Bounded, new_loop

    logs.catch_all()
    config = uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.certificate_key or None,
    )
    server = uvicorn.Server(config)
    # Requests that are held open end when the server is told to.
    app.state.stopping = lambda: server.should_exit
    spare_collector()
    with listener or _listener(settings) as bound, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(server.serve([bound]))


def free_port() -> int:
    """A port that nobody listens on right now, and that no outgoing connection will be given."""
    for _ in QUIET_PORTS:
        port = QUIET_PORTS.start + secrets.randbelow(len(QUIET_PORTS))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise CroupierError("no port of 127.0.0.1 can be listened on")


@dataclass(frozen=True)
class Home:
    """Both servers' files under one directory, for trying things out: separate stores, separate keys."""

    directory: Path
    analyzer_port: int
    front_port: int

    @property
    def analyzer_url(self) -> str:
        return f"http://127.0.0.1:{self.analyzer_port}"

    @property
    def front_url(self) -> str:
        return f"http://127.0.0.1:{self.front_port}"

    @property
    def admin(self) -> Path:
        return self.directory / "analyzer" / "admin"

    @property
    def verify_keys(self) -> dict[str, str]:
        """Both servers' public signing keys, as an app pins them."""
        servers = ("analyzer", "front")
        return {server: to_text(key_files.load(self.directory / server / "keys").verify) for server in servers}

    def prepare(self) -> None:
        """Make what keys are missing; the one secret that both know is made by the analyzer."""
        for server in ("analyzer", "front"):
            key_files.make(self.directory / server / "keys")
        secret = key_files.make_bearer(self.directory / "analyzer" / "bearer")
        known = self.directory / "front" / "analyzer.sha256"
        known.write_text("sha256:" + key_files.bearer_hash(secret))
        key_files.make_bearer(self.admin)

    @contextmanager
    def held(self) -> Iterator[int | None]:
        """Keep this directory to oneself: two analyzers on one log would take turns. Whoever has the lock holds it."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CroupierError(f"{self.directory} cannot be used as a home: {error.strerror}") from None
        try:
            yield _locked(lock, self.directory)
        finally:
            os.close(lock)

    def command(self, server: str, experiments: list[str], **settings: Any) -> list[str]:
        """The command line that starts one of the servers."""
        home = self.directory / server
        given: dict[str, Any] = {"keys": home / "keys", "store": home / f"{server}.db"} | settings
        if server == "front":
            known = (home / "analyzer.sha256").read_text()
            listen = f"127.0.0.1:{self.front_port}"
            # Trying things out on one machine: whoever can reach it may take part.
            trying = {"admission": "everybody", "analyzer": known}
            given = {"listen": listen, "url": self.front_url} | trying | given
        else:
            given = {
                "listen": f"127.0.0.1:{self.analyzer_port}",
                "front": self.front_url,
                "bearer": home / "bearer",
                "admin": self.admin,
            } | given
        options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        return [*COMMAND, "serve", server, *(experiments if server == "analyzer" else []), *options]


def _locked(lock: int, directory: Path) -> int | None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: one `up` a directory is then its user's own care
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise CroupierError(f"{directory} is in use: another `croupier up` runs there") from None
    return lock


class Child:
    """A server as a child process; it keeps the file `held` open for as long as it lives."""

    def __init__(self, command: list[str], url: str, log: Path, held: int | None = None) -> None:
        self.url, self.log = url, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self._begin = file.tell()
            kept = () if held is None else (held,)
            self.process = subprocess.Popen(command, stdout=file, stderr=file, pass_fds=kept)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def how_it_ended(self) -> str:
        """By a signal, or with a status and what it called an error."""
        status = self.process.poll()
        if status is not None and status < 0:
            return f"was killed (signal {-status})"
        said = next(filter(None, map(_error_of, reversed(self._lines()))), "")
        return f"has ended with status {status}" + (f": {said}" if said else "")

    @property
    def last_words(self) -> str:
        """The last line of its log, which is why it ended if it has."""
        return (self._lines() or ["it said nothing"])[-1].removeprefix("croupier serve: ")

    @property
    def trouble(self) -> str:
        """What it last had trouble with."""
        for line in reversed(self._lines()):
            with suppress(ValueError, KeyError, TypeError):
                body = json.loads(line)
                if body["event"] == "trouble":
                    return str(body["what"])
        return ""

    def _lines(self) -> list[str]:
        """What it wrote since it was started."""
        return self.log.read_bytes()[self._begin :].decode("utf-8", errors="replace").strip().splitlines()

    def wait_answering(self, seconds: float = 60.0, path: str = "/healthz") -> None:
        """Wait until the server answers; when it ends instead, or is refused, say why."""
        import httpx2

        end = time.monotonic() + seconds
        # One client for all questions: to read the certificates takes longer than to ask.
        with httpx2.Client(timeout=5.0) as http:
            while time.monotonic() < end:
                answers = False
                with suppress(httpx2.TransportError):
                    answers = http.get(self.url + path).status_code == 200
                # Asked again after the answer, which could be another server's at the same address.
                if self.ended:
                    raise CroupierError(self.last_words)
                if answers:
                    return
                if "refused" in self.trouble:
                    raise CroupierError(self.trouble)
                time.sleep(0.05)
        why = self.trouble or self.last_words
        raise CroupierError(f"the server at {self.url} is not ready after {seconds:g} seconds: {why}")

    def stop(self) -> None:
        """Ask it to end, and make sure that it does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()


def _error_of(line: str) -> str:
    """What a line of a log calls an error; a line that is none of the log's own is the command's refusal."""
    try:
        body = json.loads(line)
    except ValueError:
        return line.strip().removeprefix("croupier serve: ")
    if not isinstance(body, dict) or body.get("level") not in ("error", "critical"):
        return ""
    return ", ".join(str(value) for key, value in body.items() if key not in ("at", "level"))


@contextmanager
def both(home: Home, experiments: list[str], **settings: dict[str, Any]) -> Iterator[dict[str, Child]]:
    """Start the front, then the analyzer, wait until both are ready, and stop them at the end."""
    urls = {"front": home.front_url, "analyzer": home.analyzer_url}
    children: dict[str, Child] = {}
    with home.held() as lock:
        home.prepare()
        for port in (home.analyzer_port, home.front_port):
            check_free("127.0.0.1", port)
        try:
            for server, url in urls.items():
                command = home.command(server, experiments, **settings.get(server, {}))
                children[server] = Child(command, url, home.directory / server / "log.jsonl", lock)
                children[server].wait_answering(path="/readyz")
            yield children
        finally:
            for server in reversed(list(children)):
                children[server].stop()
