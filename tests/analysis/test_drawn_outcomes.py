"""The outcomes that panels of recorded sweeps draw, and a copy that keeps no others."""

import numpy as np
import pytest

from sweeper.analysis.report_sources import drawn_outcomes
from sweeper.store.copying import copy
from sweeper.store.store import Store
from tests.filled_stores import swept
from tests.results import outcomes, record, result

DRAWS = """
panels:
  - {kind: histogram, name: inputs, metric: success, where: {q: 3}, split: q}
  - {kind: board, name: walks, rows: task_vertices, columns: task_vertices, longest: steps, target: [2, 1],
     where: {q: 1}, series: [{label: A}]}
  - {kind: curve, name: average, x: q, metric: success, split: m}
"""


@pytest.mark.slow
def test_a_copy_can_keep_what_panels_draw(tmp_path):
    store = Store.open(tmp_path / "source")
    drawn = result({"objective": {"q": 3.0, "m": 2}})
    not_drawn = result({"objective": {"q": 10.0, "m": 2}})
    stopped = result({"objective": {"q": 3.0, "m": 2}, "seed": 1}, status="stopped")
    steps = {f"path_0_{step}": np.arange(24) for step in range(2)} | {"path_7_0": np.arange(24)}
    walks = result({"objective": {"q": 1.0, "m": 2}}, outcomes=outcomes(24, **steps))
    ids = swept(store, drawn, not_drawn, stopped, walks, name="drawn", text=DRAWS)
    store.record_sweep(record("plain", ids[:3], "panels: []\n"))
    expected = {ids[0]: {"success"}, ids[3]: {"path_0_0", "path_0_1"}}
    assert drawn_outcomes(store) == drawn_outcomes(store, ["drawn"]) == expected
    assert drawn_outcomes(store, ["plain"]) == {}

    target = Store.open(tmp_path / "copy")
    copy(store, target, outcomes=drawn_outcomes(store))
    kept = {key: set(seal.outcomes) for key, seal in target.seals().items()}
    assert kept == {key: expected.get(key, set()) for key in ids}
