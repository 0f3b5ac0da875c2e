"""What a stranger adds from outside: a carrier is one class and a row, and a central mechanism is just another row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from croupier.checks import CroupierError, InvalidParameter, integer
from croupier.messages.offer import Batch
from croupier.noise import DiscreteLaplace, PolyaDifference, Skellam, Source, seeded
from croupier.privacy import Guarantee, privacy_loss
from croupier.protocols import ROWS, Mechanism, Protocol, Release, Row, SumMechanism, TamperedMessage, audit, protocol
from croupier.protocols.padding import Shape, uncapped
from croupier.protocols.sums.carriers import CARRIERS, Carrier, SecureAggregation
from croupier.protocols.sums.carriers.base import Integers
from croupier.protocols.sums.protocol import NUMBERS


@dataclass(frozen=True)
class Abacus(Carrier):
    """An honest counter in a box: it adds up signed numbers of `width` bytes and shows the sum alone."""

    kind: ClassVar[str] = "abacus"
    trust: ClassVar[str] = "shuffler"
    width: int

    def check_plan(self, plan: SumMechanism) -> None:
        integer("width", self.width, 1, 8)

    def report(self, plan: SumMechanism, encoded: Integers, source: Source) -> Integers:
        return np.asarray(encoded + plan.share.sample(encoded.shape, source))

    def check_report(self, plan: SumMechanism, report: Integers) -> None:
        if (np.abs(report) >= 2 ** (8 * self.width - 1)).any():
            raise TamperedMessage("more beads than there are")

    def collect(self, plan: SumMechanism, reports: Integers) -> Integers:
        return np.asarray(reports.sum(axis=-1))

    def decode(self, plan: SumMechanism, view: Integers) -> Integers:
        return view

    def messages_per_user(self, plan: SumMechanism) -> float:
        return 1.0

    def bits_per_message(self, plan: SumMechanism) -> int:
        return 8 * self.width

    def message_bytes(self, plan: SumMechanism) -> int:
        return self.width

    def pack(self, plan: SumMechanism, report: Integers) -> tuple[bytes, ...]:
        return tuple(int(one).to_bytes(self.width, "big", signed=True) for one in report.ravel())

    def unpack(self, plan: SumMechanism, messages: Sequence[bytes]) -> Integers:
        return np.asarray(sum(int.from_bytes(one, "big", signed=True) for one in messages))

    def shape(self, plan: SumMechanism) -> Shape:
        return uncapped(1, self.width, 0)

    def repaired(self, plan: SumMechanism, slots: Sequence[bytes | None]) -> tuple[Integers, int]:
        messages, damaged = plan.shape.sorted_out(slots, lambda message: True)
        return self.unpack(plan, messages), damaged


def plan_abacus(recipe: Protocol, users: int) -> SumMechanism:
    share = DiscreteLaplace(1 / recipe.epsilon).share(recipe.honest(users))
    claim = Guarantee("pure", recipe.epsilon)
    return recipe.mechanism(users, precision=1, share=share, carrier=Abacus(4), notion=claim)


ABACUS = Row("abacus-laplace", "shuffler", "pure", "abacus", "nobody's", plan_abacus, NUMBERS, binary_only=True)


def plan_trusted(recipe: Protocol, users: int) -> SumMechanism:
    """Skellam noise that a trusted analyzer adds."""
    noise = Skellam((2.0 * math.log(2.0 / recipe.delta)) / recipe.epsilon**2)
    return recipe.mechanism(
        users,
        precision=1,
        share=noise,
        carrier=SecureAggregation(users + 1, 0),
        notion=Guarantee("approximate", privacy_loss(noise, 1).epsilon(recipe.delta), recipe.delta),
        noise_from="analyzer",
    )


TRUSTED = Row("trusted-skellam", "analyzer", "approximate", "none", "nobody's", plan_trusted, NUMBERS, binary_only=True)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(CARRIERS, Abacus.kind, Abacus)
    for row in (ABACUS, TRUSTED):
        monkeypatch.setitem(ROWS._added, row.name, row)
    return


def test_a_carrier_from_outside_goes_the_whole_way() -> None:
    mechanism = protocol("abacus-laplace", epsilon=1.0).plan(users=50)
    assert mechanism.certificate().holds
    assert mechanism.trust == "shuffler"
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    release = mechanism.run([1.0] * 30 + [0.0] * 20, seeded(1))
    assert abs(release.sum - 30) <= release.radius(1e-6)
    assert Release.from_json(release.to_json()) == release
    assert audit(mechanism, 2_000, seeded(2)).passed


def test_its_messages_are_carried_by_a_front_and_read_by_an_analyzer() -> None:
    mechanism = Batch.of(0, bytes(32), protocol("abacus-laplace", epsilon=1.0).plan(users=50)).mechanism
    slots = [slot for user in range(50) for slot in mechanism.slots(user % 2, seeded(user))]
    assert {len(slot) for slot in slots} == {mechanism.shape.length} == {5}
    whole = mechanism.read(slots)
    low, high = mechanism.possible
    assert low <= whole.decoded <= high
    assert whole.damaged == 0
    assert mechanism.read([None, *slots[1:]]).damaged == 1
    assert math.isfinite(mechanism.residual.epsilon)
    assert mechanism.sent_loss.epsilon(0.0) <= 1.0 + 1e-9


def test_it_says_itself_what_it_does_not_do() -> None:
    mechanism = protocol("abacus-laplace", epsilon=1.0).plan(users=50)
    with pytest.raises(InvalidParameter, match="front_shares = 50"):
        replace(mechanism, front_shares=50)
    with pytest.raises(InvalidParameter, match="front_noise = True .* left out: abacus-laplace takes"):
        protocol("abacus-laplace", epsilon=1.0, front_noise=True)


def test_a_central_mechanism_from_outside_runs_and_is_never_sent() -> None:
    mechanism = protocol("trusted-skellam", epsilon=0.5).plan(users=200)
    assert mechanism.certificate().holds
    assert (mechanism.trust, mechanism.residual.epsilon) == ("analyzer", math.inf)
    release = Mechanism.from_json(mechanism.to_json()).run([1.0] * 120 + [0.0] * 80, seeded(3))
    assert abs(release.sum - 120) <= release.radius(1e-6)
    with pytest.raises(CroupierError, match="noise from the analyzer, which would see the sum without it"):
        mechanism.slots(1.0, seeded(4))


def test_a_row_that_names_another_trust_than_its_mechanism_has_is_refused() -> None:
    liar = Row("liar", "nobody", "approximate", "none", "nobody's", plan_trusted, NUMBERS, binary_only=True)
    with pytest.raises(CroupierError, match="nobody is trusted, and it is analyzer"):
        Protocol(liar, 0.5, 1e-6).plan(users=200)


def test_bits_are_not_taken_for_noise_that_is_none() -> None:
    mechanism = protocol("shuffled-bits", epsilon=1.0).plan(users=50)
    with pytest.raises(InvalidParameter, match="sent as bits"):
        replace(mechanism, share=PolyaDifference(1, 2))
