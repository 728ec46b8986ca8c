"""The outcomes that figures need: which columns the panels of recorded sweeps draw, by trial.

A panel is made from the store as in a report, and every outcome that the panel reads is noted. So the answer is exact
for every kind of panel, and a trial that no panel draws, such as a stopped trial, needs none.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from sweeper.analysis import figures
from sweeper.analysis.report_sources import recorded_panels
from sweeper.analysis.results import Results
from sweeper.store.store import Store
from sweeper.store.sweep_records import latest_starts


def drawn_outcomes(store: Store, sweeps: Collection[str] = ()) -> dict[str, set[str]]:
    """The columns of the outcomes that panels draw, by the id of the trial.

    Args:
        store: A store.
        sweeps: Names of recorded sweeps; all of the store if there are none.

    Raises:
        ReportError: the panels of a sweep can no longer be read.
        StoreError: a sweep is not recorded, or the store cannot be read.
    """
    drawn: dict[str, set[str]] = defaultdict(set)
    results = Results.of_store(store)

    def outcomes(trial_id: str, name: str) -> np.ndarray | None:
        values = results.outcomes(trial_id, name)
        if values is not None:
            drawn[trial_id].add(name)
        return values

    noted = replace(results, outcomes=outcomes)
    latest = latest_starts(store.sweeps(), sweeps)
    for name in sweeps or latest:
        chosen = noted.only(latest[name].trial_ids)
        for panel in recorded_panels(latest[name]):
            if panel.SOURCE in ("outcome", "walk"):
                figures.drawing(panel, chosen)
    return dict(drawn)
