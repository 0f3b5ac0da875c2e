"""What an experiment runs, and the log that it is: one file a kind of program, and one interpreter of its records."""

from croupier.programs.interpreter import WHOLE, Change, State, replay
from croupier.programs.kinds import KINDS, OPERATIONS, program
from croupier.programs.policy_program import PolicyProgram
from croupier.programs.program import Operation, Program, Wanted

__all__ = [
    "KINDS",
    "OPERATIONS",
    "WHOLE",
    "Change",
    "Operation",
    "PolicyProgram",
    "Program",
    "State",
    "Wanted",
    "program",
    "replay",
]
