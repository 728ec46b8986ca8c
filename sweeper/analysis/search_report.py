"""The part of a report about a search: which entries decided, and its settings as parallel coordinates."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sweeper.analysis import figures, importance, page
from sweeper.analysis.figures import parallel_coordinates
from sweeper.analysis.ranking import goal_of, ranking
from sweeper.analysis.table import Table, attempted
from sweeper.messages import counted
from sweeper.space.sweep_spec import SweepSpec


class SearchReport(NamedTuple):
    """The part of a report about a search.

    Attributes:
        importance: The entries that decided how good its settings are.
        paths: The files of its figure.
        figure: The figure for the page, None if no setting is ranked or it could not be drawn.
        notes: Why the figure could not be drawn.
    """

    importance: Table
    paths: tuple[Path, ...]
    figure: page.SearchFigure | None
    notes: tuple[figures.Note, ...] = ()


def search_report(
    name: str, space: SweepSpec, trials: pd.DataFrame, folder: Path, palette: figures.PaletteName
) -> SearchReport:
    """The importance of a search's entries, and its figure, drawn into a folder of its own.

    Args:
        name: Of the sweep.
        space: The search.
        trials: Its finished trials, with named columns.
        folder: Of the report.
        palette: Colours of the figure.
    """
    title = f"What decides the settings of {name}"
    if not len(trials):
        return SearchReport(Table(title, (), (), "no trial is finished"), (), None)
    ranked = ranking(trials, goal_of(space.search, trials))
    if not ranked.ranked:
        return SearchReport(Table(title, (), (), f"no trial has {ranked.goal.metric}"), (), None)
    table = attempted(title, lambda: importance.importance_table(name, ranked, space))
    notes: list[figures.Note] = []
    paths = figures.attempted(
        "parallel coordinates", notes, lambda: parallel_coordinates.draw(ranked, space, folder / name, palette)
    )
    if paths is None:
        return SearchReport(table, (), None, tuple(notes))
    caption = f"{counted(len(ranked.ranked), 'setting')} by {ranked.goal.text()}"
    figure = page.SearchFigure(caption, paths[0], trials)
    return SearchReport(table, tuple(paths), figure)
