"""What the front keeps: experiments, offers, batches, and the sealed messages of batches not yet released."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import delete, select, update

from croupier.noise import Source
from croupier.service.store.batch_keys import BatchKeys
from croupier.service.store.database import Database, StoreProblem
from croupier.service.store.experiments import Experiments
from croupier.service.store.intake import Intake
from croupier.service.store.migrations import steps
from croupier.service.store.outbox import Dropped
from croupier.service.store.schema import BATCHES, EXPERIMENTS, HOLDERS, ISSUED, SEALS, SPENT, Arrival
from croupier.service.store.silent import WANTED_LATER
from croupier.service.store.turns import Turns
from croupier.service.store.vault import Vault


class FrontStore(Turns, Experiments):
    """Experiments, offers, batches, and the messages or shares of batches that are open.

    `batch_keys` is the directory of keys that live as long as a batch; None keeps them in memory.
    """

    def __init__(self, url: str, source: Source, key: bytes, batch_keys: Path | None = None) -> None:
        self.database, self.source, self.vault = Database(url), source, Vault(key)
        self.batch_keys = BatchKeys(batch_keys)
        self.database.migrate(steps(self.vault), BATCHES.name)
        with self.database.read() as connection:
            known = connection.execute(select(SEALS.c.mark)).scalar()
        if known != self.vault.own_mark:
            self.close()
            raise StoreProblem(f"the store {self.database.name} was begun with another `store` key than this one")
        self._intake = Intake(self.database, source, self.vault, self)
        self._prepare_turns()

    def close(self) -> None:
        self.database.close()

    def accept(self, arrivals: Sequence[Arrival]) -> list[str]:
        """Take a group of reports in one transaction; see `Intake.accept`."""
        return self._intake.accept(arrivals)

    # Batches on their way out

    def finish(self, experiment: str) -> None:
        """The experiment has ended: whatever is open is deleted."""
        with self.database.write() as connection:
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.name == experiment).values(finished=True))
            dropped = self._drop(connection, "cancelled", BATCHES.c.experiment == experiment)
            self.end_blocks(connection, experiment)
            keys = self.drop_sums(connection, experiment, (), everything=True)
        self._forget(Dropped(dropped.batches, dropped.keys + keys))

    def touch(self) -> None:
        """Write something, to see whether one can."""
        with self.database.write() as connection:
            connection.execute(update(SEALS).values(mark=SEALS.c.mark))

    def prune(self, now: int) -> None:
        """Forget turns that are overdue and not to be counted any more, and spent tokens whose day has come."""
        with self.database.write() as connection:
            connection.execute(delete(SPENT).where(SPENT.c.expires < now))
            connection.execute(delete(ISSUED).where(ISSUED.c.due < now, ~WANTED_LATER.exists()))
            connection.execute(delete(HOLDERS).where(HOLDERS.c.due < now))
        self._scrub(0)
