"""Services with one fault each, which the state machine must notice: installed over the real code for one test."""

from sqlalchemy import delete

from croupier.service.analyzer import Analyzer
from croupier.service.store import FrontStore, intake
from croupier.service.store.schema import SPENT


def forgets_what_was_spent(monkeypatch):
    def accept(store, arrivals):
        outcomes = real(store, arrivals)
        with store.database.write() as connection:
            connection.execute(delete(SPENT))
        return outcomes

    real = FrontStore.accept
    monkeypatch.setattr(FrontStore, "accept", accept)


def releases_again_what_was_acknowledged(monkeypatch):
    monkeypatch.setattr(FrontStore, "acknowledge", lambda store, name, number: None)


def acknowledges_before_it_logs(monkeypatch):
    async def take(analyzer, live, number):
        witness = await analyzer._witnessed(live)
        await analyzer.link.messages(live.name, number, 0)
        receipt, found = await analyzer._decoded(live, live.open[number])
        await analyzer.link.acknowledge(live.name, number)
        decoded = list(found.decoded) if isinstance(found.decoded, tuple) else found.decoded
        body = {"decoded": decoded, "damaged": found.damaged, "receipt": receipt.to_dict()}
        await live.record("released", batch=number, witness=witness.to_dict(), **body)

    monkeypatch.setattr(Analyzer, "_take", take)


def closes_one_report_too_soon(monkeypatch):
    def count(connection, taken, batches):
        real(connection, taken, {key: batch | {"users": batch["users"] - 1} for key, batch in batches.items()})

    real = intake._count
    monkeypatch.setattr(intake, "_count", count)


def writes_over_the_pool_of_before_a_restart(monkeypatch):
    class Same:
        @staticmethod
        def token_bytes(length):
            return bytes(length)

    monkeypatch.setattr(intake, "secrets", Same)


def answers_before_it_writes(monkeypatch):
    def accept(store, arrivals):
        held = store.__dict__.setdefault("held", [])
        real(store, held)
        held[:] = arrivals
        return ["accepted"] * len(arrivals)

    real = FrontStore.accept
    monkeypatch.setattr(FrontStore, "accept", accept)


MUTANTS = (
    forgets_what_was_spent,
    releases_again_what_was_acknowledged,
    acknowledges_before_it_logs,
    closes_one_report_too_soon,
    writes_over_the_pool_of_before_a_restart,
    answers_before_it_writes,
)
