"""What an app embeds: randomize on the device, seal, report, and keep a ledger of one's own."""

from croupier.client.account import Spent
from croupier.client.client import AsyncClient, Client
from croupier.client.configuration import Admission, BrokenPromise, Configuration, NotCovered, Privacy
from croupier.client.limits import BeyondLimits, Limits
from croupier.client.offer import Batch, Offer
from croupier.client.residual import Residual, residual
from croupier.client.signing import BadSignature, Statement
from croupier.client.steps import Joined, Refused, Turn, Unreachable

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
    "Turn",
    "Unreachable",
    "residual",
]
