"""Why a device takes no turn: the one exception that an app catches to show its default."""

from __future__ import annotations

from croupier.checks import CroupierError


class NoTurn(CroupierError):
    """There is no turn to take, whatever the reason; its subclasses name it. Show the default."""

    problem = ""
    """The token of a server's refusal, where it is one."""
