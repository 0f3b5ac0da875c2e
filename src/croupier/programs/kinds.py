"""The table of all kinds of programs: a new kind is a file and a row."""

from __future__ import annotations

from typing import Any

from croupier.checks import CroupierError
from croupier.programs.bandit import BanditProgram
from croupier.programs.comparison import ComparisonProgram
from croupier.programs.counter import CounterProgram
from croupier.programs.histogram import HistogramProgram
from croupier.programs.linear import LinearProgram
from croupier.programs.program import Program
from croupier.registry import Registry, subclasses

_OWN: dict[str, type[Program]] = {
    kind.kind: kind for kind in (BanditProgram, ComparisonProgram, CounterProgram, HistogramProgram, LinearProgram)
}

KINDS: Registry[type[Program]] = Registry("kind", "croupier.programs", _OWN, subclasses(Program, "a kind of Program"))
"""Every kind of program by its name."""

OPERATIONS = tuple(dict.fromkeys(name for kind in _OWN.values() for name in kind.operations))
"""What an operator can ask of some kind of the package's own. Installed ones may know more; none is loaded to tell."""


def program(parameters: dict[str, Any]) -> Program:
    """The program that a configuration describes.

    >>> bandit = program({"kind": "bandit", "name": "dp-klucb", "arms": 2, "horizon": 1000, "epsilon": 1.0,
    ...                   "binary": True, "protocol_name": "shuffled-laplace"})
    >>> [(turn.number, turn.arm, turn.batches[0][1].users) for turn in bandit.wanted]
    [(0, 0, 32)]
    """
    body = dict(parameters)
    kind = str(body.pop("kind", None))
    try:
        return KINDS.find(kind)(body)
    except (TypeError, KeyError) as error:
        raise CroupierError(f"the {kind} program does not take these parameters: {error}") from None
