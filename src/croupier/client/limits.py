"""What a user's device accepts at most, whatever a server asks: the client's own limits."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.checks import CroupierError, between, integer, positive
from croupier.client.configuration import Configuration, Offer


class BeyondLimits(CroupierError):
    """An experiment that asks for more than this device gives."""


@dataclass(frozen=True)
class Limits:
    """The largest ε and δ of one turn, the smallest batch, and the largest share of honest users to rely on.

    `epsilon_per_period` and `delta_per_period` are the budget of the ledger: what all turns of a period may cost. The
    ledger never renews sooner than after `shortest_period` seconds, whatever an experiment says, and an experiment that
    would keep it from renewing for longer than `longest_period` is refused.

    >>> Limits(epsilon=1.0).users
    32
    """

    epsilon: float = 2.0
    delta: float = 1e-5
    users: int = 32
    honest_fraction: float = 1.0
    epsilon_per_period: float = 4.0
    delta_per_period: float = 1e-4
    shortest_period: int = 86_400
    longest_period: int = 366 * 86_400

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, "[)")
        integer("users", self.users, 1)
        between("honest_fraction", self.honest_fraction, 0, 1, "(]")
        positive("epsilon_per_period", self.epsilon_per_period)
        between("delta_per_period", self.delta_per_period, 0, 1, "[)")
        integer("shortest_period", self.shortest_period, 1)
        integer("longest_period", self.longest_period, self.shortest_period)

    def check(self, configuration: Configuration) -> None:
        """Refuse an experiment that promises less than this device wants."""
        privacy = configuration.privacy
        if privacy.epsilon > self.epsilon:
            raise BeyondLimits(f"the experiment's ε = {privacy.epsilon:g} is above this device's {self.epsilon:g}")
        if privacy.delta > self.delta:
            raise BeyondLimits(f"the experiment's δ = {privacy.delta:g} is above this device's {self.delta:g}")
        if privacy.period > self.longest_period:
            raise BeyondLimits(
                f"the experiment's period of {privacy.period} s is longer than this device's {self.longest_period}"
            )
        if configuration.recipe["smallest"] < self.users:
            raise BeyondLimits(
                f"batches of {configuration.recipe['smallest']} users are smaller than this device's {self.users}"
            )
        # The fewer users must be honest for the promise to hold, the better for the one who is.
        if privacy.honest_fraction > self.honest_fraction:
            raise BeyondLimits(
                f"the promise rests on a share of {privacy.honest_fraction:g} honest users, "
                f"and this device relies on {self.honest_fraction:g} at most"
            )

    def check_offer(self, offer: Offer) -> None:
        """Refuse a turn in a batch that is too small."""
        for batch in offer.batches:
            if batch.mechanism.users < self.users:
                raise BeyondLimits(
                    f"a batch of {batch.mechanism.users} users is smaller than this device's {self.users}"
                )
