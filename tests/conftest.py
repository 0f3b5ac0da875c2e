"""Says loudly at the end of a run what could not be tested, and keeps tests together that share servers.

With --evidence FILE it writes there what every test of the marker `evidence` found: how it ended, how long it took, and
what the test said of itself with `record_property`. A conftest further down is not asked when there is -n.
"""

import json
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling


class Scheduling(LoadScopeScheduling):
    """Every test by itself, to whoever is free; those of the browser file by file, each with one pair of servers."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file.rpartition("/")[2].startswith("test_browser") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


def pytest_addoption(parser):
    parser.addoption("--evidence", metavar="FILE", help="write what tests marked evidence found, as JSON")


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--evidence"):
        write_evidence(terminalreporter.stats, Path(config.getoption("--evidence")))
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    for reason in sorted({reason for reason in reasons if "could not run" in reason}):
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        count = reasons.count(reason)
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')} ({count} tests)", red=True, bold=True)


def write_evidence(stats, path):
    """Every test of the marker `evidence`, with what it measured."""
    reports = [report for outcome in ("passed", "failed") for report in stats.get(outcome, [])]
    found = [
        {
            "claim": report.nodeid,
            "held": report.passed,
            "seconds": round(report.duration, 1),
            **dict(report.user_properties),
        }
        for report in reports
        if "evidence" in report.keywords
    ]
    path.write_text(json.dumps(sorted(found, key=lambda one: one["claim"]), indent=1, ensure_ascii=False) + "\n")
