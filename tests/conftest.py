"""Says loudly at the end of a run what could not be tested; a conftest further down is not asked when there is -n."""


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    for reason in sorted({reason for reason in reasons if "could not run" in reason}):
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        count = reasons.count(reason)
        terminalreporter.line(f"{reason.removeprefix('Skipped: ')} ({count} tests)", red=True, bold=True)
