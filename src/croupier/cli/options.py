"""Arguments that several commands share, and what they describe."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from croupier.checks import InvalidParameter, integer, unread
from croupier.protocols import ROWS, Protocol, protocol
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.references import cited
from croupier.simulation.baselines import OPTIONS
from croupier.simulation.prices import DIMENSION

OUTSIDE = "or module:name"

POLICY = f"one of `croupier policies`, {OUTSIDE}"
PROTOCOL = f"what sums batches: one of `croupier protocols`, {OUTSIDE}"


def add_target(command: argparse.ArgumentParser, *, protocol_required: bool) -> None:
    """The protocol, its privacy target and the batch."""
    names = ", ".join(ROWS.own)
    command.add_argument(
        "protocol", metavar="PROTOCOL", nargs=None if protocol_required else "?", help=f"{names}, {OUTSIDE}"
    )
    command.add_argument("--users", type=int, required=True, metavar="N", help="users in a batch")
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="the privacy parameter ε")
    command.add_argument(
        "--delta", type=float, metavar="D", help="δ, where a protocol needs one (default: the protocol's)"
    )
    command.add_argument(
        "--constants", choices=CONSTANTS, help="noise: the least that is needed, or a paper's (default: tight)"
    )
    command.add_argument(
        "--honest-fraction",
        type=float,
        default=1.0,
        metavar="G",
        help="share of users who are counted on to add their noise (default: 1)",
    )
    command.add_argument(
        "--front-noise",
        action="store_true",
        default=None,
        help="add the noise of a service's front, which is a whole noise too",
    )
    add_protocol_options(command)
    command.add_argument("--low", type=float, help="least value a user can report (default: 0)")
    command.add_argument("--high", type=float, help="largest value a user can report (default: 1)")
    command.add_argument(
        "--binary",
        action="store_true",
        default=None,
        help="users report the least or the largest value, nothing between",
    )
    command.add_argument("--dimension", type=int, metavar="D", help="how many numbers a vector has (default: 10)")


def add_protocol_options(command: Any) -> None:
    """What a protocol reads and a policy hands through to it."""
    command.add_argument(
        "--participations",
        type=int,
        metavar="B",
        help="batches that one user may take part in, under one promise (default: 1)",
    )
    add_trust(command)
    command.add_argument(
        "--scaling",
        type=float,
        metavar="S",
        help="s of Skellam and discrete Gaussian noise: how finely values are encoded (default: 10)",
    )


def add_trust(command: Any) -> None:
    """Whom to trust, where there is a choice; a wrong word is refused with the one that was probably meant."""
    who = ", ".join(TRUSTS)
    command.add_argument("--trust", metavar="WHO", help=f"{who}: where a protocol offers it (default: its own)")


def typed(options: argparse.Namespace, *flags: str) -> dict[str, Any]:
    """Those of the flags that say something else than they do by default."""
    return {flag: value for flag in flags if (value := getattr(options, flag)) != options.usual[flag]}


def leave_out(options: argparse.Namespace, flags: Iterable[str], why: str) -> None:
    """Refuse those of the flags that were given: nothing would read them."""
    for flag, value in typed(options, *flags).items():
        raise InvalidParameter(flag, value, f"left out: {why}")


def protocol_options(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    return {key: value for key in OPTIONS if (value := getattr(options, key)) is not None}


def said(given: dict[str, Any]) -> list[str]:
    """What a table's notes say of them."""
    words = []
    if given.get("participations", 1) > 1:
        words.append(f"Privacy is for a user in at most {given['participations']} batches, all their reports together.")
    if "scaling" in given:
        words.append(f"Scaling s = {given['scaling']:g}, where the noise is Skellam or discrete Gaussian.")
    if "trust" in given:
        words.append(f"Trust: {given['trust']}, {WHO[given['trust']]}.")
    return words


WHO = {
    "two-servers": "either of two servers, which each add a whole noise",
    "devices": "devices, to add their noise, and two servers not to collude",
    "shuffler": "the shuffler, to permute the messages and to keep their senders to itself",
    "nobody": "as each report is private by itself",
    "analyzer": "with every user's value",
}
"""What is asked of whom one trusts."""


GIVEN = ("low", "high", "binary", "dimension", "front_noise", *OPTIONS)
"""Flags that some protocols read."""


def protocol_from(options: argparse.Namespace, name: str, constants: str) -> Protocol:
    """The protocol that the options describe."""
    row = ROWS.find(ROWS.admit(name))
    given = {flag: getattr(options, flag) for flag in GIVEN if getattr(options, flag) is not None}
    trust = row.trusting(given.pop("trust", None))
    if options.honest_fraction != 1.0:
        given["honest_fraction"] = options.honest_fraction
    flags = [flag for flag in row.takes if flag in ("epsilon", "delta", "constants", "honest_fraction", *GIVEN)]
    for flag, value in given.items():
        # The library would list what it takes, and not all of that is a flag.
        if flag not in flags:
            raise unread(flag, value, row.name, flags, (*GIVEN, "honest_fraction"))
    given = ({"dimension": DIMENSION} if row.vectors else {}) | given | trust
    return protocol(
        name,
        epsilon=options.epsilon,
        delta=options.delta,
        constants=constants,
        **given,
    )


def whole(text: str) -> int:
    """Read 100000, or 1e5.

    >>> whole("1e5")
    100000
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        found = float(text)
        if found.is_integer() and abs(found) <= 2.0**53:
            return int(found)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number such as 100000 or 1e5")


def real(text: str) -> float:
    """Read 0.08."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number such as 0.08") from None


def numbers(text: str) -> list[float]:
    """Read 0.3,0.5,0.7."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0.3,0.5,0.7") from None


def add_world(command: Any) -> None:
    """Where rewards come from."""
    from croupier.simulation import WORLDS

    known = ", ".join(WORLDS.own)
    command.add_argument("--world", metavar="NAME", help=f"{known}, {OUTSIDE} (default: bernoulli)")
    command.add_argument("--means", type=numbers, metavar="M,M,...", help="the arms' means, as 0.3,0.5,0.7")
    command.add_argument(
        "--arms", type=int, metavar="K", help="how many arms; their means are drawn from --low to --high"
    )
    command.add_argument("--low", type=float, help="least mean drawn (default: 0.25)")
    command.add_argument("--high", type=float, help="largest mean drawn (default: 0.75)")
    command.add_argument(
        "--data",
        metavar="FILE",
        help="replay a file: clicks (.csv, Open Bandit) or ratings (LETOR, in --arms clusters)",
    )


def add_delay(command: Any) -> None:
    """When reports come."""
    command.add_argument(
        "--delay",
        type=int,
        metavar="N",
        help="a report comes while the next 0 to N users come, for policies in blocks (default: 0, at once)",
    )


def add_decisions(command: Any) -> None:
    """What policies that claim comparisons are told, who stays silent, and when the others report."""
    add_delay(command)
    command.add_argument(
        "--smallest-effect",
        type=float,
        metavar="D",
        help="the least difference worth finding, as 0.05, for policies in blocks (default: none is planned)",
    )
    command.add_argument(
        "--reporting",
        type=numbers,
        metavar="R,R,...",
        help="the share of users who report, one for all or one an arm (default: all do)",
    )


DECIDED = ["decided", "median users", "80 %", "95 %", "wrong", "silence alarms"]
"""What the table of decisions shows."""


def decided(row: dict[str, Any]) -> list[str]:
    """A policy's cells of it."""
    users = [row[f"users_{share}"] for share in ("median", "80", "95")]
    told = ["more" if one is None or one == float("inf") else f"{one:,.0f}" for one in users]
    rate, wrong, alarms = (f"{100 * row[key]:.1f} %" for key in ("decided_rate", "wrong_rate", "alarm_rate"))
    return [rate, *told, wrong, alarms]


MOST_USERS = 10_000_000
"""Every one of them is simulated: more take longer than anybody waits for a table."""


def few_enough(options: argparse.Namespace) -> None:
    """Refuse more users than can be simulated one by one."""
    if integer("users", options.users, 1) > MOST_USERS:
        raise InvalidParameter("users", options.users, f"at most {MOST_USERS:,}: every one of them is simulated")


def picture(text: str) -> str:
    """Where a picture goes: refused before anything is computed if its folder is not there."""
    folder = Path(text).parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    return text


def positive_epsilon(options: argparse.Namespace) -> float:
    """ε, refused before anything else is done with it."""
    if not options.epsilon > 0:
        raise InvalidParameter("epsilon", options.epsilon, "a finite number > 0")
    return float(options.epsilon)


def print_json(rows: Sequence[object]) -> None:
    """Machine-readable output, always a list; infinities become null, which JSON can hold.

    Where rows cite papers each ends with the author and the title of what it cites.
    """
    references = [" ".join(map(str, cited(str(row)))) for row in rows]
    if any(references):
        rows = [{**cast(Any, row), "reference": paper} for row, paper in zip(rows, references, strict=True)]
    print(json.dumps(_finite(list(rows)), indent=2, ensure_ascii=False))


def _finite(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _finite(value) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_finite(value) for value in body]
    if isinstance(body, float) and body in (float("inf"), float("-inf")):
        return None
    return body
