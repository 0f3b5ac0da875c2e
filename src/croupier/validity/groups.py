"""Groups of reports: one server verifies a whole group at once, and refuses by name whatever is not valid.

A server prepares its shares of a group, and shows the other its verifier shares. Whoever has both combines them into
one message a report. With the messages each server finishes the group: what is accepted can be added up. What a server
has prepared it may keep as bytes, and resume later, in another process and with other reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from croupier.checks import InvalidParameter, integer
from croupier.validity import steps
from croupier.validity.arrays import Mask, Words, arrays
from croupier.validity.prio3 import NONCE, Prio3, checked, checked_context
from croupier.validity.proofs import decide, reveals
from croupier.validity.verdicts import Refusal, Rows, Verdicts, fitted
from croupier.validity.xof import SEED, Usage, numbers, stream, tag


class Group:
    """The arithmetic and the hashing of a group; see `croupier.validity.steps.Reports`."""

    def __init__(self, prio3: Prio3, contexts: bytes | Sequence[bytes], reports: int) -> None:
        self.ops = arrays(prio3.circuit.field)
        self.reports = reports
        self._algorithm = prio3.circuit.algorithm
        self._contexts = contexts

    def _each(self, of: Sequence[bytes] | bytes) -> Iterable[bytes]:
        return repeat(of, self.reports) if isinstance(of, bytes) else of

    def _tags(self, usage: Usage) -> Iterable[bytes]:
        if isinstance(self._contexts, bytes):
            return repeat(tag(self._algorithm, usage, self._contexts), self.reports)
        return [tag(self._algorithm, usage, context) for context in self._contexts]

    def glue(self, parts: Sequence[list[bytes] | bytes]) -> list[bytes]:
        return [b"".join(each) for each in zip(*map(self._each, parts), strict=True)]

    def pack(self, numbers: Words) -> list[bytes]:
        return self.ops.encode(np.broadcast_to(numbers, (*numbers.shape[:-1], self.reports)))

    def expand(self, usage: Usage, seed: list[bytes] | bytes, binder: list[bytes] | bytes, length: int) -> Words:
        of = list(zip(self._each(seed), self._tags(usage), self._each(binder), strict=True))
        size = length * self.ops.field.size
        found, inside = self.ops.decode([stream(*each).read(size) for each in of], length)
        for report in np.flatnonzero(~inside):  # A word beyond the field is passed over: once in 2^32 words.
            again = numbers(self.ops.field, stream(*of[report]), length)
            found[..., report] = self.ops.columns([again])[..., 0]
        return found

    def derive(self, usage: Usage, seed: list[bytes] | bytes, binder: list[bytes] | bytes) -> list[bytes]:
        of = zip(self._each(seed), self._tags(usage), self._each(binder), strict=True)
        return [stream(*each).read(SEED) for each in of]


def shard_group(
    prio3: Prio3,
    measurements: Sequence[Any],
    nonces: Sequence[bytes],
    contexts: bytes | Sequence[bytes],
    rands: Sequence[bytes],
) -> list[list[bytes]]:
    """The public shares, the leader's and the helper's, of many measurements: the bytes that `Prio3.shard` makes.

    >>> from croupier.validity import prio3_count
    >>> count, nonces, rands = prio3_count(), [bytes([i] * 16) for i in range(3)], [bytes([i] * 64) for i in range(3)]
    >>> public, leader, helper = shard_group(count, [0, 1, 1], nonces, b"context", rands)
    >>> leader[2] == count.shard(1, nonces[2], b"context", rands[2])[1]
    True
    """
    for nonce, rand in zip(nonces, rands, strict=True):
        checked("nonce", nonce, NONCE)
        checked("rand", rand, prio3.rand_size)
    group = Group(prio3, each_context(contexts, len(measurements)), len(measurements))
    encoded = group.ops.columns([prio3.circuit.encode(measurement) for measurement in measurements])
    seeds = [[rand[start : start + SEED] for rand in rands] for start in range(0, prio3.rand_size, SEED)]
    return steps.shard(prio3, group, encoded, list(nonces), seeds)


def each_context(contexts: bytes | Sequence[bytes], reports: int) -> bytes | Sequence[bytes]:
    """One context for all reports, or one for each."""
    given = [contexts] if isinstance(contexts, bytes) else contexts
    for context in given:
        checked_context(context)
    if given is contexts and len(given) != reports:
        raise InvalidParameter("contexts", f"{len(given)} contexts", f"one, or {reports}: one for each report")
    return contexts


class Verifier:
    """One server, with the key that both share and clients must not know; server 0 has the leader's shares.

    Here the helper, which plays the analyzer, combines. The second report lies about its share:

    >>> from croupier.validity import prio3_sum
    >>> grades, key, context = prio3_sum(10), bytes(range(32)), b"experiment 5, arm 2"
    >>> nonces = [bytes([report] * 16) for report in range(3)]
    >>> public, leader, helper = zip(*(grades.shard(grade, nonce, context) for grade, nonce in zip([7, 9, 3], nonces)))
    >>> leader = [leader[0], leader[1][:-1] + bytes([leader[1][-1] ^ 1]), leader[2]]
    >>> ours = Verifier(grades, 0, key).prepare(nonces, public, leader, context)
    >>> theirs = Verifier(grades, 1, key).prepare(nonces, public, helper, context)
    >>> messages = theirs.combine(ours.verifier_shares)
    >>> messages
    [b'', <Refusal.PROOF: 'wrong-proof'>, b'']
    >>> ours, theirs = ours.finish(messages), theirs.finish(messages)
    >>> ours.accepted.tolist(), grades.unshard([ours.aggregate(), theirs.aggregate()])
    ([True, False, True], 10)
    """

    def __init__(self, prio3: Prio3, server: int, key: bytes) -> None:
        self.prio3, self.key = prio3, checked("key", key, SEED)
        self.server = integer("server", server, 0, prio3.shares - 1)

    def __repr__(self) -> str:
        return f"Verifier({self.prio3!r}, server={self.server})"

    def prepare(
        self,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
        contexts: bytes | Sequence[bytes],
    ) -> Prepared:
        """What this server finds about its shares of a group; `contexts` is one for all reports, or one for each.

        A nonce must be verified once only, and by both servers under the same context.
        """
        prio3, reports = self.prio3, len(nonces)
        if not reports == len(public_shares) == len(input_shares):
            given = f"{reports} nonces, {len(public_shares)} public shares, {len(input_shares)} input shares"
            raise InvalidParameter("reports", given, "as many of each")
        group = Group(prio3, each_context(contexts, reports), reports)
        sizes, verdicts = prio3.sizes, Verdicts([None] * reports)
        nonce, public = fitted(nonces, NONCE), fitted(public_shares, sizes.public)
        share = fitted(input_shares, sizes.helper if self.server else sizes.leader)
        verdicts.refuse(Refusal.LENGTH, ~(nonce.fit & public.fit & share.fit))
        if self.server:
            shared, proofs = steps.helper_share(prio3, group, self.server, share.cut(0, SEED))
        else:
            shared, proofs = self._leader_share(group, share, verdicts)
        query = steps.verify(
            prio3,
            group,
            self.server,
            self.key,
            nonce.rows,
            [public.cut(start, start + SEED) for start in range(0, sizes.public, SEED)],
            shared,
            proofs,
            [row[-SEED:] for row in share.rows] if prio3.joint else None,
        )
        for index in range(prio3.proofs):
            points = steps.piece(query.randomness, index, prio3.circuit.query_length)
            verdicts.refuse(Refusal.POINT, reveals(group.ops, prio3.circuit, points))
        return Prepared(prio3, self.server, group, query, verdicts)

    def _leader_share(self, group: Group, share: Rows, verdicts: Verdicts) -> tuple[Words, Words]:
        """The leader's numbers, from its bytes."""
        circuit = self.prio3.circuit
        length = circuit.length + circuit.proof_length * self.prio3.proofs
        found, inside = group.ops.decode(share.cut(0, length * circuit.field.size), length)
        verdicts.refuse(Refusal.FIELD, ~inside)
        return found[: circuit.length], found[circuit.length :]


class Prepared:
    """A group between the servers: `verifier_shares` is for the other one, the rest is not."""

    def __init__(
        self, prio3: Prio3, server: int, group: Group, query: steps.Query[Words, list[bytes]], verdicts: Verdicts
    ) -> None:
        self._prio3, self._server = prio3, server
        self._group, self._query, self._verdicts = group, query, verdicts
        parts = [query.part] if query.part is not None else []
        self.shown = group.glue([group.pack(query.verifier), *parts])
        """For each report its verifier share, which must not be shown of one that is refused."""
        self.refusals = tuple(verdicts.refusals)
        """For each report why this server refuses it, by its own share alone; None where it does not."""
        self.verifier_shares = verdicts.or_bytes(self.shown)
        """For each report its verifier share, or why it is refused."""

    @classmethod
    def resume(cls, prio3: Prio3, server: int, kept: Sequence[bytes], contexts: bytes | Sequence[bytes]) -> Prepared:
        """A group from what a server has `kept` of each of its reports; what is no such thing is refused."""
        reports = len(kept)
        group = Group(prio3, each_context(contexts, reports), reports)
        circuit, rows, verdicts = prio3.circuit, fitted(kept, prio3.kept_size), Verdicts([None] * reports)
        verdicts.refuse(Refusal.LENGTH, ~rows.fit)

        def numbers(start: int, length: int) -> Words:
            found, inside = group.ops.decode(rows.cut(start, start + length * circuit.field.size), length)
            verdicts.refuse(Refusal.FIELD, ~inside)
            return found

        length, shown = circuit.verifier_length * prio3.proofs, prio3.sizes.verifier
        verifier, outputs = numbers(0, length), numbers(shown, circuit.outputs)
        part = rows.cut(length * circuit.field.size, shown) if prio3.joint else None
        seed = rows.cut(shown + prio3.sizes.aggregate, prio3.kept_size) if prio3.joint else None
        query = steps.Query(outputs, group.ops.constant([]), verifier, part, seed)
        return cls(prio3, server, group, query, verdicts)

    @property
    def output_shares(self) -> list[bytes]:
        """For each report this server's share of what is added up, which counts only if the report is accepted."""
        return self._group.pack(self._query.outputs)

    @property
    def kept(self) -> list[bytes]:
        """For each report what this server must keep until it is finished, and tell nobody; empty where it is refused.

        It is the verifier share, the output share, and the seed of the joint randomness where there is any.
        """
        seeds = [self._query.seed] if self._query.seed is not None else []
        whole = self._group.glue([self.shown, self.output_shares, *seeds])
        return [b"" if why else one for why, one in zip(self.refusals, whole, strict=True)]

    def combine(self, *others: Sequence[bytes | Refusal]) -> list[bytes | Refusal]:
        """For each report the message with which both servers finish it, or why it is refused.

        `others` are the verifier shares of the other servers, in their order.
        """
        prio3, server, group, ops = self._prio3, self._server, self._group, self._group.ops
        circuit, reports, verdicts = prio3.circuit, group.reports, Verdicts([None] * group.reports)
        every = [*others[:server], self.verifier_shares, *others[server:]]
        if len(every) != prio3.shares or any(len(shares) != reports for shares in every):
            given = [len(shares) for shares in others]
            raise InvalidParameter("others", given, f"{reports} verifier shares of each of {prio3.shares - 1} servers")
        length = circuit.verifier_length * prio3.proofs
        end = length * circuit.field.size
        total, parts = ops.constant([0]), []
        for shares in every:
            verdicts.follow(shares)
            rows = fitted(shares, prio3.sizes.verifier)
            found, inside = ops.decode(rows.cut(0, end), length)
            verdicts.refuse(Refusal.LENGTH, ~rows.fit)
            verdicts.refuse(Refusal.FIELD, ~inside)
            total = ops.add(found, total)
            parts.append(rows.cut(end, end + SEED))
        for index in range(prio3.proofs):
            valid = decide(ops, circuit, steps.piece(total, index, circuit.verifier_length))
            verdicts.refuse(Refusal.PROOF, ~valid)
        messages = steps.joint_seed(group, parts) if prio3.joint else [b""] * reports
        return verdicts.or_bytes(messages)

    def finish(self, messages: Sequence[bytes | Refusal]) -> Verified:
        """What this server accepts of the group."""
        if len(messages) != self._group.reports:
            raise InvalidParameter("messages", f"{len(messages)} messages", f"{self._group.reports}, one a report")
        verdicts = Verdicts(self._verdicts.refusals)
        verdicts.follow(messages)
        rows = fitted(messages, self._prio3.sizes.message)
        verdicts.refuse(Refusal.LENGTH, ~rows.fit)
        if (seeds := self._query.seed) is not None:
            differ = [ours != theirs for ours, theirs in zip(seeds, rows.rows, strict=True)]
            verdicts.refuse(Refusal.JOINT, np.array(differ, dtype=bool))
        return Verified(self._group, self._query.outputs, verdicts.refusals)


class Verified:
    """A group after the exchange: `refusals` has None or a reason for each report, `accepted` is the same as bits."""

    def __init__(self, group: Group, outputs: Words, refusals: Sequence[Refusal | None]) -> None:
        self._group, self._outputs = group, outputs
        self.refusals = tuple(refusals)
        self.accepted: Mask = np.array([why is None for why in refusals], dtype=bool)

    def aggregate(self, which: Sequence[bool] | Mask | None = None) -> bytes:
        """This server's share of the sum of all accepted reports, or of those of them that are marked in `which`."""
        counted = self.accepted if which is None else self.accepted & np.asarray(which, dtype=bool)
        ops = self._group.ops
        return ops.encode(ops.total(self._outputs[..., counted]))[0]
