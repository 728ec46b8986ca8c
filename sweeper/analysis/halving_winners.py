"""The results of a successive halving: the winner of each search, and the cost of all its trials."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from sweeper.analysis.settings_table import metrics_of
from sweeper.analysis.table import value_text
from sweeper.messages import counted, duration
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.entry_names import entries, varying_names
from sweeper.trial.trial_spec import trial_id

MOST_SEARCHES = 20
"""Largest number of searches that have a line of their own."""


def searches_of(space: SweepSpec) -> list[tuple[str, ...]]:
    """Ids of the trials of every search of a space, in the order of the document; empty for any other method."""
    if not space.search.COMPARES:
        return []
    return [tuple(map(trial_id, starts)) for starts in space.search.searches(space.expand().trials)]


class _Search(NamedTuple):
    """A search with rows.

    Attributes:
        rows: Rows of its trials, with named columns.
        winners: Rows of its finished trials.
    """

    rows: pd.DataFrame
    winners: pd.DataFrame


def winner_lines(trials: pd.DataFrame, space: SweepSpec) -> list[str]:
    """Lines about the winners of a successive halving: which trial won, how good it is, and the cost of the search.

    Args:
        trials: Rows of the sweep, with named columns.
        space: Its space.
    """
    by_id = trials.set_index("trial_id", drop=False)
    searches = []
    for starts in searches_of(space):
        rows = by_id.loc[[key for key in starts if key in by_id.index]]
        searches.append(_Search(rows, rows[rows["status"] == "finished"]))
    searches = [search for search in searches if len(search.rows)]
    if not searches:
        return []
    total = sum(search.rows["cpu_seconds"].sum() for search in searches)
    rows = sum(len(search.rows) for search in searches)
    winners = sum(len(search.winners) for search in searches)
    lines = [
        f"cost of the search: {duration(total)} of CPU time for {counted(winners, 'winner')}, "
        f"all {counted(rows, 'trial')} included"
    ]
    lines += _lines(searches[:MOST_SEARCHES], space)
    if len(searches) > MOST_SEARCHES:
        lines.append(f"  and {len(searches) - MOST_SEARCHES:,} searches more")
    return lines


def _lines(searches: Sequence[_Search], space: SweepSpec) -> Iterator[str]:
    records = [{**entries(search.rows["spec"].iloc[0]), "seed": None} for search in searches]
    names = varying_names(records)
    for search, record in zip(searches, records, strict=True):
        seed = search.rows["seed"].iloc[0] // space.search.trials_of_a_seed
        said = [f"{name} {value_text(record[path])}" for path, name in names.items() if record.get(path) is not None]
        cost = f"{search.rows['cpu_seconds'].sum():.0f} s of CPU for {counted(len(search.rows), 'trial')}"
        winners = [_winner(row, search.winners) for _, row in search.winners.iterrows()] or ["no winner"]
        yield f"  {', '.join([*said, f'search {seed}'])}: {'; '.join(winners)}; {cost}"


def _winner(row: pd.Series, winners: pd.DataFrame) -> str:
    metrics = [name for name in metrics_of(winners)[:3] if pd.notna(row[name])]
    measured = ", ".join(f"{name} {row[name]:.3g}" for name in metrics)
    return f"seed {row['seed']} wins with {measured} and {row['cpu_seconds']:.0f} s of its own"
