"""`croupier histogram`: how many users hold each item of a public universe, released privately from a file."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from croupier.checks import CroupierError, InvalidParameter, did_you_mean, integer
from croupier.cli.options import leave_out, print_json
from croupier.cli.progress import progress
from croupier.cli.tables import number, say, table
from croupier.noise import secure, seeded
from croupier.protocols import Buckets, HistogramRelease, ItemOutside, Items, histogram
from croupier.protocols.histograms.target import CONSTANTS, MODELS, SIDES, TRUSTED, WISHES, trusted_model
from croupier.protocols.histograms.universe import LARGEST

NAME = "histogram"
SUMMARY = "count the items of a file, one a user, and release them privately"
ABOUT = (
    "Counts the items of a file, one a user, and releases the counts privately. What may be counted must be "
    "public: a list (--universe) or the buckets of a hash (--buckets). A count shown is what was received less the "
    "noise expected in it; the bounds beside it say where the truth is."
)
EXAMPLES = ("croupier histogram fruit.txt --universe fruits.txt --epsilon 1 --top 5",)

STEPS = 1000

TRUST = {
    "two-servers": "either of two servers, which each add a whole noise to every count; together they would see items",
    "shuffler": "the shuffler, to permute the messages and to keep their senders to itself; not the analyzer",
    "nobody": "nobody: each report is private by itself",
    "analyzer": "the analyzer, with every user's item",
}


def add(command: argparse.ArgumentParser) -> None:
    """The file, what it may hold, and the privacy target."""
    command.add_argument("file", metavar="FILE", help="one item a line, one line a user (- reads standard input)")
    command.add_argument("--column", metavar="NAME", help="FILE is CSV with a header: the column that holds the items")
    command.add_argument(
        "--universe", metavar="FILE", help="the items there may be, one a line: public, never taken from FILE itself"
    )
    command.add_argument("--buckets", type=int, metavar="B", help="count any text in the 2^B buckets of a public hash")
    command.add_argument("--salt", default="", metavar="TEXT", help="makes another hash of it (default: none)")
    command.add_argument("--candidates", metavar="FILE", help="items to look up among the buckets, one a line")
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="the privacy parameter ε")
    command.add_argument("--delta", type=float, metavar="D", help="δ (default: 1e-6 where the model needs one)")
    command.add_argument(
        "--model",
        choices=MODELS,
        metavar="MODEL",
        help=f"how items are counted: {', '.join(MODELS)} (default: as --trust says, else shuffle)",
    )
    command.add_argument(
        "--trust", metavar="WHO", help=f"whom to trust: {', '.join(TRUSTED)} (default: whom the model trusts)"
    )
    command.add_argument(
        "--side", choices=SIDES, help="shuffle: where counts may err (default: over, never below the truth)"
    )
    command.add_argument(
        "--minimise", choices=WISHES, default="error", help="shuffle: what is made small (default: error)"
    )
    command.add_argument(
        "--constants",
        choices=CONSTANTS,
        default="tight",
        help="noise: the least that is needed, or a paper's (default: tight)",
    )
    command.add_argument(
        "--honest-fraction",
        type=float,
        default=1.0,
        metavar="G",
        help="share of users who are counted on to add their noise (default: 1)",
    )
    command.add_argument("--top", type=int, default=10, metavar="K", help="how many items to show (default: 10)")
    command.add_argument(
        "--failure", type=float, default=0.05, metavar="P", help="chance that any bound fails (default: 0.05)"
    )
    command.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="a demonstration that can be repeated, and is not private (default: secure noise)",
    )


def run(options: argparse.Namespace) -> int:
    """Read, plan, let every user's device report, and show what the analyzer learns."""
    integer("top", options.top, 1)
    universe = _universe(options)
    lines = _items(options.file, options.column)
    recipe = histogram(
        epsilon=options.epsilon,
        delta=options.delta,
        universe=universe,
        model=_model(options),
        constants=options.constants,
        side=options.side,
        honest_fraction=options.honest_fraction,
        minimise=options.minimise,
    )
    source = secure() if options.seed is None else seeded(options.seed)
    mechanism = recipe.plan(users=len(lines))
    with progress("users", STEPS) as advance:
        try:
            release = mechanism.run([item for _, item in lines], source, lambda part: advance(round(STEPS * part)))
        except ItemOutside as refused:
            place = f"{_named(options.file)}, line {lines[refused.place][0]}"
            raise CroupierError(f"{place}: {refused.value!r} is not in the universe ({options.universe})") from None
    body, top = _summary(release, options), _top(release, options)
    if options.json:
        print_json([row | body for row in top])
    else:
        _show(body, top, release, options)
    return 0


def _model(options: argparse.Namespace) -> str:
    """The model: as asked, or the one that goes with the trust."""
    if options.trust is None:
        return options.model or "shuffle"
    model = trusted_model(options.trust)
    if not (options.model or model).startswith(model):
        raise InvalidParameter("trust", options.trust, f"left out: the {options.model} model trusts somebody else")
    return options.model or model


def _universe(options: argparse.Namespace) -> Items | Buckets:
    if options.buckets is None:
        if options.universe is None:
            raise InvalidParameter("universe", None, "given, or --buckets: what may be counted must be public")
        leave_out(options, ("candidates", "salt"), "there is no hash without --buckets")
        return Items(tuple(item for _, item in _items(options.universe, None)))
    paths = [path for path in (options.universe, options.candidates) if path is not None]
    candidates = tuple(item for path in paths for _, item in _items(path, None))
    most = LARGEST.bit_length() - 1
    if not 1 <= options.buckets <= most:
        raise InvalidParameter("buckets", options.buckets, f"a whole number B in [1, {most}]: there are 2^B of them")
    return Buckets(options.buckets, options.salt, candidates)


def _items(path: str, column: str | None) -> list[tuple[int, str]]:
    """The items of a file with the numbers of their lines."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CroupierError(f"{path}: could not be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise CroupierError(f"{_named(path)}: is not UTF-8 text") from None
    items = _column(path, text, column) if column is not None else _lines(text)
    while items and not items[-1][1]:
        items.pop()
    if not items:
        raise CroupierError(f"{_named(path)}: holds no item")
    empty = next((line for line, item in items if not item), None)
    if empty is not None:
        raise CroupierError(f"{_named(path)}, line {empty}: no item where one was due")
    return items


def _lines(text: str) -> list[tuple[int, str]]:
    return [(place, line.strip()) for place, line in enumerate(text.split("\n"), 1)]


def _column(path: str, text: str, column: str) -> list[tuple[int, str]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = reader.fieldnames or []
        if column not in names:
            raise CroupierError(
                f"{_named(path)}: no column {column!r}; it has {', '.join(map(repr, names)) or 'none'}"
                + did_you_mean(column, names)
            )
        return [(reader.line_num, (row[column] or "").strip()) for row in reader]
    except csv.Error as error:
        raise CroupierError(f"{_named(path)}, line {reader.line_num}: is not CSV ({error})") from None


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


def _summary(release: HistogramRelease, options: argparse.Namespace) -> dict[str, Any]:
    """What holds of the whole release, as plain data."""
    mechanism = release.mechanism
    certificate = mechanism.certificate()
    return {
        "users": mechanism.users,
        "items": mechanism.size,
        "model": mechanism.model,
        "constants": mechanism.constants,
        "tally": mechanism.oracle.to_dict(),
        "epsilon": mechanism.guarantee.epsilon,
        "delta": mechanism.guarantee.delta,
        "exact_epsilon": certificate.epsilon,
        "exact_delta": certificate.delta,
        "failure": options.failure,
        "radius": mechanism.radius(options.failure),
        "messages_per_user": mechanism.messages_per_user,
        "bits_per_user": mechanism.bits_per_user,
        "simulation_only": mechanism.simulation_only,
        "trusts": mechanism.trust,
        "seed": options.seed,
    }


def _top(release: HistogramRelease, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The largest counts, a row an item."""
    return [
        {"item": e.name, "index": e.index, "count": e.count, "lower": e.lower, "upper": e.upper}
        for e in release.top(options.top, options.failure)
    ]


def _show(
    body: dict[str, Any], top: list[dict[str, Any]], release: HistogramRelease, options: argparse.Namespace
) -> None:
    mechanism = release.mechanism
    universe = mechanism.universe
    say(f"{mechanism.users:,} users, {mechanism.size:,} {universe.counted}; the {len(top):,} largest counts:")
    table(
        [universe.heading, "count", "at least", "at most"],
        [
            [
                e["item"],
                f"{np.clip(e['count'], 0.0, mechanism.users):,.0f}",
                f"{e['lower']:,.0f}",
                f"{e['upper']:,.0f}",
            ]
            for e in top
        ],
        right={1, 2, 3},
    )
    for word, text in _facts(body, release, options):
        say(f"{word:<9} {text}")
    say(*universe.explanation)


def _facts(body: dict[str, Any], release: HistogramRelease, options: argparse.Namespace) -> list[tuple[str, str]]:
    """What a reader must know to use the numbers."""
    mechanism = release.mechanism
    share = f"{1 - options.failure:g}"
    exact = f"δ = {number(body['exact_delta'])} at that ε" if body["delta"] else f"ε = {number(body['exact_epsilon'])}"
    counts = f"every count, cut to lie between 0 and {mechanism.users:,},"
    messages = f"{number(body['messages_per_user'])} a user on average, {mechanism.message_bits} bits each"
    if body["simulation_only"]:
        messages += ": more than a device would send, so this can only be simulated"
    demonstration = f"seed {options.seed}: a demonstration, not a release"
    return [
        ("privacy", f"{mechanism.guarantee}, recomputed: {exact}; the number of users is public"),
        ("trusts", TRUST[mechanism.trust]),
        ("error", f"{counts} is within {number(body['radius'])} of the truth, all at once, with probability {share}"),
        ("bounds", f"{mechanism.oracle.bounds_hold(share)}. Error or bounds: choose before you look"),
        ("messages", messages),
        ("noise", "a cryptographic source, exact laws" if options.seed is None else demonstration),
    ]
