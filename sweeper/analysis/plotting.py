"""A picture of any two columns of a store, drawn as the panels are, without a panel in a search space.

Against an entry of the specification, such as `task_vertices`, a value is a line of means over training seeds; against
`step` it is a training curve; against any other column every trial is a point.
"""

import re
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from sweeper.analysis import sql
from sweeper.analysis.figures import drawing, note_lines, style
from sweeper.analysis.figures.layout import compose
from sweeper.analysis.figures.selection import NoData, column
from sweeper.analysis.results import Results
from sweeper.messages import UserError, typed
from sweeper.panels.kinds import Panel, Panels
from sweeper.store.store import Store
from sweeper.trial.entry_names import column_name, entries

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Rows = Literal["trials", "evaluations"]


class PlotError(UserError, ValueError):
    """Columns that a store does not have, or that cannot be drawn against each other."""


def plotted(
    store: Store, x: str, y: str, split: str | None = None, where: str | None = None, rows: Rows = "trials"
) -> "tuple[Figure, list[str]]":
    """The figure, and remarks on what is not in it; see `sweeper.plot`."""
    results = Results.of_store(store)
    if where is not None:
        results = results.only(sql.chosen_ids(where, store))
    if results.trials.empty:
        raise PlotError("no trial is finished" + ("" if where is None else f" where {where}"))
    panel = _panel(results, x, y, split, rows)
    drawn = drawing(panel, results)
    remarks = [line for _, line in note_lines(drawn.notes)]
    if drawn.frame.empty:
        raise PlotError("; ".join(remarks))
    with style.settings():
        return compose([drawn], "paper"), remarks


def _panel(results: Results, x: str, y: str, split: str | None, drawn: Rows) -> Panel:
    rows = results.trials if drawn == "trials" else results.of_evaluations().trials
    if rows.empty:
        raise PlotError(f"no network is evaluated ({typed('evaluate')})")
    settings = {column_name(path) for spec in rows["spec"] for path in entries(spec)}
    try:
        if x != "step":
            x, y = column(rows, x), column(rows, y)
        if split is not None:
            column(rows, split)
    except NoData as unknown:
        raise PlotError(str(unknown)) from None
    name = re.sub(r"[^A-Za-z0-9 ._-]", "-", f"{y} against {x}")
    panel: dict[str, Any] = {"name": name, "metric": y, "y": {"label": y}}
    panel |= {"series": [{"label": y}]} if split is None else {"split": split}
    if x == "step":
        panel |= {"kind": "history"}
    elif x in settings and pd.api.types.is_numeric_dtype(rows[x]):
        panel |= {"kind": "curve", "x": x, "rows": drawn}
    elif drawn == "evaluations":
        raise PlotError(f"evaluations are drawn against an entry of the specification, and '{x}' is none")
    else:
        panel |= {"kind": "scatter", "x": {"column": x}}
    try:
        (made,) = TypeAdapter(Panels).validate_python([panel])
    except ValidationError as error:
        raise PlotError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    return made
