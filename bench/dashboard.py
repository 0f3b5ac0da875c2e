"""The dashboard of an experiment with a long log: from the address to everything drawn, in a real browser."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from bench.measure import heading, line
from croupier.messages.admission import Admission
from croupier.messages.configuration import ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import DEFAULT_SUITE
from croupier.programs import records
from croupier.service import keys as key_files
from croupier.service.analyzer_app import AnalyzerApp
from croupier.service.experiment import Plan, Site, plan
from croupier.service.experiment_log import Run
from croupier.service.keys import Keys
from croupier.service.processes import free_port
from croupier.service.settings import AnalyzerSettings
from croupier.service.store import AnalyzerStore

RECORDS, OPENINGS = 100_000, 7
EXPERIMENT = {
    "name": "long",
    "title": "An experiment with a long log",
    "arms": ["one", "two", "three", "four", "five"],
    "program": {"policy": "dp-klucb", "horizon": 10**9, "growth": 1.0},
}
AIM = 1.0


def made_up(found: Plan, keys: Keys) -> Iterator[str]:
    """The lines of a log of so many records, an hour apart: half of every batch's users say yes."""
    own = ServerKeys(keys.newest(DEFAULT_SUITE).public, keys.verify)
    urls = {"analyzer": "http://127.0.0.1:1", "front": "http://127.0.0.1:2"}
    site = Site(DEFAULT_SUITE, {"analyzer": own, "front": own}, urls, Admission("everybody"))
    statement = found.configuration(0, found.arms, site, proof_key=bytes(32)).statement()
    run, at = Run(found), 1.7e9

    def written(event: str, **body: object) -> str:
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        text = records.make(run.head, {"event": event, "at": when} | body, keys.sign)
        run.read(text)
        return text

    yield written("configured", configuration=statement.to_dict())
    while run.head.number + 1 < RECORDS:
        for turn in run.state.program.wanted:
            batches = tuple(Batch.of(number, statement.hash, mechanism) for number, mechanism in turn.batches)
            offer = Offer(found.name, statement.hash, turn.number, turn.arm, batches, turn.odds)
            yield written("opened", offer=offer.statement().to_dict())
        at += 3600.0
        for number, batch in list(run.state.open.items()):
            receipt = {"body": "{}", "signatures": {}}
            yield written("released", batch=number, decoded=batch.mechanism.users // 2, damaged=0, receipt=receipt)


@contextmanager
def served(home: Path) -> Iterator[str]:
    """An analyzer with that log; its front is not there, and the page does not need it."""
    keys, found = key_files.make(home / "keys"), plan(EXPERIMENT)
    store = AnalyzerStore(f"sqlite:///{home}/analyzer.db")
    lines = list(made_up(found, keys))
    for start in range(0, len(lines), 1000):
        store.append(found.name, start, *lines[start : start + 1000])
    store.close()
    port = free_port()
    for name in ("bearer", "admin"):
        key_files.make_bearer(home / name)
    settings = AnalyzerSettings(
        keys=str(home / "keys"),
        store=str(home / "analyzer.db"),
        bearer=str(home / "bearer"),
        admin=str(home / "admin"),
        front="http://127.0.0.1:9",
        listen=f"127.0.0.1:{port}",
        openers=0,
        poll=5.0,
    )
    began = time.perf_counter()
    app = AnalyzerApp(settings, [found])
    line("the analyzer reads the log at its start", f"{time.perf_counter() - began:.1f} s")
    server = uvicorn.Server(uvicorn.Config(app.app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def openings(url: str) -> list[float]:
    """How long it takes each time, in a browser that knows nothing of the page."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    took = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for _ in range(OPENINGS):
            page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
            began = time.perf_counter()
            page.goto(f"{url}/#long", wait_until="commit")
            page.wait_for_selector("#part-downloads")
            took.append(time.perf_counter() - began)
            page.context.close()
        browser.close()
    return sorted(took)


def main() -> None:
    """One line for the page, and one for what the server does before."""
    heading(f"a dashboard of {RECORDS:,} records (aim: {AIM:g} s)")
    with tempfile.TemporaryDirectory(prefix="croupier-bench-") as scratch, served(Path(scratch)) as url:
        took = openings(url)
        line("opened, everything drawn", f"{took[OPENINGS // 2]:.2f} s, at most {took[-1]:.2f} s")
