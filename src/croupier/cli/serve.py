"""`croupier serve`: the front or the analyzer as a server, and their keys."""

from __future__ import annotations

import argparse
import typing
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from croupier.checks import CroupierError
from croupier.cli.serve_operator import admit_operator

NAME = "serve"
SUMMARY = "run the front or the analyzer, or make their keys"
ABOUT = (
    "Runs one server, or makes its keys. The front and the analyzer should be run by two parties who do not "
    "collude. docs/service.md shows how to begin."
)
EXAMPLES = (
    "croupier serve keys front-keys",
    "croupier serve front --settings front.toml",
    "croupier serve analyzer experiment.toml --settings analyzer.toml",
    "croupier serve operator NAME --settings analyzer.toml",
)

ROLES = ("front", "analyzer", "keys", "operator", "restored")

SETTINGS = {
    "keys": "the directory of this server's keys",
    "store": "its store: an SQLite file, or postgresql://user@host/database",
    "listen": "where it listens, as 0.0.0.0:8400",
    "url": "its address as clients reach it (default: by `listen`)",
    "certificate": "a PEM file, to serve TLS itself",
    "certificate_key": "the certificate's key",
    "plain_http": "true where a proxy encrypts: without a certificate a server listens on this machine alone",
    "origins": "web sites whose pages may be clients, as 'https://shop.example https://www.shop.example'; * for all",
    "suite": "how reports are sealed; keys: for which suite",
    "openers": "processes that open reports, for each worker (0: none)",
    "analyzer": "front: the analyzer's secret, as a file or as sha256: and its hash",
    "workers": "front: processes that answer",
    "ahead": "front: turns given out for each user of a batch",
    "spare": "front: and so many turns more",
    "due_within": "front: seconds until a turn is given to somebody else too",
    "admission": "front: who may take part, everybody, tickets or tokens; it does not start until this is said",
    "issuer": "front: with tickets or tokens, the public key of who issues them, as base64; not the analyzer",
    "remember": "front: for how many seconds spent turns and tickets are remembered (blind tokens: for good)",
    "largest_epsilon": "front: the largest ε that it signs",
    "smallest_batch": "front: the smallest batch that it signs",
    "group_size": "front: reports written in one transaction, at most",
    "group_seconds": "front: how long a report waits for others to be written with",
    "queue": "front: requests that wait; one more is told to come back later",
    "bearer": "analyzer: the file with the secret that it shows the front",
    "admin": "analyzer: the operators' secret, as a file or as sha256: and its hash",
    "front": "analyzer: the front's address as clients reach it",
    "front_internal": "analyzer: its own way to the front (default: the same)",
    "epoch": "analyzer: seconds that a sealing key is offered; 0: for ever",
    "session": "analyzer: seconds until who logged in at its page must do so again",
    "poll": "analyzer: seconds between two looks at the front; ten times as long while nothing happens",
}
"""What each setting means; `docs/service.md` has the defaults."""

METAVARS = {int: "N", float: "NUMBER", str: "TEXT", bool: "true"}


def add(command: argparse.ArgumentParser) -> None:
    """The server, its settings' file, and any setting by name."""
    command.add_argument(
        "role",
        choices=ROLES,
        metavar="{" + ",".join(ROLES) + "}",
        help="which server to run. Or what to do, and end: `keys` makes or rotates keys and secrets; `operator` lets "
        "somebody operate the analyzer, with a new password and token; `restored` makes it safe to start a server "
        "after its store was restored from a backup",
    )
    # The front takes none; without a default argparse would call them required.
    command.add_argument(
        "files",
        nargs="*",
        default=[],
        metavar="FILE",
        help="experiments (analyzer), a directory (keys), a name (operator), or whose (restored)",
    )
    command.add_argument("--settings", metavar="FILE", help="settings as TOML; see docs/service.md")
    command.add_argument("--rotate", action="store_true", help="keys: add a new sealing key beside the old ones")
    command.add_argument("--tokens", action="store_true", help="keys: an issuer's key for blind tokens, too")
    command.add_argument("--remove", action="store_true", help="operator: let them operate no longer")
    settings = command.add_argument_group(
        "settings",
        "Both servers have them, unless it says whose they are. They may also stand in the settings' file, or in the "
        "environment as CROUPIER_FRONT_NAME or CROUPIER_ANALYZER_NAME.",
    )
    from croupier.service.settings import reader

    kinds = _options()
    for name in sorted(kinds, key=[*SETTINGS, *kinds].index):
        settings.add_argument(
            f"--{name.replace('_', '-')}",
            type=reader(kinds[name]),
            metavar=METAVARS[kinds[name]],
            help=SETTINGS.get(name, "").replace("%", "%%"),
            dest=f"set_{name}",
        )


def require_service() -> None:
    """Say what to install when the service's own dependencies are missing."""
    missing = [
        name
        for name in ("aiohttp", "httptools", "httpx2", "sqlalchemy", "starlette", "uvicorn")
        if find_spec(name) is None
    ]
    if missing:
        raise CroupierError(f"{', '.join(missing)} is missing: install croupier[service]")


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    require_service()
    given = {name: value for name in _options() if (value := getattr(options, f"set_{name}")) is not None}
    from croupier.service import settings
    from croupier.service.processes import serve_analyzer, serve_front

    if options.role == "keys":
        return _keys(options, given)
    if options.role == "restored":
        return _restored(options, given)
    if options.role == "operator":
        return admit_operator(options, given)
    if options.role == "front":
        if options.files:
            raise CroupierError("the front takes no experiments: the analyzer registers them")
        serve_front(settings.read(settings.FrontSettings, "FRONT", options.settings, given))
        return 0
    serve_analyzer(settings.read(settings.AnalyzerSettings, "ANALYZER", options.settings, given), options.files)
    return 0


def _restored(options: argparse.Namespace, given: dict[str, Any]) -> int:
    from croupier.service import settings
    from croupier.service.restoring import restored_analyzer, restored_front

    if options.files == ["front"]:
        found = restored_front(settings.read(settings.FrontSettings, "FRONT", options.settings, given))
        print(f"{found} open batches were given up, and every turn that was given out is void. Start the front.")
    elif options.files == ["analyzer"]:
        found = restored_analyzer(settings.read(settings.AnalyzerSettings, "ANALYZER", options.settings, given))
        print(f"{found} sealing keys were destroyed, and new ones made. Start the analyzer.")
    else:
        raise CroupierError("say whose store was restored: croupier serve restored front, or analyzer")
    return 0


def _keys(options: argparse.Namespace, given: dict[str, Any]) -> int:
    from croupier.messages.sealing import DEFAULT_SUITE
    from croupier.messages.signing import to_text
    from croupier.service import keys

    if len(options.files) != 1:
        raise CroupierError("say in which directory the keys are to be")
    directory, suite = Path(options.files[0]), given.get("suite", DEFAULT_SUITE)
    ring = keys.make(directory, suites=(suite,))
    if options.rotate:
        keys.rotate(directory, suite)
        ring = keys.load(directory)
    key = ring.newest(suite)
    for name in ("bearer", "admin"):
        secret = keys.make_bearer(directory / name)
        print(f"{directory / name}: sha256:{keys.bearer_hash(secret)}")
    # Each at the end of a line of its own, where it is copied as it is.
    print(f"{directory}: signing key {to_text(ring.verify)}")
    print(f"{directory}: sealing key {key.number} ({suite}) {to_text(key.id)}")
    if options.tokens:
        print(f"{directory / 'tokens.pem'}: token key {to_text(keys.make_token_issuer(directory).public)}")
    return 0


def _options() -> dict[str, Any]:
    """Every setting of either server, with its type."""
    from croupier.service.settings import AnalyzerSettings, FrontSettings

    types: dict[str, Any] = {}
    for kind in (FrontSettings, AnalyzerSettings):
        hints = typing.get_type_hints(kind)
        types |= {field.name: hints[field.name] for field in fields(kind)}
    return types
