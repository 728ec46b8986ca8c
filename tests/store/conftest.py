"""Fixtures that several modules of this folder use."""

import shutil

import pytest

from sweeper.store.store import Store
from tests.filled_stores import filled


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory):
    """The folder of a store that `filled` has made once; tests only copy it."""
    return filled(tmp_path_factory.mktemp("filled") / "store").root


@pytest.fixture
def source(tmp_path, filled_folder):
    """A store with two sweeps, as `filled` makes it, on a disk."""
    return Store.open(shutil.copytree(filled_folder, tmp_path / "source"))
