"""What came out of a sweep: its rows, what is not finished and why, and the table at the end."""

import contextlib
import dataclasses
import functools
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from sweeper.analysis.best_setting import ending
from sweeper.analysis.halving_winners import finished_elsewhere
from sweeper.analysis.results import named_frame, with_variables
from sweeper.analysis.status import ODD, odd_numbers, unfinished, unfinished_lines
from sweeper.events import TrialsLost
from sweeper.messages import counted, inflected
from sweeper.packs import checkpoint
from sweeper.store import deletion
from sweeper.store.local_files import LocalFiles
from sweeper.store.store import StoreError
from sweeper.sweeps.output import Output
from sweeper.sweeps.sweep_plan import SweepPlan
from sweeper.trial.entry_names import column_name


class Drawn(list[str]):
    """Lines with the files of drawn figures, and remarks on them; a notebook shows the figures."""

    def __init__(self, files: Iterable[Path] = (), remarks: Iterable[str] = ()) -> None:
        self.files, self.remarks = tuple(files), tuple(remarks)
        super().__init__([*(f"figure: {file}" for file in self.files), *self.remarks])

    def _repr_html_(self) -> str:
        from sweeper.analysis.page import picture  # which a command does not need

        shown = []
        for file in self.files:
            source, width, _ = picture(file)
            shown.append(f'<p><img src="{source}" alt="{html.escape(file.stem)}" width="{width}"></p>')
        remarks = self.remarks or ["no panel is declared in the space"] * (not shown)
        return "".join([*shown, *(f"<p>{html.escape(remark)}</p>" for remark in remarks)])


@dataclasses.dataclass(frozen=True, repr=False)
class SweepResult:
    """What came out of a sweep; printed, it is the table and the lines at the end of `python -m sweeper.run`.

    Attributes:
        plan: What was planned. An adaptive search has planned more meanwhile.
        rows: The rows of the planned trials, with the columns of the store.
        unfinished: Ids of the trials that are not finished, by the reason; of failed trials the reason is their error.
        vain_checkpoints: Number of checkpoints that were removed, and whose steps nobody needs any more.
        address: Cluster, as it was typed.
        limit: The limit of the space that ended the start, in a few words; None if it came to its end.
        goal_reached: Whether the space has a goal, and a trial has reached it.
    """

    plan: SweepPlan
    rows: pa.Table
    unfinished: Mapping[str, Sequence[str]]
    vain_checkpoints: int
    address: str | None
    limit: str | None = None
    goal_reached: bool = False

    def __repr__(self) -> str:
        return Output.text_of(self.tell)

    @property
    def complete(self) -> bool:
        """Whether every planned trial has a row, and none failed."""
        return not self.unfinished

    @functools.cached_property
    def trials(self) -> pd.DataFrame:
        """One row for every planned trial with a row in the store.

        It has the columns of the view `trials`, and one for each variable of the space, such as `variables_x`.
        """
        return named_frame(self._frame).rename(columns=column_name)

    def draw(self) -> Drawn:
        """Draw the panels of the space into the folder `figures` of the store; returns lines with files and remarks.

        At the end of a cell a notebook shows the figures.
        They are not drawn again if all are there, and neither the rows nor the space have changed in this start.
        """
        spec, store = self.plan.spec, self.plan.store
        if not spec.panels:
            return Drawn()
        local = isinstance(store.files, LocalFiles)
        folder = (Path(store.root) / "figures" if local else Path("figures").resolve()) / spec.name
        files = [folder / f"{panel.name}.png" for panel in spec.panels]
        if self.plan.same_as_before and self._committed_before and all(file.exists() for file in files):
            return Drawn(files)
        try:
            from sweeper.analysis import figures
            from sweeper.analysis.results import Results

            shown = [key for key in self.rows["trial_id"].to_pylist() if key not in self._elsewhere]
            report = figures.draw(Results.of_store(store).only(shown), spec.panels, folder)
        except Exception as error:  # the trials are committed, whatever is wrong with matplotlib or the folder
            return Drawn(remarks=[f"no figures: {type(error).__name__}: {error}"])
        notes = (f"  {', '.join(panels)}: {line}" for panels, line in figures.note_lines(report.notes))
        return Drawn(report.paths, notes)

    def tell(self, output: Output, figures: Iterable[str] = ()) -> None:
        """Print the table, lines about figures, and what is not finished."""
        frame = self._frame
        if self.vain_checkpoints:
            counts = f"{counted(self.vain_checkpoints, 'checkpoint')} {inflected(self.vain_checkpoints, 'was', 'were')}"
            output.say(f"{counts} removed: damaged, or of trials that no sweep plans any more")
        if len(frame):
            table, lines = ending(frame, self.plan.spec, self._elsewhere, self.plan.results, self.address)
            output.table(table)
            for line in [*lines, *odd_numbers(frame[list(ODD)].to_dict("records"))]:
                output.say(line)
        for line in figures:
            output.say(line)
        for text in self.plan.source.impossible:
            output.complain(f"a setting that cannot be trained was left out: {text}")
        planned = counted(len(self.plan.trials), "trial")
        if self.limit is not None:
            output.say(f"ended by {self.limit}" + "; the same command carries on" * (not self.goal_reached))
        if self.complete:
            early = int((frame["status"] == "stopped").sum())
            output.say(
                f"{len(frame):,} of {planned} committed" + (f", {early:,} of them stopped early" if early else "")
            )
            return
        verb = inflected(len(self.plan.trials), "is", "are")
        output.complain(f"{sum(map(len, self.unfinished.values())):,} of {planned} {verb} not finished:")
        for line in unfinished_lines(self.unfinished, frame):
            output.complain(f"  {line}")
        if (frame["status"] == "failed").any():
            output.complain("  failed trials are run again with --retry-failed")

    @property
    def _committed_before(self) -> bool:
        """Whether an earlier start has committed all rows."""
        return not set(self.plan.pending) & set(self.rows["trial_id"].to_pylist())

    @functools.cached_property
    def _frame(self) -> pd.DataFrame:
        return with_variables(self.rows.to_pandas(), self.plan.source.variables)

    @functools.cached_property
    def _elsewhere(self) -> frozenset[str]:
        return finished_elsewhere(self._frame, self.plan.spec, self.plan.store)


def sweep_result(
    plan: SweepPlan,
    losses: Iterable[TrialsLost],
    refused: bool,
    address: str | None,
    limit: str | None,
    goal_reached: bool,
) -> SweepResult:
    """The result of a sweep whose packs have ended; `refused` if it ended early as the store took no more commits."""
    store, source = plan.store, plan.source
    # A full disk is a single sentence, even if several files were refused.
    files = re.compile(re.escape(store.root) + r"/[^\s:]+")
    lost = [dataclasses.replace(loss, reason=files.sub(f"files in {store.root}", loss.reason)) for loss in losses]
    vain = 0 if lost else _remove_checkpoints(plan)
    rows = store.trials(source.planned)
    frame = rows.select(["trial_id", "status", "error_kind", "error_message", "error_step"]).to_pandas()
    if source.held_up and limit is None:
        reason = "has not come to its next rung, or waits there for other trials of its search"
        lost.append(TrialsLost("", source.held_up, reason))
    rows_that_count = frame[~frame["trial_id"].isin(source.held_up)]
    early = f"not run ({limit})" if limit else "not run, as nothing could be committed any more" if refused else None
    reasons = unfinished(source.planned, rows_that_count, source.done - {"failed"}, lost, early)
    return SweepResult(plan, rows, reasons, vain, address, limit, goal_reached)


def _remove_checkpoints(plan: SweepPlan) -> int:
    """Delete the checkpoints that no sweep needs; returns the number of those whose steps were trained in vain.

    They are those of trials that no latest start plans, and those that a worker left when it died after its last
    commit. What a failed trial has left stays, for a retry.
    """
    store, source, vain = plan.store, plan.source, 0
    with contextlib.suppress(StoreError):  # a checkpoint that stays does no harm
        if names := store.listing("checkpoints"):
            planned, statuses = deletion.planned_trials(store), store.committed()

            def needed(trial_id: str) -> bool:
                done = source.done - {"failed"} if trial_id in source.planned else {"finished"}
                return trial_id in planned and statuses.get(trial_id) not in done

            removed = checkpoint.remove_without(store, names, needed)
            vain = sum(not trial_ids or not statuses.keys() >= set(trial_ids) for trial_ids in removed)
    return vain
