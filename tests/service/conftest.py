"""Stores for the tests of this room."""

import pytest

from cases.service import stores


@pytest.fixture(scope="session", autouse=True)
def _postgres_ends_with_the_tests():
    yield
    stores.clean()


@pytest.fixture(params=("sqlite", "postgresql"))
def store_url(request, tmp_path):
    """The address of an empty store, of each kind."""
    return stores.new_store(request.param, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"
