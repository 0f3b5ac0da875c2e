"""What an app embeds: take a turn and say what came of it; the client keeps a ledger, and reports when it is due."""

from typing import TYPE_CHECKING, Any

from croupier.client.account import NotKept, Reported, Spent
from croupier.client.async_client import AsyncClient
from croupier.client.client import Client
from croupier.client.device import NotPinned
from croupier.client.limits import BeyondLimits, Limits
from croupier.client.steps import Refused, TimedOut, Unreachable, Unusable
from croupier.client.tokens import TokenRequest, token_request
from croupier.client.turns import Joined, Shown, Turn
from croupier.messages.admission import Admission
from croupier.messages.configuration import BrokenPromise, Configuration, NotCovered, Privacy, Reports
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import BadSignature, Statement

if TYPE_CHECKING:
    from croupier.protocols import Residual

__all__ = [
    "Admission",
    "AsyncClient",
    "BadSignature",
    "Batch",
    "BeyondLimits",
    "BrokenPromise",
    "Client",
    "Configuration",
    "Joined",
    "Limits",
    "NoTurn",
    "NotCovered",
    "NotKept",
    "NotPinned",
    "Offer",
    "Privacy",
    "Refused",
    "Reported",
    "Reports",
    "Residual",
    "Shown",
    "Spent",
    "Statement",
    "TimedOut",
    "TokenRequest",
    "Turn",
    "Unreachable",
    "Unusable",
    "token_request",
]


def __getattr__(name: str) -> Any:
    """What needs NumPy."""
    if name == "Residual":
        from croupier.protocols import Residual

        return Residual
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
