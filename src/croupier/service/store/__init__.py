"""The only place that touches SQL: one store for the front, another for the analyzer, on SQLite or PostgreSQL."""

from croupier.service.store.analyzer import AnalyzerStore
from croupier.service.store.database import Database, StoreProblem
from croupier.service.store.front import FrontStore
from croupier.service.store.schema import Arrival, Closing, NewBatch, Standing

__all__ = [
    "AnalyzerStore",
    "Arrival",
    "Closing",
    "Database",
    "FrontStore",
    "NewBatch",
    "Standing",
    "StoreProblem",
]
