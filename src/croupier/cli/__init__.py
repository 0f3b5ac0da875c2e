"""The command line: thin.

Each command is a module with `NAME`, `SUMMARY`, `ABOUT` and `EXAMPLES` (its help), `add` (its arguments) and `run`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from croupier import __version__
from croupier.checks import CroupierError, InvalidParameter, did_you_mean
from croupier.cli.options import real, whole
from croupier.noise.window import TooWide
from croupier.references import cited

OPERATIONS = ("start", "pause", "resume", "stop", "retire", "add", "ramp")
"""Commands that ask one thing of an experiment: `WISHES` of `operate`, named here too so that no other imports it."""

GROUPS = {
    "try it": ("simulate", "count", "linear", "sweep", "policies"),
    "plan an experiment": ("plan", "protocols", "price"),
    "run it": ("up", "serve", "crowd", "histogram", "learn"),
    "operate it": ("status", "create", *OPERATIONS, "export"),
    "check the privacy": ("audit", "verify"),
    "reproduce a paper": ("reproduce",),
}
"""Commands by what a person wants."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

SERVING = ("up", "serve")
"""Those that run until they are stopped, and have no result to print as JSON."""

EXAMPLES = "for example:"
"""What stands above them."""

DASHED = re.compile(r"-[A-Za-z0-9_-]{42}=?|-\.?\d[-+.,\deE]*")
"""A public key may begin with a dash, and a number, or a list of them, with a minus."""


class _Help(argparse.HelpFormatter):
    """Help in which examples stay as they are written, and no name is broken at its hyphen."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line on stderr, exit status 2, with the word that was probably meant."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # What is no number is said in words, wherever one is asked for.
        self.register("type", int, whole)
        self.register("type", float, real)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in choices:
            known = ", ".join(choices)
            raise argparse.ArgumentError(
                action, f"there is no {value!r}; there are {known}{did_you_mean(value, choices)}"
            )

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message}\n")


def command(name: str) -> Any:
    """What a command is. It is imported when it is asked for: a server that starts need not wait for the others."""
    if name in OPERATIONS:
        return {wish.NAME: wish for wish in import_module("croupier.cli.operate").WISHES}[name]
    return import_module(f"croupier.cli.{name}")


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line with these commands."""
    known = {name: command(name) for name in names}
    top = _Parser(
        prog="croupier",
        description="Private online learning without a trusted server.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join([*_overview(known), "`croupier COMMAND --help` explains one command, with an example."]),
        usage="croupier COMMAND [options]",
    )
    top.add_argument("--version", action="version", version=f"croupier {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, module in known.items():
        one = commands.add_parser(
            name,
            prog=f"croupier {name}",
            help=module.SUMMARY,
            description=module.ABOUT,
            epilog="\n".join([EXAMPLES, *(f"  {line}" for line in module.EXAMPLES)]),
            formatter_class=_Help,
        )
        if name not in SERVING:
            one.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
        module.add(one)
        one.set_defaults(run=module.run, usual={action.dest: action.default for action in one._actions})
    return top


def _overview(known: Mapping[str, Any]) -> list[str]:
    lines = []
    for wish, names in GROUPS.items():
        lines += [f"{wish}:"] + [f"  {name:<12}{known[name].SUMMARY}" for name in names if name in known] + [""]
    return lines


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; files may come after them, which argparse alone does not allow behind another positional."""
    given = _joined(sys.argv[1:] if arguments is None else arguments)
    top = parser(given[:1] if given and given[0] in COMMANDS else COMMANDS)
    _check_flags(top, given)
    options, rest = top.parse_known_args(given)
    if rest and (not hasattr(options, "files") or any(argument.startswith("-") for argument in rest)):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.files += rest
    return options


def _check_flags(top: argparse.ArgumentParser, given: list[str]) -> None:
    """Refuse a misspelt option with the one that was meant: argparse would first ask for those that are required."""
    commands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction)).choices
    if given and given[0] not in commands and not given[0].startswith("-"):
        return  # of a misspelt command no option is known: the command is told
    command = commands.get(given[0], top) if given else top
    known = [flag for action in command._actions for flag in action.option_strings if flag.startswith("--")]
    for word in given[: given.index("--") if "--" in given else None]:
        flag = word.partition("=")[0]
        # What one begins with is enough where it is clear.
        if flag.startswith("--") and not any(one.startswith(flag) for one in known):
            command.error(f"unrecognized arguments: {word}{did_you_mean(flag, known)}")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Values that begin with a dash, joined to their options: argparse would take a key, or -1e-3, for an option."""
    joined: list[str] = []
    for argument in arguments:
        if DASHED.fullmatch(argument) and joined and re.fullmatch("--[a-z-]+", joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _written(value: float) -> str:
    """A number as a person would type it: 1,000,000 or 0.5."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _blamed(error: TooWide, options: argparse.Namespace) -> str:
    """A message that speaks of a noise, with what was typed that led to it."""
    typed = ((name, getattr(options, name, None)) for name in ("users", "epsilon"))
    given = ", ".join(f"{name} = {_written(value)}" for name, value in typed if isinstance(value, int | float))
    hint = "; --binary, for values that are one of two, needs less" if getattr(options, "binary", True) is None else ""
    return f"{given} leads to noise that is too wide to compute with: {error}{hint}" if given else str(error)


FLAGS = {"protocol_name": "protocol"}
"""Parameters of the library that have another name here."""

LARGE = ("users", "runs", "arms", "trials", "horizon", "dimension", "actions", "items", "buckets")
"""Options that arrays are as long as."""


def _too_much(options: argparse.Namespace) -> str:
    """What was asked for that there is no memory for, in the words of who typed it."""
    typed = ((name, getattr(options, name, None)) for name in LARGE)
    # Sweeps have lists of them.
    each = ((name, value) for name, given in typed for value in (given if isinstance(given, list) else [given]))
    given = ", ".join(f"{name} = {value:,}" for name, value in each if isinstance(value, int))
    return f"{given or 'this'} takes more memory than there is"


def _refused(options: argparse.Namespace, why: str) -> int:
    """Say why in one line; it ends with the papers that it cites."""
    print(". ".join([f"croupier {options.command}: {why}", *map(str, cited(why))]), file=sys.stderr)
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; bad input is one line on stderr and status 2."""
    options = _parsed(arguments)
    if options.command is None:
        parser().print_help()
        return 0
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except TooWide as error:
        return _refused(options, _blamed(error, options))
    except InvalidParameter as error:
        typed = FLAGS.get(error.name, error.name)
        return _refused(options, str(InvalidParameter(typed, error.value, error.allowed)))
    except CroupierError as error:
        return _refused(options, str(error))
    except MemoryError:
        return _refused(options, _too_much(options))
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has enough; nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
