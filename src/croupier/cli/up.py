"""`croupier up`: both servers on this machine, with stores and keys of their own, the dashboard, and a crowd."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from croupier.checks import CroupierError, between, integer
from croupier.cli.crowd import add_data, add_means, first_experiment, means_of
from croupier.cli.experiment_table import print_outcomes, print_standing, watched
from croupier.cli.serve import require_service
from croupier.cli.verify import print_verdict

if TYPE_CHECKING:
    from croupier.service.processes import Child, Home

NAME = "up"

HERE = {"due_within": 1, "group_seconds": 0.02}
"""Simulated users answer at once, so a turn that is not reported after a second is given to somebody else; and with few
cores to share, larger groups leave more of them to the users."""

SUMMARY = "start a front and an analyzer here, with a dashboard, until Ctrl-C"
ABOUT = "Starts a front and an analyzer on this machine, with a dashboard, and runs until Ctrl-C."
EXAMPLES = (
    "croupier up examples/onboarding.toml",
    "croupier up --scratch --crowd 5000",
    "croupier up examples/first-experiment.toml --origins http://localhost:8000",
)
SILENT = 0.2
"""The share of simulated users who never report, unless one says otherwise."""
HOME = "croupier-data"
"""Where results are kept unless one says otherwise."""
PATIENCE = 10.0
"""Seconds that somebody watches a crowd in which nothing moves."""


def add(command: argparse.ArgumentParser) -> None:
    """The experiments, where things go, and who comes."""
    command.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT.toml", help="what is tried (default: five arms, until one wins)"
    )
    command.add_argument("--home", metavar="DIR", help=f"keep keys and results here (default: {HOME})")
    command.add_argument("--scratch", action="store_true", help="begin anew, and keep nothing")
    command.add_argument(
        "--port", type=int, default=8400, help="the analyzer's port; the front has the next one; 0: any (default: 8400)"
    )
    command.add_argument("--no-browser", action="store_true", help="do not open the dashboard")
    command.add_argument(
        "--origins",
        metavar="SITES",
        help="web sites whose pages may take part, as http://localhost:8000; * for all (default: none)",
    )
    command.add_argument(
        "--crowd", type=int, default=0, metavar="N", help="let up to N simulated users come, and watch them here"
    )
    command.add_argument(
        "--silent", type=float, metavar="SHARE", help=f"the share of them who never report (default: {SILENT})"
    )
    add_means(command)
    add_data(command)


def run(options: argparse.Namespace) -> int:
    """Start both, say where to look, wait."""
    require_service()
    integer("crowd", options.crowd, 0)
    integer("port", options.port, 0, 65_534)
    _check_crowd(options)
    _check_files(options.experiments)
    print("Starting a front and an analyzer on this machine ...", file=sys.stderr, flush=True)
    if not options.scratch:
        with _stoppable():
            return _run(options, Path(options.home or HOME))
    if options.home:
        raise CroupierError("--scratch keeps nothing, and --home says where to: give one of them")
    with tempfile.TemporaryDirectory(prefix="croupier-") as scratch, _stoppable():
        return _run(options, Path(scratch))


def _check_files(paths: list[str]) -> None:
    """What is wrong with a file is told before any server starts, and not as the end of one."""
    from croupier.service.experiment import read_plan

    for path in paths:
        read_plan(path)


def _check_crowd(options: argparse.Namespace) -> None:
    """What is said of users who do not come would be read by nobody."""
    if not options.crowd:
        for flag in ("silent", "means", "data"):
            if getattr(options, flag) not in (None, ""):
                raise CroupierError(f"--{flag} goes with --crowd: it says what simulated users are like")
    options.silent = SILENT if options.silent is None else float(between("silent", options.silent, 0, 1, "[)"))


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops whatever runs as Ctrl-C does; a second one does not disturb the servers' own end."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace, directory: Path) -> int:
    from croupier.service.keys import bearer
    from croupier.service.processes import Home, both, free_port

    analyzer = options.port or free_port()
    home = Home(directory, analyzer, analyzer + 1 if options.port else free_port())
    known = (directory / "analyzer" / "analyzer.db").exists()
    experiments = options.experiments or ([] if known else [default_experiment()])
    pages = {} if options.origins is None else {"origins": options.origins}
    with both(home, experiments, front=HERE | pages, analyzer=pages) as children:
        token = bearer(home.admin)
        print(f"dashboard  {home.analyzer_url}/", flush=True)
        print(f"analyzer   {home.analyzer_url}   (log: {children['analyzer'].log})")
        print(f"front      {home.front_url}   (log: {children['front'].log})")
        print(f"results    {'are not kept' if options.scratch else f'are kept in {directory}'}")
        print(f"apps       keys = {json.dumps(home.verify_keys)}")
        print(f"operators  log in at the dashboard with {token}")
        print(f"           commands: --token-file {home.admin}")
        if not options.crowd:
            pinned = " ".join(f"--{server}-key {key}" for server, key in home.verify_keys.items())
            print(f"users      croupier crowd --analyzer {home.analyzer_url} --users 5000 {pinned}")
        sys.stdout.flush()
        if not options.no_browser:
            import webbrowser

            webbrowser.open(home.analyzer_url)
        if options.crowd:
            _show_crowd(options, home, experiments)
            # Where nobody sits before a terminal, nobody looks at the page either.
            if not sys.stdout.isatty():
                return 0
            print(f"\nThe dashboard stays at {home.analyzer_url}/ until Ctrl-C.", flush=True)
        return _wait(children, not options.scratch)


def _show_crowd(options: argparse.Namespace, home: Home, experiments: list[str]) -> None:
    """Users take their turns; then the result, and whether its public transcript stands up to a check."""
    import httpx2

    from croupier.service import crowd
    from croupier.service.experiment import read_plan
    from croupier.service.keys import bearer
    from croupier.service.verifying import verify

    url, token = home.analyzer_url, bearer(home.admin)
    name = read_plan(experiments[0]).name if experiments else first_experiment(url, token)

    def look() -> dict[str, object]:
        return crowd.wait_finished(url, name, 0, token)

    if look()["finished"]:
        print(f"\n{name} has ended before, and what came of it was kept; --scratch begins anew.\n", flush=True)
        print_standing(look())
        return
    means = means_of(options.means, len(look()["arms"]) or 1)  # type: ignore[arg-type]
    population = crowd.Crowd(
        url, name, options.crowd, means, silent=options.silent, data=options.data, keys=home.verify_keys
    )
    print(f"\nUp to {options.crowd:,} simulated users come to {name}; {options.silent:.0%} never report.", flush=True)
    print(waits(read_plan(experiments[0]).reports.at[1] if experiments else 0.0, options.silent), flush=True)
    outcomes = watched(lambda: crowd.run(population), look)
    print_outcomes(name, outcomes)
    state = crowd.wait_finished(url, name, 5.0, token)
    print_standing(state)
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx2.get(f"{url}/experiments/{name}/transcript", headers=headers, timeout=30.0)
    if answer.status_code != 200:
        raise CroupierError(f"the transcript of {name} cannot be read: status {answer.status_code}")
    print("\nThe transcript, checked as `croupier verify` does:")
    print_verdict(verify(answer.text))


def waits(last: float, silent: float) -> str:
    """What is said before a trial that stands still, because turns that nobody reports are waited for."""
    if silent == 0.0 or last <= PATIENCE:
        return ""
    return (
        f"Their turns are given to others after {last:g} seconds, the end of report_at: until then little happens.\n"
        "For a trial, write report_at = [0, 0.2] under [reports] of the experiment.\n"
    )


def _wait(children: dict[str, Child], kept: bool) -> int:
    """Until Ctrl-C or SIGTERM, which is how this is meant to end, or until a server ends by itself."""
    try:
        while True:
            time.sleep(0.5)
            for server, child in children.items():
                if child.ended:
                    rest = f"the same command goes on; its log: {child.log}" if kept else "--scratch keeps nothing"
                    raise CroupierError(f"the {server} {child.how_it_ended} ({rest})")
    except KeyboardInterrupt:
        print()
    return 0


def default_experiment() -> str:
    """The path of the experiment that comes with the package."""
    return str(resources.files("croupier.service").joinpath("default.toml"))
