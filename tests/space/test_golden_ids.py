"""Ids of the shipped trials never change by accident: rows of older stores would no longer count.

`golden_ids.json` has an entry for each shipped space, written when the space was added. An entry changes only together
with the space that it names, or with the VERSION of a task or model; git tells which have changed.
"""

import hashlib
import json
from pathlib import Path

import pytest

from sweeper.space import search_space
from tests import shipped

GOLDEN = json.loads((Path(__file__).parent / "golden_ids.json").read_text())


@pytest.mark.slow  # some spaces have thousands of settings
@pytest.mark.parametrize("path", shipped.SPACES, ids=lambda path: path.stem)
def test_a_shipped_space_has_its_ids_and_says_its_command_and_its_size(path):
    space, expansion = search_space.read(path), shipped.expansion(path)
    ids = expansion.trial_ids
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:20]
    assert GOLDEN[path.stem] == {"trials": len(ids), "first": ids[0], "digest": digest}
    comment = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
    assert f"python -m sweeper.run search_spaces/{path.name}" in comment
    assert f"Size: {expansion.summary}." in comment
    assert space.name == path.stem
    assert space.description
