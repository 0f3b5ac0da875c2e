"""Of what the front keeps, what was signed: experiments and their configurations, offers, the heads of logs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select, update

from croupier.programs.records import Head
from croupier.service.store.database import Database
from croupier.service.store.schema import BATCHES, CONFIGURATIONS, EXPERIMENTS, HEADS, OFFERS, TOTALS, NewBatch

# Built once: putting a statement together takes longer than running it.
_FINISHED = select(EXPERIMENTS.c.finished).where(EXPERIMENTS.c.name == bindparam("e"))
_LONGEST_UPLOAD = select(EXPERIMENTS.c.longest_upload).where(EXPERIMENTS.c.name == bindparam("e"))


class Experiments:
    """Experiments, offers, and how far the analyzer's logs were countersigned."""

    database: Database

    def put_configuration(
        self, experiment: str, revision: int, digest: bytes, envelope: str, known: bytes | None
    ) -> bool:
        """Make this the current configuration in the place of the one that was known, by its hash; False when the
        revision is taken by another or an older one, or another than the known one is current now.
        """
        with self.database.write() as connection:
            query = select(EXPERIMENTS.c.hash, EXPERIMENTS.c.revision).where(EXPERIMENTS.c.name == experiment)
            stored = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
            if stored is not None and stored.hash == digest:
                return True
            if (None if stored is None else stored.hash) != known:
                return False
            if stored is not None and revision <= stored.revision:
                return False
            row = {"hash": digest, "experiment": experiment, "revision": revision, "envelope": envelope}
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
    ) -> bool:
        """Open an offer and those of its batches that are new; False when either exists with other contents.

        Reports on it have `upload` bytes. Its turns count with those of its `stream`. It is dealt with these odds, once
        all offers of `together` are here.
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
                )
            )
            shorter = (EXPERIMENTS.c.name == experiment) & (EXPERIMENTS.c.longest_upload < upload)
            connection.execute(update(EXPERIMENTS).where(shorter).values(longest_upload=upload))
        return True

    def longest_upload(self, experiment: str) -> int | None:
        """How long a report on any of its offers is at most, closed ones too; None when the experiment is unknown."""
        with self.database.read() as connection:
            return connection.execute(_LONGEST_UPLOAD, {"e": experiment}).scalar()

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
            stored = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
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
            stored = connection.execute(query if self.database.sqlite else query.with_for_update()).first()
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
