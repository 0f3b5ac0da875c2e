"""Lets the tests beside this file import their helper modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

import pytest


@pytest.fixture(scope="session", autouse=True)
def _postgres_ends_with_the_tests():
    yield
    import service_stores

    service_stores.clean()


@pytest.fixture(params=("sqlite", "postgresql"))
def store_url(request, tmp_path):
    """The address of an empty store, of each kind."""
    import service_stores

    return service_stores.new_store(request.param, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"
