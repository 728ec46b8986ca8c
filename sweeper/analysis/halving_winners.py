"""The results of a successive halving: the winner of each search, and the cost of all its trials.

Another sweep may train a trial to the end that lost its search. The row then says `finished`, so that rows alone do not
tell the winners. Winners are found from the stored training curves, by the rule that has stopped the others.
"""

from collections.abc import Collection

import pandas as pd

from sweeper.analysis.settings_table import metrics_of
from sweeper.messages import counted, duration, inflected
from sweeper.packs.halving import searches_of, winners_of
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store
from sweeper.tables import value_text
from sweeper.trial.entry_names import column_name, entries, varying
from sweeper.trial.start_from import OF_A_SEED

MOST_SEARCHES = 20  # largest number of searches that have a line of their own


def finished_elsewhere(trials: pd.DataFrame, space: SweepSpec | None, store: Store) -> frozenset[str]:
    """The finished trials that are no winners of their search: another sweep has trained them to the end.

    The results of a halving are those of its winners, so these trials are left out. The space is None if this checkout
    cannot read it.
    """
    if space is None or space.search.halving is None:
        return frozenset()
    finished = frozenset(trials.loc[trials["status"] == "finished", "trial_id"])
    return finished - winners_of(space, searches_of(space), store)


def elsewhere_line(trial_ids: Collection[str]) -> str:
    """A sentence about trials of `finished_elsewhere`."""
    whose = inflected(len(trial_ids), "lost its search and was", "lost their searches and were")
    return f"{counted(len(trial_ids), 'trial')} {whose} trained to the end by another sweep: left out"


def winner_lines(trials: pd.DataFrame, space: SweepSpec, elsewhere: Collection[str]) -> list[str]:
    """Lines about the winners of a successive halving: which trial won, how good it is, and the cost of the search.

    The trials have named columns; those `elsewhere` (`finished_elsewhere`) count to the cost with all their steps.
    """
    planned = searches_of(space)
    number_of = {key: number for number, starts in enumerate(planned) for key in starts}
    won = (trials["status"] == "finished") & ~trials["trial_id"].isin(elsewhere)
    trials = trials.assign(search=trials["trial_id"].map(number_of), won=won).dropna(subset="search")
    if trials.empty:
        return []
    searches = [rows for _, rows in trials.sort_values("seed").groupby("search")]
    cost = f"{duration(trials['cpu_seconds'].sum())} of CPU time for {counted(int(trials['won'].sum()), 'winner')}"
    lines = [f"cost of the search: {cost}, all {counted(len(trials), 'trial')} included"]
    if elsewhere:
        lines.append(f"  {elsewhere_line(elsewhere)}, but all of that training is in the cost")
    records = [{**entries(rows["spec"].iloc[0]), **dict.fromkeys(OF_A_SEED)} for rows in searches[:MOST_SEARCHES]]
    paths = varying(records)
    for rows, record in zip(searches, records, strict=False):
        said = [f"{column_name(path)} {value_text(record[path])}" for path in paths if record.get(path) is not None]
        number, winners = rows["seed"].iloc[0] // len(planned[0]), rows[rows["won"]]
        words = [_winner(row, winners) for _, row in winners.iterrows()] or ["no winner"]
        cost = f"{rows['cpu_seconds'].sum():.0f} s of CPU for {counted(len(rows), 'trial')}"
        lines.append(f"  {', '.join([*said, f'search {number}'])}: {'; '.join(words)}; {cost}")
    if len(searches) > MOST_SEARCHES:
        lines.append(f"  and {len(searches) - MOST_SEARCHES:,} searches more")
    return lines


def _winner(row: pd.Series, winners: pd.DataFrame) -> str:
    metrics = [name for name in metrics_of(winners)[:3] if pd.notna(row[name])]
    measured = ", ".join(f"{name} {row[name]:.3g}" for name in metrics)
    return f"seed {row['seed']} wins with {measured} and {row['cpu_seconds']:.0f} s of its own"
