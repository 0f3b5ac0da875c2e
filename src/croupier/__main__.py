"""`python -m croupier`: the command line, where its command is not on the path."""

import sys

from croupier.command import main

if __name__ == "__main__":
    sys.exit(main())
