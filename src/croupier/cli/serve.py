"""`croupier serve`: the shuffler or the analyzer as a server, and their keys."""

from __future__ import annotations

import argparse
import typing
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from croupier.checks import CroupierError

NAME = "serve"
SUMMARY = "run the shuffler or the analyzer, or make their keys"

ROLES = ("shuffler", "analyzer", "keys")


def add(command: argparse.ArgumentParser) -> None:
    """The server, its settings' file, and any setting by name."""
    command.add_argument("role", choices=ROLES, help="which server; `keys` makes or rotates keys and secrets and ends")
    command.add_argument("files", nargs="*", metavar="FILE", help="experiments (analyzer), or a directory (keys)")
    command.add_argument("--settings", metavar="FILE", help="settings as TOML; see docs/service.md")
    command.add_argument("--rotate", action="store_true", help="keys: add a new sealing key beside the old ones")
    for name, kind in _options().items():
        option = f"--{name.replace('_', '-')}"
        command.add_argument(
            option, type=kind, metavar=kind.__name__.upper(), help=argparse.SUPPRESS, dest=f"set_{name}"
        )


def require_service() -> None:
    """Say what to install when the service's own dependencies are missing."""
    missing = [name for name in ("httpx", "sqlalchemy", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise CroupierError(f"{', '.join(missing)} is missing: pip install 'croupier[service]'")


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    require_service()
    given = {name: value for name in _options() if (value := getattr(options, f"set_{name}")) is not None}
    from croupier.service import settings
    from croupier.service.processes import serve_analyzer, serve_shuffler

    if options.role == "keys":
        return _keys(options, given)
    if options.role == "shuffler":
        if options.files:
            raise CroupierError("the shuffler takes no experiments: the analyzer registers them")
        serve_shuffler(settings.read(settings.ShufflerSettings, "SHUFFLER", options.settings, given))
        return 0
    if not options.files:
        raise CroupierError("the analyzer needs at least one EXPERIMENT.toml")
    serve_analyzer(settings.read(settings.AnalyzerSettings, "ANALYZER", options.settings, given), options.files)
    return 0


def _keys(options: argparse.Namespace, given: dict[str, Any]) -> int:
    from croupier.client.sealing import DEFAULT_SUITE
    from croupier.service import keys

    if len(options.files) != 1:
        raise CroupierError("say in which directory the keys are to be")
    directory, suite = Path(options.files[0]), given.get("suite", DEFAULT_SUITE)
    found = keys.make(directory, suites=(suite,))
    if options.rotate:
        keys.rotate(directory, suite)
        found = keys.load(directory)
    key = found.newest(suite)
    for name in ("bearer", "admin"):
        secret = keys.make_bearer(directory / name)
        print(f"{directory / name}: sha256:{keys.bearer_hash(secret)}")
    print(f"{directory}: signing key {found.verify.hex()}, sealing key {key.number} ({suite}) {key.id.hex()}")
    return 0


def _options() -> dict[str, Any]:
    """Every setting of either server, with its type."""
    from croupier.service.settings import AnalyzerSettings, ShufflerSettings

    found: dict[str, Any] = {}
    for kind in (ShufflerSettings, AnalyzerSettings):
        hints = typing.get_type_hints(kind)
        found |= {field.name: hints[field.name] for field in fields(kind)}
    return found
