"""`croupier serve operator`: who may operate the analyzer. The server need not be stopped for it."""

from __future__ import annotations

import argparse
import getpass
import sys
import time
from pathlib import Path
from typing import Any

from croupier.checks import CroupierError


def admit_operator(options: argparse.Namespace, given: dict[str, Any]) -> int:
    """Let somebody operate, or no longer."""
    from croupier.service import operators, settings
    from croupier.service.keys import load
    from croupier.service.register import SERVER, Register
    from croupier.service.store import AnalyzerStore

    if len(options.files) != 1:
        raise CroupierError("say who: croupier serve operator NAME --settings analyzer.toml")
    name = operators.check_operator(options.files[0])
    found = settings.read(settings.AnalyzerSettings, "ANALYZER", options.settings, given)
    password = "" if options.remove else _asked_password(name)
    store = AnalyzerStore(settings.store_url(found.store))
    try:
        register = Register(store, load(Path(found.keys)), time.time)
        if options.remove:
            if not store.remove_operator(name):
                raise CroupierError(f"there is no operator {name!r}; there are: {', '.join(store.operators())}")
            register.write(SERVER, "removed", operator=name)
            print(f"{name} is logged out, and their password and token are void.")
            return 0
        account, token = operators.new_account(name, password)
        known = store.put_operator(account)
        register.write(SERVER, "admitted", operator=name)
    finally:
        store.close()
    print(f"{name} may operate{', with new secrets: the old ones are void' if known else ''}.")
    print(f"the page    {name} and the password" if password else "the page    the token below, for a password")
    print(f"commands    --token, or CROUPIER_TOKEN in the environment (shown this once): {token}")
    return 0


def _asked_password(name: str) -> str:
    """A password, from the terminal or the first line of what is piped in; it may be empty."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass(f"a password for {name} (empty: none, they log in by their token): ")
    if first and getpass.getpass("again: ") != first:
        raise CroupierError("the two passwords differ")
    return first
