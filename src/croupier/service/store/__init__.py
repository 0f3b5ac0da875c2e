"""The only place that touches SQL: one store for the shuffler, another for the analyzer, on SQLite or PostgreSQL."""

from croupier.service.store.analyzer import AnalyzerStore
from croupier.service.store.database import Database, StoreProblem
from croupier.service.store.schema import Arrival, Closing, NewBatch, Standing
from croupier.service.store.shuffler import ShufflerStore

__all__ = [
    "AnalyzerStore",
    "Arrival",
    "Closing",
    "Database",
    "NewBatch",
    "ShufflerStore",
    "Standing",
    "StoreProblem",
]
