"""The command line: thin."""


def main() -> int:
    return 0
