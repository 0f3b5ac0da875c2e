"""Of what the front keeps, what was signed: experiments and their configurations, offers, the heads of logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from croupier.messages.block import Block
from croupier.programs.records import Head
from croupier.service.store.database import Database
from croupier.service.store.schema import (
    BATCHES,
    CONFIGURATIONS,
    EXPERIMENTS,
    HEADS,
    OFFERS,
    PAUSED,
    TOTALS,
    NewBatch,
    proof_place,
)
from croupier.service.store.vault import Vault

# Built once: putting a statement together takes longer than running it.
_FINISHED = select(EXPERIMENTS.c.finished).where(EXPERIMENTS.c.name == bindparam("e"))
_PAUSED = select(PAUSED.c.experiment).where(PAUSED.c.experiment == bindparam("e"))
_LONGEST_UPLOAD = select(EXPERIMENTS.c.longest_upload).where(EXPERIMENTS.c.name == bindparam("e"))


class Experiments:
    """Experiments, offers, and how far the analyzer's logs were countersigned."""

    database: Database
    vault: Vault

    def put_configuration(
        self,
        experiment: str,
        revision: int,
        digest: bytes,
        envelope: str,
        known: bytes | None,
        proof_key: bytes | None = None,
    ) -> bool:
        """Make this the current configuration in the place of the one that was known, by its hash; False when the
        revision is taken by another or an older one, or another than the known one is current now.

        `proof_key` is what proofs under it are checked with, where there are any.
        """
        with self.database.write() as connection:
            query = select(EXPERIMENTS.c.hash, EXPERIMENTS.c.revision).where(EXPERIMENTS.c.name == experiment)
            stored = connection.execute(self.database.locked(query)).first()
            if stored is not None and stored.hash == digest:
                return True
            if (None if stored is None else stored.hash) != known:
                return False
            if stored is not None and revision <= stored.revision:
                return False
            row: dict[str, Any] = {"hash": digest, "experiment": experiment, "revision": revision, "envelope": envelope}
            if proof_key is not None:
                row["proof_key"] = self.vault.hide(experiment, 0, proof_place(digest), proof_key)
            connection.execute(self.database.insert(CONFIGURATIONS).values(row).on_conflict_do_nothing())
            current = {"name": experiment, "hash": digest, "revision": revision}
            if stored is None:
                connection.execute(insert(EXPERIMENTS).values(current | {"finished": False}))
            else:
                connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(current))
        return True

    def configuration(self, experiment: str, digest: bytes | None = None) -> str | None:
        """The envelope of the current configuration, or of the one with this hash."""
        query = select(CONFIGURATIONS.c.envelope).where(CONFIGURATIONS.c.experiment == experiment)
        if digest is None:
            query = query.join(EXPERIMENTS, EXPERIMENTS.c.hash == CONFIGURATIONS.c.hash)
        else:
            query = query.where(CONFIGURATIONS.c.hash == digest)
        with self.database.read() as connection:
            return connection.execute(query).scalar()

    def void(self, experiment: str, hashes: Sequence[str]) -> None:
        """Accept no report under these configurations from now on."""
        with self.database.write() as connection:
            this = EXPERIMENTS.c.name == experiment
            connection.execute(update(EXPERIMENTS).where(this).values(void=json.dumps(list(hashes))))

    def proof_key(self, experiment: str, digest: bytes) -> bytes | None:
        """The key that proofs under a configuration are checked with."""
        query = select(CONFIGURATIONS.c.proof_key).where(
            CONFIGURATIONS.c.experiment == experiment, CONFIGURATIONS.c.hash == digest
        )
        with self.database.read() as connection:
            hidden = connection.execute(query).scalar()
        return None if hidden is None else self.vault.show(experiment, 0, proof_place(digest), hidden)

    def put_offer(
        self,
        experiment: str,
        number: int,
        envelope: str,
        batches: Sequence[NewBatch],
        upload: int = 0,
        odds: float = 1.0,
        together: Sequence[int] = (),
        stream: str = "",
        block: Block | None = None,
        last: float = 0.0,
        rule: tuple[bytes, str] | None = None,
    ) -> bool:
        """Open an offer and those of its batches that are new; False when either exists with other contents.

        Reports on it have `upload` bytes. Its turns count with those of its `stream`. It is dealt with these odds, once
        all offers of `together` are here; in a block, once all of its batches are. `last` is when a turn that is given
        out now can no longer be reported. `rule` is the hash and the text of what devices choose by, if they do.
        """
        this = (OFFERS.c.experiment == experiment, OFFERS.c.number == number)
        waits_for = json.dumps(list(together))
        with self.database.write() as connection:
            known = connection.execute(select(OFFERS.c.envelope).where(*this)).scalar()
            if known is not None:
                if known == envelope:
                    # Some that it was opened with may be over by now.
                    connection.execute(update(OFFERS).where(*this).values(together=waits_for))
                return bool(known == envelope)
            for batch in batches:
                row = {"experiment": experiment, "received": 0, "state": "open", "receipt": None} | vars(batch)
                row |= {"block": None if block is None else block.number}
                stored = connection.execute(
                    select(BATCHES.c.hash, BATCHES.c.state, BATCHES.c.length, BATCHES.c.stream).where(
                        BATCHES.c.experiment == experiment, BATCHES.c.number == batch.number
                    )
                ).first()
                if stored is None:
                    connection.execute(insert(BATCHES).values(row))
                elif (stored.hash, stored.state, stored.length) != (batch.hash, "open", batch.length) or (
                    # With servers' noise a batch is one arm's, whose lot ends with it.
                    batch.shares == "two-servers" and stored.stream != batch.stream
                ):
                    connection.rollback()
                    return False
            none = {"experiment": experiment, "assigned": 0, "accepted": 0}
            connection.execute(self.database.insert(TOTALS).values(none).on_conflict_do_nothing())
            connection.execute(
                insert(OFFERS).values(
                    experiment=experiment,
                    number=number,
                    envelope=envelope,
                    batches=json.dumps([batch.number for batch in batches]),
                    open=True,
                    odds=odds,
                    stream=stream or f"offer-{number}",
                    together=waits_for,
                    assigned=0,
                    accepted=0,
                    block=None if block is None else block.number,
                    rule_hash=None if rule is None else rule[0],
                    rule=None if rule is None else rule[1],
                )
            )
            if block is not None:
                self.join_block(connection, experiment, block, batches[0].shares, batches[0].expires, last)
            shorter = (EXPERIMENTS.c.name == experiment) & (EXPERIMENTS.c.longest_upload < upload)
            connection.execute(update(EXPERIMENTS).where(shorter).values(longest_upload=upload))
        return True

    def join_block(
        self, connection: Connection, experiment: str, block: Block, shares: str, expires: float | None, last: float
    ) -> None:
        """See `Blocks.join_block`."""
        raise AssertionError("a store has blocks, too")

    def longest_upload(self, experiment: str) -> int | None:
        """How long a report on any of its offers is at most, closed ones too; None when the experiment is unknown."""
        with self.database.read() as connection:
            return connection.execute(_LONGEST_UPLOAD, {"e": experiment}).scalar()

    def rule(self, experiment: str, digest: bytes) -> str | None:
        """The text of a rule by its hash."""
        query = select(OFFERS.c.rule).where(OFFERS.c.experiment == experiment, OFFERS.c.rule_hash == digest).limit(1)
        with self.database.read() as connection:
            return connection.execute(query).scalar()

    def offer(self, experiment: str, number: int) -> str | None:
        """An offer's envelope."""
        query = select(OFFERS.c.envelope).where(OFFERS.c.experiment == experiment, OFFERS.c.number == number)
        with self.database.read() as connection:
            return connection.execute(query).scalar()

    def put_head(self, experiment: str, head: Head, envelope: str, known: Head) -> bool:
        """Keep the head of an analyzer's log in the place of the one that was known; False when that is another now."""
        this = HEADS.c.experiment == experiment
        row = {"experiment": experiment, "number": head.number, "hash": head.hash, "envelope": envelope}
        with self.database.write() as connection:
            query = select(HEADS.c.number, HEADS.c.hash).where(this)
            stored = connection.execute(self.database.locked(query)).first()
            if (Head() if stored is None else Head(*stored)) != known:
                return False
            if stored is None:
                connection.execute(self.database.insert(HEADS).values(row))
            elif head != known:
                connection.execute(update(HEADS).where(this).values(row))
        return True

    def may_pull(self, experiment: str, batch: int) -> bool:
        """Whether a batch may leave: the one that left last may again, another when a head was kept since."""
        this = HEADS.c.experiment == experiment
        with self.database.write() as connection:
            query = select(HEADS.c.number, HEADS.c.pulled, HEADS.c.pulled_at).where(this)
            stored = connection.execute(self.database.locked(query)).first()
            if stored is None or (stored.pulled != batch and stored.number <= stored.pulled_at):
                return False
            if stored.pulled != batch:
                connection.execute(update(HEADS).where(this).values(pulled=batch, pulled_at=stored.number))
        return True

    def head(self, experiment: str) -> str | None:
        """The envelope of the newest head."""
        with self.database.read() as connection:
            return connection.execute(select(HEADS.c.envelope).where(HEADS.c.experiment == experiment)).scalar()

    def finished(self, experiment: str) -> bool | None:
        """Whether it has ended; None when it is unknown."""
        with self.database.read() as connection:
            return connection.execute(_FINISHED, {"e": experiment}).scalar()

    def pause(self, experiment: str, *, paused: bool) -> None:
        """Deal nobody a turn for now, or again."""
        with self.database.write() as connection:
            connection.execute(delete(PAUSED).where(PAUSED.c.experiment == experiment))
            if paused:
                connection.execute(insert(PAUSED).values(experiment=experiment))

    def paused(self, experiment: str) -> bool:
        with self.database.read() as connection:
            return connection.execute(_PAUSED, {"e": experiment}).scalar() is not None
