"""What an app embeds: randomize on the device, seal, report, and keep a ledger of one's own."""

from croupier.client.account import Spent
from croupier.client.client import AsyncClient, Client
from croupier.client.device import Joined, Refused, Turn, Unreachable
from croupier.client.limits import BeyondLimits, Limits
from croupier.client.tokens import TokenRequest, token_request
from croupier.messages.admission import Admission
from croupier.messages.configuration import BrokenPromise, Configuration, NotCovered, Privacy
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import BadSignature, Statement
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
    "NotCovered",
    "Offer",
    "Privacy",
    "Refused",
    "Residual",
    "Spent",
    "Statement",
    "TokenRequest",
    "Turn",
    "Unreachable",
    "token_request",
]
