"""`croupier crowd`: simulated users who use the real client over HTTP."""

from __future__ import annotations

import argparse
import sys

from croupier.checks import CroupierError, InvalidParameter
from croupier.cli.experiment_table import print_outcomes, print_standing
from croupier.cli.operator import add_token, token_of
from croupier.cli.options import numbers, print_json
from croupier.cli.progress import progress
from croupier.cli.serve import require_service
from croupier.cli.verify import SERVERS

NAME = "crowd"
SUMMARY = "send simulated users to a running service, with the real client"
ABOUT = (
    "Sends simulated users to a running service. They use the real client: they join, encrypt and report as an"
    " app does."
)
EXAMPLES = ("croupier crowd --users 3000 --silent 0.3 --analyzer-key KEY --front-key KEY",)

WHOSE_KEYS = "give --analyzer-key KEY and --front-key KEY, as `croupier up` prints them, or `croupier serve keys` each"
MEANS = (0.2, 0.7)
"""Of the first arm and the last, unless one says otherwise: so far apart that the default experiment decides, as good
as always, before its users are through (`tests/service/test_demo.py`)."""


def add(command: argparse.ArgumentParser) -> None:
    """How many, where to, and what they are like."""
    command.add_argument("--users", type=int, required=True, metavar="N", help="how many users take a turn")
    command.add_argument(
        "--analyzer",
        default="http://127.0.0.1:8400",
        metavar="URL",
        help="where the analyzer is (default: http://127.0.0.1:8400)",
    )
    for server in SERVERS:
        command.add_argument(
            f"--{server}-key",
            metavar="KEY",
            help=f"the signing key that the {server} must have, as `up` or `serve keys` prints it; needed where one of "
            "two servers must be honest",
        )
    command.add_argument(
        "--experiment", metavar="NAME", help="which experiment (default: the first one that is not finished)"
    )
    add_means(command)
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME=M,M,...",
        help="the means of another metric, one an arm, from 0 to 1 (default: 0.2 with every arm)",
    )
    command.add_argument(
        "--silent", type=float, default=0.0, metavar="SHARE", help="the share of users who never report (default: 0)"
    )
    command.add_argument(
        "--late", type=float, default=0.0, metavar="SHARE", help="the share who report late (default: 0)"
    )
    command.add_argument(
        "--lying", type=float, default=0.0, metavar="SHARE", help="the share who report the opposite (default: 0)"
    )
    command.add_argument(
        "--late-seconds", type=float, default=2.0, metavar="S", help="how many seconds late (default: 2)"
    )
    command.add_argument(
        "--processes", type=int, default=1, metavar="P", help="how many processes play users (default: 1)"
    )
    command.add_argument(
        "--at-once", type=int, default=32, metavar="C", help="how many users each process plays at a time (default: 32)"
    )
    command.add_argument(
        "--issuer", default="", metavar="DIR", help="the keys of the issuer, where tickets or tokens admit"
    )
    add_data(command)
    add_token(command)
    command.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="the same seed gives the same users; their noise is always secret",
    )


def run(options: argparse.Namespace) -> int:
    """Send them, then say what came of it."""
    require_service()
    from croupier.client.device import NotPinned
    from croupier.service import crowd

    keys = keys_of(options)
    analyzer, token = options.analyzer.rstrip("/"), token_of(options)
    experiment = options.experiment or first_experiment(analyzer, token)
    state = crowd.wait_finished(analyzer, experiment, 0, token)
    means = means_of(options.means, len(state["arms"]) or 1)
    population = crowd.Crowd(
        analyzer,
        experiment,
        options.users,
        means,
        options.silent,
        options.late,
        options.lying,
        options.late_seconds,
        options.at_once,
        options.seed,
        options.issuer,
        options.data,
        tuple(metric_means(one) for one in options.metric),
        keys,
    )
    try:
        with progress("users", options.users) as advance:
            outcomes = crowd.run(population, options.processes, advance)
    except NotPinned:
        raise CroupierError(f"{experiment} is safe as long as one of two servers is honest: {WHOSE_KEYS}") from None
    state = crowd.wait_finished(analyzer, experiment, 1.0, token)
    if options.json:
        print_json([{"experiment": experiment, "outcomes": outcomes, "state": state}])
    else:
        print_outcomes(experiment, outcomes)
        print_standing(state)
    if {*outcomes} - {crowd.UNSENT} == {*crowd.OVER}:
        print(f"{experiment} has ended: start another name, or another --home", file=sys.stderr)
        return 1
    return 0


def keys_of(options: argparse.Namespace) -> dict[str, bytes] | None:
    """Both servers' signing keys, or neither's."""
    from croupier.service.keys import public_key

    given = {server: getattr(options, f"{server}_key") for server in SERVERS}
    keys = {server: public_key(f"{server}-key", key) for server, key in given.items() if key is not None}
    if len(keys) == 1:
        raise CroupierError(f"one key of two is not enough: {WHOSE_KEYS}")
    return keys or None


def add_means(command: argparse.ArgumentParser) -> None:
    """What arms are worth to those who come."""
    low, high = MEANS
    how = f"the mean reward of each arm (default: evenly from {low:g} to {high:g})"
    command.add_argument("--means", type=numbers, metavar="M,M,...", help=how)


def add_data(command: argparse.ArgumentParser) -> None:
    """Who comes to a personalised experiment."""
    command.add_argument(
        "--data",
        default="",
        metavar="FILE.csv",
        help="personalised experiments: a table of users, with a column of actions and one of rewards (default: users "
        "are drawn, and each feature makes one action better)",
    )


def first_experiment(analyzer: str, token: str = "") -> str:
    """The first experiment that is not finished, or else the first."""
    from croupier.service.crowd import experiments

    for experiment in sorted(experiments(analyzer, token), key=lambda experiment: bool(experiment["finished"])):
        return str(experiment["name"])
    raise CroupierError(f"the analyzer at {analyzer} has no experiment")


def metric_means(given: str) -> tuple[str, tuple[float, ...]]:
    """The name of a metric and its means, from NAME=M,M.

    >>> metric_means("crashes=0.1,0.2")
    ('crashes', (0.1, 0.2))
    """
    name, _, means = given.partition("=")
    try:
        return name, tuple(numbers(means))
    except (ValueError, argparse.ArgumentTypeError):
        raise InvalidParameter("metric", given, "a name and its means, as crashes=0.1,0.2") from None


def means_of(given: list[float] | None, arms: int) -> tuple[float, ...]:
    """What arms are worth to simulated users."""
    if given is None:
        low, high = MEANS
        return tuple(low + (high - low) * arm / max(1, arms - 1) for arm in range(arms))
    return tuple(given)
