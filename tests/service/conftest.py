"""Stores for the tests of this room."""

import os
import sys
from importlib.util import find_spec

import pytest
from sqlalchemy import create_engine

from cases.service import stores
from croupier.protocols import HistogramMechanism
from croupier.protocols.sums.mechanism import SumMechanism
from croupier.service.store import database

if find_spec("sniffio") is None:
    # A transport to an application in this process looks for it at every request, and would look on the disk.
    sys.modules["sniffio"] = None


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once():
    """Not once a store, of which every test has new ones: stores of a kind share what was compiled."""
    firsts = {}

    def engine(url, **options):
        made = create_engine(url, **options)
        first = firsts.get(made.dialect.name)
        # A dialect knows its server's version once somebody has connected.
        if first is None or getattr(first.dialect, "server_version_info", None) is None:
            firsts[made.dialect.name] = made
        else:
            made.dialect, made._compiled_cache = first.dialect, first._compiled_cache
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "create_engine", engine)
        yield


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
