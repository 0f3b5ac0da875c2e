"""Says loudly at the end of a run what could not be tested, and keeps tests together that share servers.

A conftest further down is not asked when there is -n.
"""

from xdist.scheduler import LoadScopeScheduling


class Scheduling(LoadScopeScheduling):
    """Every test by itself, to whoever is free; those of the browser file by file, each with one pair of servers."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file.rpartition("/")[2].startswith("test_browser") else nodeid


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    for reason in sorted({reason for reason in reasons if "could not run" in reason}):
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        count = reasons.count(reason)
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')} ({count} tests)", red=True, bold=True)
