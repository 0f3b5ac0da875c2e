"""How far liars among the users of a batch move its mean, for every trust: computed from the mechanism, and measured.

All honest users hold the lowest value, and liars want the mean as high as can be. What they gain is told as a part of
the range of values: 1 is the mean of a batch in which everybody holds the highest value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from croupier.noise import Source, seeded
from croupier.protocols import Mechanism, protocol
from croupier.protocols.padding import REAL
from croupier.protocols.sums.carriers import ShuffledBits
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.validity import Verifier, shard_group

USERS, BATCHES = 100, 10
SHUFFLED = {"honest_fraction": 0.9, "front_noise": True}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    trust: str
    name: str
    worth: float
    """What one liar is worth, in values; infinite where only the range of a whole batch limits it."""
    attacked: Callable[[int, int], float]
    """The mean of a batch with so many liars, and the number of the batch: the others draw what they draw in it."""

    def computed(self, liars: int) -> float:
        """Beyond the whole range a batch is refused, or a mean is seen to be none."""
        return min(1.0, self.worth * liars / USERS)

    def measured(self, liars: int) -> float:
        """How much higher a mean is than without liars, on average over batches."""
        gained = [self.attacked(liars, batch) - self._alone[batch] for batch in range(BATCHES)]
        return float(np.mean(gained))

    @cached_property
    def _alone(self) -> list[float]:
        """The means of batches without liars."""
        return [self.attacked(0, batch) for batch in range(BATCHES)]


def drawn(batch: int, party: int) -> Source:
    """The chance of a user or a server, in a batch."""
    return seeded(1000 * batch + party)


def rows() -> list[Row]:
    """Every trust that a service can be run with, and its protocols."""
    proved = {f"`laplace`, {what}": options for what, options in (("binary", {"binary": True}), ("numbers", {}))}
    found = [Row("`two-servers`, `prio3`", name, 1.0, _proved(**options)) for name, options in proved.items()]
    found += [
        Row("`two-servers`, `none`", "`laplace`", np.inf, _in_shares("two-servers")),
        Row("`devices`", "`laplace`", np.inf, _in_shares("devices", honest_fraction=0.9)),
    ]
    for name in ("shuffled-bits", "shuffled-levels", "counted-messages"):
        plan = protocol(name, epsilon=1.0, **SHUFFLED).plan(USERS)
        found.append(Row("`shuffler`", f"`{name}`", _worth(plan), _in_messages(plan, _all_ones(plan))))
    for trust, name, options in (("shuffler", "shuffled-laplace", SHUFFLED), ("nobody", "local-laplace", {})):
        plan = protocol(name, epsilon=1.0, **options).plan(USERS)
        found.append(Row(f"`{trust}`", f"`{name}`", np.inf, _in_messages(plan, _all_of_a_batch(plan))))
    return found


def _worth(plan: SumMechanism) -> float:
    """A report whose every slot is a one, against one of the lowest value with its noise on average."""
    carrier, ones = plan.carrier, plan.shape.slots
    due = plan.share.bits.zero * -carrier.value_messages if isinstance(carrier, ShuffledBits) else 0
    return float((ones + due - plan.share.mean) / (plan.weight * plan.precision))


def _mean(plan: SumMechanism, decoded: int) -> float:
    return float(plan.unit_sums(decoded)) / plan.users


def _in_shares(trust: str, **options: object) -> Callable[[int, int], float]:
    """Numbers in shares without a proof: together liars add what is missing to the whole range."""
    plan = protocol("laplace", epsilon=1.0, trust=trust, **options).plan(USERS)
    ring = plan.ring
    assert ring is not None

    @cache
    def honest(batch: int) -> list[int]:
        return [plan.secret(0.0, drawn(batch, user))[0] for user in range(USERS)]

    def attacked(liars: int, batch: int) -> float:
        secrets = honest(batch)[: USERS - liars]
        secrets += [USERS * plan.precision // max(1, liars)] * liars
        noise = [plan.server_noise(drawn(batch, USERS + server))[0] for server in range(2)]
        told = plan.told([sum(secrets + noise) % ring.modulus])
        assert plan.possible[0] <= told <= plan.possible[1], "the batch would be refused"
        return _mean(plan, int(told))

    return attacked


def _proved(**options: object) -> Callable[[int, int], float]:
    """The same with proofs: liars report the highest value, and twice as many try more, and are refused."""
    plan = protocol("laplace", epsilon=1.0, trust="two-servers", **options).plan(USERS)
    prio3, ring, key = plan.prio3, plan.ring, bytes(range(32))
    assert prio3 is not None
    assert ring is not None
    field = prio3.circuit.field

    def attacked(liars: int, batch: int) -> float:
        draw = random.Random(batch)
        values = [0] * (USERS - liars) + [plan.precision] * liars + [plan.precision] * (2 * liars)
        nonces, rands = ([draw.randbytes(size) for _ in values] for size in (16, prio3.rand_size))
        _, leaders, helpers = shard_group(prio3, values, nonces, nonces, rands)
        for place in range(USERS, len(values)):
            # A number of the share is moved, and its proof stays that of what it was.
            word = int.from_bytes(leaders[place][: field.size], "little") + USERS
            leaders[place] = (word % field.modulus).to_bytes(field.size, "little") + leaders[place][field.size :]
        one, two = (
            Verifier(prio3, server, key).prepare(nonces, [b""] * len(values), shares, nonces)
            for server, shares in enumerate((leaders, helpers))
        )
        messages = one.combine(two.verifier_shares)
        finished = [one.finish(messages), two.finish(messages)]
        assert finished[0].accepted.tolist() == [True] * USERS + [False] * (2 * liars)
        noise = [plan.server_noise(drawn(batch, USERS + server))[0] for server in range(2)]
        told = plan.told([(prio3.unshard([one.aggregate() for one in finished]) + sum(noise)) % ring.modulus])
        return _mean(plan, int(told))

    return attacked


def _in_messages(plan: Mechanism, lie: Callable[[int], list[bytes]]) -> Callable[[int, int], float]:
    """Slots that a front shuffles: liars send what `lie` says for so many of them."""

    @cache
    def honest(batch: int) -> list[list[bytes]]:
        return [list(plan.slots(0.0, drawn(batch, user))) for user in range(USERS)]

    def attacked(liars: int, batch: int) -> float:
        slots = [slot for user in honest(batch)[: USERS - liars] for slot in user]
        slots += lie(liars) if liars else []
        read = plan.read([*slots, *plan.front_slots(drawn(batch, USERS))])
        assert plan.possible[0] <= read.decoded <= plan.possible[1], "the batch would be refused"
        return _mean(plan, int(read.decoded))

    return attacked


def _all_ones(plan: SumMechanism) -> Callable[[int], list[bytes]]:
    return lambda liars: [REAL + b"\1"] * (plan.shape.slots * liars)


def _all_of_a_batch(plan: SumMechanism) -> Callable[[int], list[bytes]]:
    """Together liars add what is missing to the whole range, in their first slots."""

    def lie(liars: int) -> list[bytes]:
        number = (plan.users * plan.precision // liars).to_bytes(8, "big")
        return [REAL + number, *[REAL + bytes(8)] * (plan.shape.slots - 1)] * liars

    return lie
