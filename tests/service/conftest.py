"""Stores for the tests of this room."""

import os

import pytest

from cases.service import stores
from croupier.protocols import HistogramMechanism
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service.store import database


@pytest.fixture(scope="session", autouse=True)
def _postgres_ends_with_the_tests():
    yield
    stores.clean()


@pytest.fixture(params=("sqlite", "postgresql"))
def store_url(request, tmp_path):
    """The address of an empty store, of each kind."""
    return stores.new_store(request.param, tmp_path)


@pytest.fixture(params=("prio3", "none"))
def validity(request):
    """Whether reports in shares come with proofs."""
    return request.param


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Nothing waits for a disk: what dies in this process only, the system keeps. Servers in processes of their own do
    wait.
    """
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    off = [pragma.replace("synchronous=FULL", "synchronous=OFF") for pragma in database.SQLITE]
    monkeypatch.setattr(database, "SQLITE", [pragma for pragma in off if not pragma.startswith("fullfsync")])


@pytest.fixture
def noiseless(monkeypatch):
    """Totals are exact, so that one value more or less shows."""
    monkeypatch.setattr(SumMechanism, "server_noise", lambda self, source: [0] * self.dimension)
    monkeypatch.setattr(HistogramMechanism, "server_noise", lambda self, source: [0] * self.size)
