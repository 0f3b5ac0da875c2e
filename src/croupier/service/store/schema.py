"""The front's tables, and the values that go in and out of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    false,
)

from croupier.service.store.answers import Answers
from croupier.service.store.columns import filled, of_experiment

META = MetaData()

CONFIGURATIONS = Table(
    "configurations",
    META,
    Column("hash", LargeBinary, primary_key=True),
    Column("experiment", String(63), nullable=False, index=True),
    *filled(revision=Integer, envelope=Text),
    # Of proofs, where there are any, hidden in the vault.
    Column("proof_key", LargeBinary),
)
EXPERIMENTS = Table(
    "experiments",
    META,
    Column("name", String(63), primary_key=True),
    *filled(hash=LargeBinary, revision=Integer, finished=Boolean),
    # Of any offer so far, in bytes.
    Column("longest_upload", Integer, nullable=False, server_default="0"),
    # The configurations whose reports nobody can open any more, by hash, as a JSON list; null for none.
    Column("void", Text),
)
OFFERS = Table(
    "offers",
    META,
    *of_experiment(number=BigInteger),
    *filled(envelope=Text, batches=Text, open=Boolean, odds=Float),
    # Whose turns and reports count together: an arm's, or this offer's own.
    Column("stream", String(32), nullable=False),
    # The offers that must be known before this one is dealt.
    *filled(together=Text, assigned=BigInteger, accepted=BigInteger),
    # The block that its batch closes with, where there is one.
    Column("block", BigInteger),
    # What devices choose by, where they do: the hash that the offer names, and the text.
    Column("rule_hash", LargeBinary),
    Column("rule", Text),
    Index("offers_open", "experiment", "open"),
)
BATCHES = Table(
    "batches",
    META,
    *of_experiment(number=BigInteger),
    *filled(
        hash=LargeBinary,
        configuration=LargeBinary,
        mechanism=Text,
        users=BigInteger,
        slots=Integer,
        length=Integer,
        received=BigInteger,
    ),
    Column("state", String(16), nullable=False, index=True),
    # "two-servers" or "devices" where reports are in shares, else empty.
    Column("shares", String(16), nullable=False),
    # Of the offer that opened it.
    Column("stream", String(32), nullable=False),
    # With so many a batch in shares may close at its deadline.
    Column("least", BigInteger, nullable=False),
    Column("expires", Float),
    Column("claimed", Float, nullable=False, server_default="0"),
    # In shares: whether its answer was given to the analyzer, and how many reports for it did not count, by reason.
    Column("given", Boolean, nullable=False, server_default=false()),
    Column("refused", Text, nullable=False, server_default="{}"),
    Column("receipt", Text),
    # In a block: its number, the turns of this stream that were over when it closed, and whether no report can come any
    # more. Where batches must be full, how many stayed silent in blocks whose turns are all over.
    Column("block", BigInteger),
    Column("turns", BigInteger),
    Column("over", Boolean),
    Column("silent", Text),
)
BLOCKS = Table(
    # Batches that close at the same instant. One is "coming" until all its offers are here, then "open"; "cut" when no
    # report that is accepted from now on is in it; then "closed", or "over" without having given anything out.
    "blocks",
    META,
    *of_experiment(number=BigInteger),
    *filled(epoch=BigInteger, batches=Text, users=BigInteger),
    Column("left", BigInteger),
    *filled(shares=String(16), state=String(16)),
    # In shares between two servers: the reports of this lot, and of those before, are in it.
    Column("lot", BigInteger, nullable=False),
    Column("expires", Float),
    Index("blocks_state", "state"),
    Index("blocks_epoch", "experiment", "epoch", "number"),
)
EPOCHS = Table(
    # Turns that are dealt by the same odds: what is left of the deal, by arm, and when the last turn is too old to be
    # reported, once a newer epoch is dealt.
    "epochs",
    META,
    *of_experiment(epoch=BigInteger),
    Column("deal", Text, nullable=False),
    Column("until", Float),
)
ISSUED = Table(
    # Turns by when they are due: how many were given out, and how many of them brought no report yet.
    "issued",
    META,
    *of_experiment(offer=BigInteger, due=BigInteger),
    Column("open", BigInteger, nullable=False),
    Column("dealt", BigInteger),
)
SPENT = Table(
    "spent",
    META,
    Column("token", LargeBinary, primary_key=True),
    Column("report", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)
POOLS = Table(
    "pools",
    META,
    *of_experiment(batch=BigInteger, key=LargeBinary),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
PARTS = Table(
    "parts",
    META,
    *of_experiment(batch=BigInteger, part=Integer),
    Column("payload", LargeBinary, nullable=False),
)

STREAMS = Table(
    # What reports in shares wait for: their lot is named by how many batches of the stream have closed.
    "streams",
    META,
    *of_experiment(stream=String(32)),
    Column("lot", BigInteger, nullable=False),
    # No batch will take its reports any more: those that still come are refused.
    Column("over", Boolean),
)
PENDING = Table(
    # Reports in shares that were accepted and are not settled, under the key of their lot, in no order.
    "pending",
    META,
    *of_experiment(stream=String(32), key=LargeBinary),
    *filled(lot=BigInteger, configuration=LargeBinary),
    # The group that it is settled with, or -1.
    *filled(settling=BigInteger, payload=LargeBinary),
    sqlite_with_rowid=False,
)
GROUPS = Table(
    # The newest group of each experiment: the analyzer settles one at a time.
    "groups",
    META,
    *of_experiment(),
    *filled(number=BigInteger, open=Boolean, stream=String(32), batches=Text),
)
SUMS = Table(
    # What this server holds of an open batch: the sum of its shares, under the batch's key.
    "sums",
    META,
    *of_experiment(batch=BigInteger),
    *filled(settled=LargeBinary, payload=LargeBinary),
)

HOLDERS = Table(
    "holders",
    META,
    Column("mark", LargeBinary, primary_key=True),
    *filled(offer=BigInteger, due=BigInteger),
    sqlite_with_rowid=False,
)
TOTALS = Table(
    # Of offers that have ended: there may be many of them, and everybody asks for the sums.
    "totals",
    META,
    *of_experiment(),
    *filled(assigned=BigInteger, accepted=BigInteger),
    # Reports in shares that did not count, by reason.
    Column("refused", Text, nullable=False, server_default="{}"),
)
HEADS = Table(
    "heads",
    META,
    *of_experiment(),
    *filled(number=BigInteger, hash=LargeBinary, envelope=Text),
    Column("pulled", BigInteger, nullable=False, server_default="-1"),
    Column("pulled_at", BigInteger, nullable=False, server_default="-1"),
)
PAUSED = Table(
    # Experiments in which nobody is dealt a turn for now.
    "paused",
    META,
    *of_experiment(),
)
SEALS = Table("seals", META, Column("mark", LargeBinary, primary_key=True))
ANSWERS = Answers(META)


def pool_place(key: bytes) -> bytes:
    """Where a pool lies, for the vault."""
    return b"pool" + key


def proof_place(configuration: bytes) -> bytes:
    """Where the key of a configuration's proofs lies, for the vault."""
    return b"proofs" + configuration


def part_place(part: int) -> bytes:
    """Where a part of a release lies, for the vault."""
    return b"part%d" % part


@dataclass(frozen=True)
class NewBatch:
    """A batch as an offer first names it; `configuration` is what it is pinned to from then on."""

    number: int
    hash: bytes
    configuration: bytes
    users: int
    slots: int
    length: int
    expires: float | None
    mechanism: str = ""
    shares: str = ""
    least: int = 1
    stream: str = ""


@dataclass
class OpenOffer:
    """An open offer: how many turns it has to give, and with what odds."""

    envelope: str
    odds: float
    turns: int


@dataclass(frozen=True)
class InBlock:
    """What a batch's receipt says of its block: turns of its stream that are over, whether all are, and who is silent.

    `silent` has a number for each of some batches: see `croupier.programs.program.Dealt`.
    """

    block: int
    turns: int
    over: bool
    silent: list[list[int]]


def in_block_of(batch: RowMapping) -> InBlock | None:
    """What a batch's row says of its block, where it has one."""
    return (
        None
        if batch["block"] is None
        else InBlock(batch["block"], batch["turns"], batch["over"], json.loads(batch["silent"] or "[]"))
    )


@dataclass(slots=True)
class Arrival:
    """A report that was opened and checked: what it spends, and sealed messages for each of its batches."""

    experiment: str
    offer: int
    token: bytes
    report: bytes
    due: int
    expires: int
    parts: tuple[tuple[int, tuple[bytes, ...]], ...]
    """For each batch its sealed messages; none in shares."""
    late: bool = False
    """Its token has expired: it is good only if it came before."""
    stream: str = ""
    """In shares: what it waits for."""
    name: bytes = b""
    configuration: bytes = b""
    own: bytes = b""
    sealed: bytes = b""
    """In shares: its name as the analyzer knows it, the configuration it was made under, what the front has of it (a
    seed, or what it made of its share of a proof), and the analyzer's shares one after the other."""

    @property
    def in_shares(self) -> bool:
        return bool(self.stream)


@dataclass(frozen=True)
class Standing:
    """Where a batch stands: public."""

    number: int
    users: int
    received: int
    state: str
    expires: float | None
    turns: int | None


@dataclass(frozen=True)
class Closing:
    """A full batch on its way out: what its receipt says."""

    experiment: str
    number: int
    hash: bytes
    configuration: bytes
    reports: int
    messages: int
    length: int
    parts: int
    digest: bytes
    in_block: InBlock | None = None
