"""A store of made-up results for the commands that change or read one."""

import pytest

from tests.filled_stores import filled


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The store of `tests.filled_stores.filled`, which nobody changes."""
    return filled(tmp_path_factory.mktemp("made") / "results")
