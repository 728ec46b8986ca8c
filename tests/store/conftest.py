"""Empty stores of the tests of the store."""

import pytest

from sweeper.store.store import Store


@pytest.fixture
def local(tmp_path):
    """A store on a disk."""
    return Store.open(tmp_path / "results")


@pytest.fixture(params=["disk", pytest.param("objects", marks=pytest.mark.slow)])
def results(request, tmp_path):
    """A store on a disk, and one in a bucket."""
    return Store.open(
        tmp_path / "results" if request.param == "disk" else request.getfixturevalue("s3").url(tmp_path.name)
    )
