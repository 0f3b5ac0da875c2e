"""`croupier up`: both servers on this machine, with stores and keys of their own, and the dashboard."""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from importlib import resources
from pathlib import Path

from croupier.cli.serve import require_service

NAME = "up"

HERE = {"due_within": 1, "group_seconds": 0.02}
"""Simulated users answer at once, so a turn that is not reported after a second is given to somebody else; and with few
cores to share, larger groups leave more of them to the users."""

SUMMARY = "start a shuffler and an analyzer here, with a dashboard, until Ctrl-C"


def add(command: argparse.ArgumentParser) -> None:
    """The experiments, and where things go."""
    command.add_argument("experiments", nargs="*", metavar="EXPERIMENT.toml", help="default: five arms, dp-klucb")
    command.add_argument("--home", metavar="DIR", help="keep keys and stores here (default: for this run only)")
    command.add_argument(
        "--port", type=int, default=8400, help="of the analyzer; the shuffler has the next one; 0: any"
    )
    command.add_argument("--no-browser", action="store_true", help="do not open the dashboard")


def run(options: argparse.Namespace) -> int:
    """Start both, say where to look, wait."""
    require_service()
    with tempfile.TemporaryDirectory(prefix="croupier-") as scratch:
        return _run(options, Path(options.home or scratch))


def _run(options: argparse.Namespace, directory: Path) -> int:
    from croupier.service.processes import Home, both, free_port

    analyzer = options.port or free_port()
    home = Home(directory, analyzer, analyzer + 1 if options.port else free_port())
    experiments = options.experiments or [default_experiment()]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with both(home, experiments, shuffler=HERE) as children:
        print(f"dashboard  {home.analyzer_url}/", flush=True)
        print(f"analyzer   {home.analyzer_url}   (log: {children['analyzer'].log})")
        print(f"shuffler   {home.shuffler_url}   (log: {children['shuffler'].log})")
        print(f"operator's token: {home.admin}")
        print(f"users      croupier crowd --analyzer {home.analyzer_url} --users 5000", flush=True)
        if not options.no_browser:
            import webbrowser

            webbrowser.open(home.analyzer_url)
        while not stopped.wait(0.5):
            for server, child in children.items():
                if child.process.poll() is not None:
                    print(f"the {server} has ended; see {child.log}")
                    return 1
    return 0


def default_experiment() -> str:
    """The path of the experiment that comes with the package."""
    return str(resources.files("croupier.service").joinpath("default.toml"))
