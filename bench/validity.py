"""Verification of Prio3 in groups, each server on one core, against the same steps report by report; and its growth.

Seconds are those of the processor, so that neighbours on the machine do not count. If VDAF_POC names the folder `poc`
of a checkout of the draft, its reference code is measured in the same run; it needs Python 3.12 and pycryptodomex.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any, NamedTuple

from bench.measure import heading, line, processor
from croupier.validity import (
    Prepared,
    Prio3,
    Verifier,
    prio3_count,
    prio3_histogram,
    prio3_sum,
    prio3_sum_vec,
    shard_group,
)
from croupier.validity.fields import Numbers
from croupier.validity.proofs import decide
from croupier.validity.steps import Single, helper_share, verify
from croupier.validity.xof import SEED, stream

KEY, CONTEXT, GROUP = bytes(range(32)), b"a configuration's hash, 32 bytes, and an arm", 100


class Reports(NamedTuple):
    """A group, as the servers get it."""

    nonces: list[bytes]
    publics: list[bytes]
    leaders: list[bytes]
    helpers: list[bytes]


def reports(prio3: Prio3, measurement: Any, count: int) -> Reports:
    """As many reports of one measurement."""
    draw = random.Random(count)
    nonces = [draw.randbytes(16) for _ in range(count)]
    rands = [draw.randbytes(prio3.rand_size) for _ in range(count)]
    return Reports(nonces, *shard_group(prio3, [measurement] * count, nonces, CONTEXT, rands))


def servers(prio3: Prio3, group: Reports, repeat: int = 7) -> tuple[float, float]:
    """Seconds a report of the leader, who prepares and finishes, and of the helper, who also combines."""
    leader, helper = (Verifier(prio3, server, KEY) for server in (0, 1))
    shown = leader.prepare(group.nonces, group.publics, group.leaders, CONTEXT).verifier_shares

    def at_helper() -> list[Any]:
        prepared = helper.prepare(group.nonces, group.publics, group.helpers, CONTEXT)
        messages = prepared.combine(shown)
        finished = prepared.finish(messages)
        assert finished.accepted.all()
        finished.aggregate()
        return messages

    messages = at_helper()

    def at_leader() -> None:
        prepared = leader.prepare(group.nonces, group.publics, group.leaders, CONTEXT)
        prepared.finish(messages).aggregate()

    return tuple(processor(call, repeat) / len(group.nonces) for call in (at_leader, at_helper))  # type: ignore[return-value]


def in_service(prio3: Prio3, group: Reports, repeat: int = 7) -> tuple[float, float]:
    """Seconds a report of the analyzer, who decides first, and of the front, who keeps what it found until then."""
    leader, helper = (Verifier(prio3, server, KEY) for server in (0, 1))
    front = helper.prepare(group.nonces, group.publics, group.helpers, CONTEXT)
    kept, shown = front.kept, front.verifier_shares

    def at_analyzer() -> list[Any]:
        prepared = leader.prepare(group.nonces, group.publics, group.leaders, CONTEXT)
        assert prepared.finish(prepared.combine(shown)).accepted.all()
        _ = prepared.output_shares
        return prepared.verifier_shares

    answer = at_analyzer()

    def at_front() -> None:
        _ = helper.prepare(group.nonces, group.publics, group.helpers, CONTEXT).kept
        again = Prepared.resume(prio3, 1, kept, CONTEXT)
        again.finish(again.combine(answer)).aggregate()

    return tuple(processor(call, repeat) / len(group.nonces) for call in (at_analyzer, at_front))  # type: ignore[return-value]


def reference(name: str, parameters: list[int], group: Reports, count: int = 10) -> tuple[float, float]:
    """Seconds a report of the leader and of the helper, in the draft's own code."""
    sys.path.insert(0, os.environ["VDAF_POC"])
    from vdaf_poc import vdaf_prio3

    prio3, rows = getattr(vdaf_prio3, name)(2, *parameters), list(zip(*group, strict=True))[:count]

    def prepare(server: int) -> list[Any]:
        return [
            prio3.verify_init(
                KEY,
                CONTEXT,
                server,
                None,
                nonce,
                prio3.decode_public_share(public),
                prio3.decode_input_share(server, share),
            )
            for nonce, public, *shares in rows
            for share in shares[server : server + 1]
        ]

    shown = [verifier for _, verifier in prepare(0)]

    def at_helper() -> None:
        for theirs, (state, ours) in zip(shown, prepare(1), strict=True):
            prio3.verify_next(CONTEXT, state, prio3.verifier_shares_to_message(CONTEXT, None, [theirs, ours]))

    return processor(lambda: prepare(0), 5) / count, processor(at_helper, 5) / count


def one_by_one(prio3: Prio3, group: Reports, count: int) -> float:
    """Seconds a report of the helper, by the same steps in plain Python, for types without joint randomness."""
    ops, circuit = Numbers(prio3.circuit.field), prio3.circuit
    prepared = Verifier(prio3, 0, KEY).prepare(group.nonces, group.publics, group.leaders, CONTEXT)
    shown = [circuit.field.words(bytes(share)) for share in prepared.verifier_shares]  # type: ignore[arg-type]

    def run() -> None:
        for nonce, share, other in list(zip(group.nonces, group.helpers, shown, strict=True))[:count]:
            one = Single(prio3, CONTEXT)
            numbers, proofs = helper_share(prio3, one, 1, share[:SEED])
            query = verify(prio3, one, 1, KEY, nonce, [], numbers, proofs, None)
            assert decide(ops, circuit, ops.add(query.verifier, other))

    return processor(run, 3) / count


def rates(prio3: Prio3, group: Reports) -> tuple[str, str]:
    """Reports a second of each server."""
    leader, helper = servers(prio3, group)
    return f"leader {1 / leader:,.0f}/s", f"helper {1 / helper:,.0f}/s"


def main() -> None:
    """Print the lines."""
    heading(f"Prio3 verified in groups of {GROUP}, a server on one core (aim: 5,000 reports/s)")
    for name, prio3, measurement, theirs in (
        ("Count", prio3_count(), 1, ("Prio3Count", [])),
        ("Sum to 127", prio3_sum(127), 100, ("Prio3Sum", [127])),
        ("Sum of 16 bits", prio3_sum(2**16 - 1), 54_321, ("Prio3Sum", [2**16 - 1])),
    ):
        group = reports(prio3, measurement, GROUP)
        leader, helper = servers(prio3, group)
        hashing = 3 * processor(lambda n=group.nonces: [stream(KEY, CONTEXT, one).read(64) for one in n], 7) / GROUP  # type: ignore[misc]
        line(
            name,
            f"leader {1 / leader:,.0f}/s",
            f"helper {1 / helper:,.0f}/s",
            f"{one_by_one(prio3, group, 20) / helper:.0f} × one by one",
            f"helper's hashing {hashing / helper:.0%}",
        )
        if "VDAF_POC" in os.environ:
            slow = reference(*theirs, group)
            line("  against the draft's reference", f"{slow[0] / leader:.0f} ×", f"{slow[1] / helper:.0f} ×")
    heading(f"The same as in the service, in groups of {GROUP}: the front keeps what it found, and both servers decide")
    for name, prio3, measurement in (
        ("Count", prio3_count(), 1),
        ("Sum to 127", prio3_sum(127), 100),
        ("Sum of 16 bits", prio3_sum(2**16 - 1), 54_321),
        ("Histogram of 5", prio3_histogram(5), 3),
    ):
        analyzer, front = in_service(prio3, reports(prio3, measurement, GROUP))
        line(name, f"analyzer {1 / analyzer:,.0f}/s", f"front {1 / front:,.0f}/s")
    heading("Growth of verification")
    for bits in (1, 2, 4, 8, 16, 32):
        prio3 = prio3_sum(2**bits - 1)
        line(f"Sum of {bits} bits", *rates(prio3, reports(prio3, 1, GROUP)), f"{prio3.sizes.leader:,} bytes")
    for length in (1, 5, 20, 65, 250):
        prio3 = prio3_sum_vec(length, 255)
        group = reports(prio3, [200] * length, GROUP)
        line(f"SumVec of {length} × 8 bits", *rates(prio3, group), f"{prio3.sizes.leader:,} bytes")
    for length in (5, 20, 100):
        prio3 = prio3_histogram(length)
        line(f"Histogram of {length}", *rates(prio3, reports(prio3, 1, GROUP)), f"{prio3.sizes.leader:,} bytes")
    prio3 = prio3_sum(127)
    for count in (1, 10, 100, 1000, 10_000):
        line(f"Sum to 127, groups of {count:,}", *rates(prio3, reports(prio3, 1, count)))
    heading("One report made on a device, in plain Python")
    for name, prio3, measurement in (
        ("Count", prio3_count(), 1),
        ("Sum to 127", prio3_sum(127), 100),
        ("Histogram of 5", prio3_histogram(5), 3),
        ("SumVec of 20 × 8 bits", prio3_sum_vec(20, 255), [200] * 20),
    ):
        took = processor(lambda p=prio3, m=measurement: p.shard(m, bytes(16), CONTEXT), 5)  # type: ignore[misc]
        line(name, f"{took * 1e3:.2f} ms", f"{sum(prio3.sizes[:3]):,} bytes")
