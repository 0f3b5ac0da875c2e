"""What a user's device accepts at most, whatever a server asks: the client's own limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from croupier.checks import InvalidParameter, between, integer, positive
from croupier.messages.admission import ADMISSIONS
from croupier.messages.configuration import TRUSTS, Configuration
from croupier.messages.no_turn import NoTurn
from croupier.messages.offer import Offer
from croupier.messages.sealing import SUITES

HIDE_EACH_OTHER = ("devices", "shuffler")
"""The trusts under which the users of a batch hide each other."""


class BeyondLimits(NoTurn):
    """An experiment that asks for more than this device gives."""


@dataclass(frozen=True)
class Limits:
    """How much a device gives: what asks for more is refused before anything is sent.

    Parameters
    ----------
    epsilon, delta : the largest ε and δ of one turn.
    users : the smallest batch under `devices` and `shuffler`, where its users hide each other; elsewhere it is not
        looked at.
    honest_fraction : the largest part of honest users that a promise may rest on.
    epsilon_per_period, delta_per_period : the ledger's budget: what all turns within any period may cost. The period is
        the longest of any experiment joined.
    shortest_period : no period is shorter, in seconds.
    longest_period : an experiment with a longer one is refused.
    suites : the accepted ways to seal a report.
    admission : the accepted ways to admit users.
    trust : whom the device may have to trust.
    front_noise : whether batches whose users alone hide each other are refused: those without noise of a server's own.
    shared_keys : whether both servers may have one key.
    plain_http : whether plain http beyond this machine is allowed, by which anybody on the way could read a ticket.

    Examples
    --------
    >>> Limits(epsilon=1.0).epsilon_per_period
    4.0
    """

    epsilon: float = 2.0
    delta: float = 1e-5
    users: int = 32
    honest_fraction: float = 0.9
    epsilon_per_period: float = 4.0
    delta_per_period: float = 1e-4
    shortest_period: int = 86_400
    longest_period: int = 366 * 86_400
    suites: tuple[str, ...] = tuple(SUITES)
    trust: tuple[str, ...] = TRUSTS
    admission: tuple[str, ...] = ADMISSIONS
    front_noise: bool = True
    shared_keys: bool = False
    plain_http: bool = False

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        integer("users", self.users, 1)
        between("honest_fraction", self.honest_fraction, 0, 1, "(]")
        positive("epsilon_per_period", self.epsilon_per_period)
        between("delta_per_period", self.delta_per_period, 0, 1, "[)")
        integer("shortest_period", self.shortest_period, 1)
        integer("longest_period", self.longest_period, self.shortest_period)
        for name, known in (("suites", tuple(SUITES)), ("trust", TRUSTS), ("admission", ADMISSIONS)):
            accepted = getattr(self, name)
            if not isinstance(accepted, tuple) or not accepted or not set(accepted) <= set(known):
                raise InvalidParameter(name, accepted, f"a tuple of some of {', '.join(known)}")
        for name in ("front_noise", "shared_keys", "plain_http"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameter(name, getattr(self, name), "True or False")

    def check(self, configuration: Configuration) -> None:
        """Refuse an experiment that promises less than this device wants."""
        for refusal in self._refusals(configuration):
            raise BeyondLimits(refusal)

    def check_address(self, url: str) -> None:
        """Refuse an address that others on the way could read along."""
        if not self.plain_http and not url.startswith("https://") and not on_this_machine(url):
            raise BeyondLimits(f"{url} is plain http beyond this machine, and this device accepts https only")

    def check_offer(self, offer: Offer) -> None:
        """Refuse a turn in a batch that is too small to hide among."""
        for batch in offer.batches:
            if batch.asked.trust in HIDE_EACH_OTHER and batch.asked.users < self.users:
                raise BeyondLimits(f"a batch of {batch.asked.users} users is smaller than this device's {self.users}")

    def _refusals(self, configuration: Configuration) -> Iterator[str]:
        yield from self._refused_promises(configuration)
        if configuration.suite not in self.suites:
            yield f"reports are sealed by {configuration.suite}, and this device accepts {' or '.join(self.suites)}"
        if not self.shared_keys:
            for kind in ("verify", "seal"):
                if len({getattr(keys, kind) for keys in configuration.keys.values()}) < len(configuration.keys):
                    yield f"both servers have one key ({kind}), and this device wants two parties that share none"
        for url in configuration.urls.values():
            self.check_address(url)

    def _refused_promises(self, configuration: Configuration) -> Iterator[str]:
        privacy, recipe, admission = configuration.privacy, configuration.recipe, configuration.admission.kind
        if privacy.epsilon > self.epsilon:
            yield f"the experiment's ε = {privacy.epsilon:g} is above this device's {self.epsilon:g}"
        if privacy.delta > self.delta:
            yield f"the experiment's δ = {privacy.delta:g} is above this device's {self.delta:g}"
        if privacy.period > self.longest_period:
            yield f"the experiment's period of {privacy.period} s is longer than this device's {self.longest_period}"
        among = configuration.trust in HIDE_EACH_OTHER
        if configuration.trust not in self.trust:
            yield f"the experiment trusts {configuration.trust}, and this device accepts {' or '.join(self.trust)}"
        if among and recipe["smallest"] < self.users:
            yield f"batches of {recipe['smallest']} users are smaller than this device's {self.users}"
        # The fewer users must be honest for the promise to hold, the better for the one who is.
        if privacy.honest_fraction > self.honest_fraction:
            yield (
                f"the promise rests on a share of {privacy.honest_fraction:g} honest users, "
                f"and this device relies on {self.honest_fraction:g} at most"
            )
        if admission not in self.admission:
            yield f"the experiment admits {admission}, and this device accepts {' or '.join(self.admission)}"
        if among and self.front_noise and recipe.get("front_noise") is not True:
            yield "no server adds noise of its own, so that strangers without noise could tell this device's value"


def on_this_machine(url: str) -> bool:
    """Whether what goes to this address stays here: 127.0.0.0/8, ::1 or localhost."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
