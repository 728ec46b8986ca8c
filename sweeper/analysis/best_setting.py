"""The end of a search: its best setting, and the commands that train it again.

The best of many is also the luckiest of many, so its mean is worth little until the setting has been trained again.
"""

import operator
import shlex
from collections.abc import Collection

import pandas as pd

from sweeper.analysis.halving_winners import elsewhere_line
from sweeper.analysis.ranking import Ranking, goal_of, merit, ranked_settings, ranking
from sweeper.analysis.recorded_spaces import asked_by
from sweeper.analysis.results import named_frame
from sweeper.analysis.settings_table import settings, settings_table, with_deviation
from sweeper.messages import counted, redacted, typed
from sweeper.space.search_methods import Search
from sweeper.space.sweep_spec import SweepSpec
from sweeper.tables import value_text
from sweeper.trial.entry_names import column_name, shown_entries
from sweeper.trial.kinds import Goal


def ending(
    trials: pd.DataFrame, space: SweepSpec, elsewhere: Collection[str], results: str, address: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """The table at the end of a sweep, and lines about its best setting, or about trials that are left out.

    The trials are at least one row of the store, maybe with variables (`results.with_variables`); `elsewhere` are those
    of `halving_winners.finished_elsewhere`; store and cluster are as they were typed.
    """
    frame = named_frame(trials)
    if space.search.DRAWS:
        ranked = ranking(frame, goal_of(space.search.goal, frame))
        if ranked.settings:
            lines = _best_setting(ranked, space, results, address) + _pareto_front(ranked, space.search)
            return ranked_settings(space.name, ranked, asked_by(space)), lines
    own = frame[~frame["trial_id"].isin(elsewhere)]
    lines = [elsewhere_line(elsewhere)] if elsewhere else []
    return settings_table(settings(own), asked=asked_by(space)), lines


def _best_setting(ranked: Ranking, space: SweepSpec, results: str, address: str | None) -> list[str]:
    """Lines about the best setting: its mean, its rank among how many, its values, and how to train it again."""
    best = ranked.settings[0]
    records = [each.entries for each in ranked.settings]
    asked = asked_by(space)
    paths = dict.fromkeys([*shown_entries(records, asked.entries, len(records[0])), *asked.varied])
    over = f"mean of {counted(len(best.rows), 'seed')}" if len(best.rows) > 1 else "1 seed"
    among = f"rank 1 of {counted(len(ranked.settings), 'setting')}"
    if ranked.ties:
        among += f", equal to {counted(ranked.ties, 'other')}"
    among = "; ".join(filter(None, (among, ranked.unranked)))
    again, store = f"{space.name}-best.yaml", ("--results", redacted(results))
    value = with_deviation(ranked.best_mean.mean, ranked.best_mean.deviation)
    written = [f"  {column_name(path)}: {value_text(records[0][path])}" for path in paths if path in records[0]]
    return [
        f"best setting by {ranked.goal.text()} ({over}): {value} ({among})",
        *written,
        "the best of many is also the luckiest of many; this trains it again with other seeds:",
        f"  {typed('query', 'best', space.name, '--yaml', *store)} > {shlex.quote(again)}",
        f"  {typed('run', again, *store, *([] if address is None else ['--address', address]))}",
    ]


def _pareto_front(ranked: Ranking, search: Search) -> list[str]:
    """A line with the ranks of the settings that no other beats in all metrics of the search; empty for one metric."""
    if len(search.metric) == 1:
        return []
    goals = [Goal(*goal) for goal in zip(search.metric, search.mode, strict=True)]
    merits = [[merit(each, goal) for goal in goals] for each in ranked.settings]
    front = [
        each.rank
        for each, own in zip(ranked.settings, merits, strict=True)
        if not any(other != own and all(map(operator.ge, other, own)) for other in merits)
    ]
    names = " and ".join(goal.text() for goal in goals)
    return [f"not beaten in {names} together: ranks {', '.join(map(str, front))}"]
