"""The command `croupier`, for whoever installed all that it needs or not."""

from __future__ import annotations

import sys

LIBRARY = ("flint", "numpy", "rich", "scipy")
"""What the extra `library` installs; some of it is imported only by those who compute with it."""


def main() -> int:
    """Run the command line, or say in one line what is missing."""
    try:
        from croupier.cli import main as run

        return run()
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in LIBRARY:
            raise
        print(f"croupier: {missing} is missing: install croupier[library]", file=sys.stderr)
        return 2
