"""How the tests are run: what is begun first, what stays together, what is left out, and what could not be tested.

With --evidence FILE it writes there what every test of the marker `evidence` found, test after test: how it ended, how
long it took, and what it said of itself with `record_property`. After so many --minutes no test is begun any more, and
--resume goes on with those that FILE does not hold. A conftest further down is not asked when there is -n.
"""

import gc
import json
import re
import time
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

collect_ignore = ["cases/service/bare/sitecustomize.py"]
"""It leaves all noise out of the process that imports it: it is for servers, never for tests."""

TOGETHER = (
    "test_block_records",
    "test_browser",
    "test_concurrent_figures",
    "test_exports",
    "test_figures",
    "test_growing_figure",
    "test_http_limits",
    "test_large_logs",
    "test_learner_figure",
    "test_users_epsilon_figure",
)
"""Files whose tests share what takes long to make, a pair of servers or the numbers of figures: one worker has it."""

NO_TIME = "no time is left for it: --resume goes on"

QUICK = 7
"""So many tests of a file are enough for --quick, with one case each."""


class Scheduling(LoadScopeScheduling):
    """Slow tests each by itself, to whoever is free; quick ones, and those that share something, file by file."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file.rpartition("/")[2].startswith(TOGETHER) or is_quick(file) else nodeid


@cache
def is_quick(file):
    """If no test of the file has a marker that says how long it takes."""
    return not re.search(r"mark\.(slow|evidence)", Path(file).read_text())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


def pytest_addoption(parser):
    parser.addoption("--evidence", metavar="FILE", help="write what tests marked evidence found, as JSON")
    parser.addoption("--minutes", type=float, default=float("inf"), help="begin no test later than that")
    parser.addoption("--resume", action="store_true", help="with --evidence: leave out what FILE says that held")
    parser.addoption("--quick", action="store_true", help="a few tests of every file, one case each")


def pytest_collection():
    """A quarter of collecting was looking through the tests for garbage, of which there is none."""
    gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Files with slow tests come first, so that no worker is left alone with one at the end.

    They are mixed, always alike: where neighbours all wait for servers, nobody computes.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, crc32(item.path.name.encode())))
    if config.getoption("--quick"):
        keep_only(config, items, a_few(items))
    if config.getoption("--resume"):
        held = {one["claim"] for one in already_found(config) if one["held"]}
        keep_only(config, items, {item for item in items if item.nodeid not in held})


def keep_only(config, items, kept):
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def already_found(config):
    """What an earlier run has written down."""
    path = Path(config.getoption("--evidence"))
    return json.loads(path.read_text()) if path.exists() else []


def a_few(items):
    """One case of each test, and at most QUICK tests of a file, evenly spread."""
    files = {}
    for item in items:
        files.setdefault(item.path, {}).setdefault(item.nodeid.partition("[")[0], item)
    return {item for tests in files.values() for item in list(tests.values())[:: -(-len(tests) // QUICK)]}


def pytest_configure(config):
    config.begun = time.monotonic()
    if config.getoption("--evidence") and not hasattr(config, "workerinput"):
        found = already_found(config) if config.getoption("--resume") else []
        config.pluginmanager.register(Evidence(Path(config.getoption("--evidence")), found))


def pytest_runtest_setup(item):
    if time.monotonic() - item.config.begun > 60 * item.config.getoption("--minutes"):
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    for reason in sorted({reason for reason in reasons if "could not run" in reason}):
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        count = reasons.count(reason)
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')} ({count} tests)", red=True, bold=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What was measured goes to another process, which takes Python's own numbers only."""
    report = yield
    report.user_properties = json.loads(json.dumps(report.user_properties, default=lambda value: value.tolist()))
    return report


class Evidence:
    """What every test of the marker `evidence` measured, written after each: an interrupted run has shown something."""

    def __init__(self, path, found):
        self.path, self.found, self.left = path, found, 0

    def pytest_runtest_logreport(self, report):
        if report.skipped and NO_TIME in str(report.longrepr):
            self.left += 1
        # What is skipped says nothing: a test's own case that does not apply, or a system without what it takes.
        if "evidence" not in report.keywords or report.skipped or not (report.when == "call" or report.failed):
            return
        self.found = [one for one in self.found if one["claim"] != report.nodeid]
        about = {"claim": report.nodeid, "held": report.passed, "seconds": round(report.duration, 1)}
        if report.failed:
            about["why"] = str(report.longrepr)[-4000:]
        self.found.append(about | dict(report.user_properties))
        self.found.sort(key=lambda one: one["claim"])
        self.path.write_text(json.dumps(self.found, indent=1, ensure_ascii=False) + "\n")

    def pytest_terminal_summary(self, terminalreporter):
        held = sum(one["held"] for one in self.found)
        said = f"{self.path}: {held} claims held, {len(self.found) - held} did not"
        more = f"; {self.left} were not tried for want of time: make evidence RESUME=--resume" if self.left else ""
        terminalreporter.line(said + more)
