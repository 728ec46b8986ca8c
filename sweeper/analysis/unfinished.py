"""Which trials of a sweep are not finished when a start ends, and why."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import pandas as pd

from sweeper.events import TrialsLost
from sweeper.messages import printable

MAX_REASONS = 20
"""Largest number of reasons that are printed, the most frequent first."""


def unfinished(
    planned: Iterable[str], rows: pd.DataFrame, done: Collection[str], lost: Iterable[TrialsLost], refused: bool
) -> dict[str, list[str]]:
    """The trials that are not finished, by the reason for it.

    Args:
        planned: Ids of the trials of the sweep.
        rows: Their rows in the store, with the columns of the store.
        done: Statuses, beside "finished", with which the sweep does not run a trial again.
        lost: Trials that workers could not commit. A lost trial that has a row by now is not unfinished.
        refused: Whether the start ended early because nothing could be committed.
    """
    reasons: dict[str, list[str]] = defaultdict(list)
    explained = set(rows.loc[rows["status"].isin(["finished", *done]), "trial_id"])
    for row in rows[rows["status"] == "failed"].to_dict("records"):
        reasons[f"{row['error_kind']}: {row['error_message']}"].append(row["trial_id"])
        explained.add(row["trial_id"])
    stopped = list(rows.loc[rows["status"] == "stopped", "trial_id"])
    further = "not run, as nothing could be committed any more" if refused else _NO_ROW
    losses = [(loss.trial_ids, loss.reason) for loss in lost]
    for trial_ids, reason in (*losses, (stopped, _STOPPED), (list(planned), further)):
        left = [trial_id for trial_id in trial_ids if trial_id not in explained]
        if left:
            reasons[reason] += left
            explained.update(left)
    return dict(reasons)


_STOPPED = "stopped early by another sweep, and not run to the end"
_NO_ROW = "no row, although its worker reported the end"


def lines(reasons: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each reason, with the number of trials and the id of the first."""
    frequent = sorted(reasons.items(), key=lambda item: -len(item[1]))[:MAX_REASONS]
    return [f"{len(trial_ids):,} x {printable(reason)} ({_named(trial_ids)})" for reason, trial_ids in frequent]


def _named(trial_ids: Sequence[str]) -> str:
    return f"trial {trial_ids[0]}" + (f" and {len(trial_ids) - 1:,} more" if len(trial_ids) > 1 else "")
