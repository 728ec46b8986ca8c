"""A store of made-up results for the commands that change or read one."""

import shutil

import pytest

from sweeper.store.store import Store
from tests.filled_stores import filled


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The store of `tests.filled_stores.filled`, which nobody changes."""
    return filled(tmp_path_factory.mktemp("made") / "results")


@pytest.fixture
def store(made, tmp_path):
    """A copy of it, which a test may change."""
    shutil.copytree(made.root, tmp_path / "results")
    return Store.open(tmp_path / "results")
