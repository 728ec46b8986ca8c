"""A picture of any two columns of a store, drawn as the panels are, without a panel in a search space.

Against an entry of the specification, such as `task_vertices`, a value is a line of means over training seeds; against
`step` it is a training curve; against any other column every trial is a point, as it is where nearly every place on the
axis has a setting of its own, which a line would join by chance. Each sweep has lines and points of its own, and an
entry that a space searches on a logarithmic scale is drawn on one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from sweeper.analysis import sql
from sweeper.analysis.figures import drawing, note_lines, style
from sweeper.analysis.figures.layout import compose
from sweeper.analysis.figures.selection import NoData, column, mixed, split_label
from sweeper.analysis.recorded_spaces import asked_of
from sweeper.analysis.results import NO_SWEEP, Results
from sweeper.messages import UserError, typed
from sweeper.panels.kinds import Panel, Panels
from sweeper.panels.panel import LONGEST
from sweeper.store.store import Store, SweepRecord
from sweeper.trial.entry_names import by_entries, column_name, entries, value_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Rows = Literal["trials", "evaluations"]

ALONE = 1.5  # settings, or rows, at a place of the axis up to which a place has about one
MOST_JOINED = 10  # places up to which single rows are joined if nothing else differs


def plotted(
    store: Store,
    x: str,
    y: str,
    split: str | None = None,
    where: str | None = None,
    rows: Rows = "trials",
    *,
    logx: bool = False,
    logy: bool = False,
    points: bool = False,
) -> "tuple[Figure, list[str]]":
    """The figure, and remarks on what is not in it; see `sweeper.plot`."""
    results = Results.of_store(store)
    if where is not None:
        results = results.only(sql.chosen_ids(where, store))
    if results.trials.empty:
        raise UserError("no trial is finished" + ("" if where is None else f" where {where}"))
    drawn = results.trials if rows == "trials" else results.of_evaluations().trials
    if drawn.empty:
        raise UserError(f"no network is evaluated ({typed('evaluate')})")
    try:
        if x != "step":
            x, y = column(drawn, x), column(drawn, y)
        split = split and column(drawn, split)
    except NoData as unknown:
        raise UserError(str(unknown)) from None
    latest = store.latest_starts()
    sweeps = _sweeps(latest, drawn["trial_id"])
    logarithmic = _logarithmic(latest[name] for sharing in sweeps for name in sharing.split(", ") if name in latest)
    scales = {
        axis: "log" if asked or name in logarithmic else "linear"
        for axis, asked, name in (("x", logx, x), ("y", logy, y))
    }
    name = re.sub(r"[^A-Za-z0-9 ._-]", "-", f"{y} against {x}")[:LONGEST]
    panel: dict[str, Any] = {"name": name, "metric": y, "y": {"label": y, "scale": scales["y"]}}
    panel |= {"series": _series(drawn, y, split, sweeps)} if len(sweeps) > 1 or split is None else {"split": split}
    axis = {"column": x, "label": x, "scale": scales["x"]}
    if x == "step":
        if points or rows == "evaluations":
            raise UserError("training curves are lines of trials, neither points nor evaluations")
        panel |= {"kind": "history", "scale": scales["x"]}
    elif not points and _has_lines(drawn, x, split, sweeps.values()):
        panel |= {"kind": "curve", "x": axis, "rows": rows}
    else:
        panel |= {"kind": "scatter", "x": axis, "rows": rows}
    return _composed(panel, results)


def _composed(panel: dict[str, Any], results: Results) -> "tuple[Figure, list[str]]":
    try:
        (made,) = TypeAdapter[tuple[Panel, ...]](Panels).validate_python([panel])
    except ValidationError as error:
        raise UserError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    drawn = drawing(made, results)
    remarks = [line for _, line in note_lines(drawn.notes)]
    if drawn.frame.empty:
        raise UserError("; ".join(remarks))
    with style.settings():
        return compose([drawn], "paper"), remarks


def _sweeps(latest: Mapping[str, SweepRecord], trial_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """The trials of each sweep whose latest start planned any; sweeps that have the same ones share a name."""
    drawn = frozenset(trial_ids)
    planned = {name: drawn.intersection(record.trial_ids) for name, record in latest.items()}
    planned[NO_SWEEP] = drawn.difference(*planned.values())
    names: dict[frozenset[str], list[str]] = {}
    for name, own in planned.items():
        names.setdefault(own, []).append(name)
    return {", ".join(sharing): own for own, sharing in names.items() if own}


def _logarithmic(records: Iterable[SweepRecord]) -> set[str]:
    """The columns of entries that the spaces of these starts search on a logarithmic scale."""
    varied = (entry for record in records for entry in asked_of(record).varied.items())
    return {column_name(path) for path, values in varied if values.scale is not None and values.scale.log}


def _series(rows: pd.DataFrame, y: str, split: str | None, sweeps: dict[str, frozenset[str]]) -> list[dict[str, Any]]:
    """A series for each sweep, and there for each value of the column that splits."""
    if len(sweeps) == 1:
        return [{"label": y}]
    series = []
    for sweep, own in sweeps.items():
        of_sweep: dict[str, Any] = {"trial_id": sorted(own)}
        if split is None:
            series.append({"label": sweep, "where": of_sweep})
            continue
        values = rows[rows["trial_id"].isin(own)][split].dropna().unique().tolist()
        for value in sorted(values, key=value_order):
            label = f"{sweep}: {split_label(split, value)}"
            series.append({"label": label, "where": of_sweep | {split: [value]}})
    return series


def _has_lines(rows: pd.DataFrame, x: str, split: str | None, sweeps: Iterable[frozenset[str]]) -> bool:
    """Whether a line may join the values: against numbers of an entry, most of which several settings share.

    Where nothing else differs, several training seeds do as well, or that the places are few.
    """
    if x not in {column_name(path) for spec in rows["spec"].unique() for path in entries(spec)}:
        return False
    if not pd.api.types.is_numeric_dtype(rows[x]):
        return False
    settings = places = differing = longest = 0
    for own in sweeps:
        of_sweep = rows[rows["trial_id"].isin(own) & rows[x].notna()]
        for _, part in of_sweep.groupby(split, sort=False) if split else [("", of_sweep)]:
            settings += len({(place, at) for place, (_, of) in enumerate(by_entries(part)) for at in of[x]})
            places += part[x].nunique()
            longest = max(longest, part[x].nunique())
            differing += bool(mixed(part, [x, *([split] if split else [])]))
    if not differing:
        return len(rows) > ALONE * places or longest <= MOST_JOINED
    return settings > ALONE * places
