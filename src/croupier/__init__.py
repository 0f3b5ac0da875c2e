"""Private online learning without a trusted server."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  An older Python would stop at newer syntax, with a traceback.
    raise SystemExit("croupier needs Python 3.11 or later; this is Python {}.{}".format(*sys.version_info))

__version__ = "0.1.0"
