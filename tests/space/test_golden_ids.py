"""Ids of the shipped trials never change by accident: rows of older stores would no longer count.

`golden_ids.json` has an entry for each shipped space, written when the space was added; 15 of the entries are of the
spaces of commit 4ce9cd4. An entry changes only together with the space that it names, or with the VERSION of a task or
model. Since 4ce9cd4 ten have changed: commit 11eb035 added trials to the spaces `gridworld_compact` and `recall_m`,
`gridworld_small` has three training seeds since 2026-11-23, `coloring_initialisation` has fresh seeds and q = 10,
`recall_two_cores` has two more training seeds at N = 15, `coloring_basins` six more training seeds,
`gridworld_evolution` two more variants, `coloring_length` q = 10, `coloring_initialisation` and `coloring_table_two_cores`
more training seeds (20 and 9). No id went.
"""

import hashlib
import json
from pathlib import Path

import pytest

from sweeper.space import search_space
from sweeper.trial import plugins

GOLDEN = json.loads((Path(__file__).parent / "golden_ids.json").read_text())
SPACES = sorted((plugins.ROOT / "search_spaces").glob("*.yaml"))


@pytest.mark.parametrize("space", SPACES, ids=lambda path: path.stem)
def test_ids_of_a_shipped_space(space):
    ids = search_space.read(space).expand().trial_ids
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:20]
    assert GOLDEN[space.stem] == {"trials": len(ids), "first": ids[0], "digest": digest}
