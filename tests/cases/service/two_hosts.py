"""The issuer of `examples/two-hosts` as a module."""

import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[3] / "examples" / "two-hosts" / "issuer.py"
_SPEC = importlib.util.spec_from_file_location("two_hosts_issuer", PATH)
issuer = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(issuer)
