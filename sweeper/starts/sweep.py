"""One start of a sweep, from the YAML to the table of results.

A start plans, launches the pending trials, and prints the results. While they run, `on_cluster` or `in_process` emits a
stream of events (`sweeper.events`), which `sweeper.listeners` shows.
"""

import collections
import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import pyarrow as pa

from sweeper import events
from sweeper.analysis import unfinished
from sweeper.analysis.best_setting import ending
from sweeper.analysis.halving_winners import finished_elsewhere
from sweeper.interruption import Interruption
from sweeper.messages import counted, inflected
from sweeper.packs import checkpoint
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.resources import Resources
from sweeper.space.sweep_spec import remarks
from sweeper.starts import on_cluster
from sweeper.starts.drawn_figures import figure_lines
from sweeper.starts.on_cluster import StartError
from sweeper.starts.output import Output
from sweeper.starts.planned_sweep import PlannedSweep, StartOptions, cost_of, planned_sweep
from sweeper.store import deletion
from sweeper.store.store import Status, Store, StoreError, SweepRecord
from sweeper.trial import plugins
from sweeper.trial.fingerprint import OtherCodeError
from sweeper.trial.jax_settings import SettingsError
from sweeper.trial.plugins import PluginError
from sweeper.trial.trial_spec import TrialSpec

if TYPE_CHECKING:
    from sweeper import launch


EAGER = 32
"""Packs whose programs may be compiled before there are workers."""

Launcher = Callable[[PlannedSweep, Interruption], "launch.Launched | None"]
"""Runs all packs of a sweep; returns how that ended.

None from a launcher that reports every problem as an exception.
"""


def start(options: StartOptions, interruption: Interruption) -> int:
    """Plan, run and report; returns the exit code.

    Raises:
        KeyboardInterrupt: a signal came while no pack was running, or a second one.
    """
    output = Output()
    # The driver plans and counts; only workers use accelerators.
    jax.config.update("jax_platforms", "cpu")
    try:
        with plugins.contained():
            spec = search_space.read(options.space, options.overrides)
        store = Store.open(options.results)
    except (SearchSpaceError, StoreError, PluginError) as error:
        output.complain(str(error))
        return 2
    try:
        with plugins.contained():
            return run(planned_sweep(options, spec, store, output), interruption)
    except (SearchSpaceError, SettingsError, PluginError, OtherCodeError) as error:
        output.complain(str(error))
        return 2
    except StoreError as error:
        output.complain(str(error))
        return 1
    except StartError as error:
        output.complain(str(error))
        return error.code


def run(sweep: PlannedSweep, interruption: Interruption, launcher: "Launcher | None" = None) -> int:
    """Run the pending trials, and print what came out; returns the exit code.

    Args:
        sweep: What to run.
        interruption: Signals that came.
        launcher: Runs the packs of the sweep; by default on a Ray cluster.

    Raises:
        StartError: there is no cluster that can run the packs.
        KeyboardInterrupt: the cluster died of the signal that this process got.
    """
    store, source, output, origin = sweep.store, sweep.source, sweep.output, sweep.origin
    for line in [
        *_changes(sweep.earlier, source.planned),
        *remarks(source.planned.values(), sweep.spec.search),
    ]:
        output.say(line)
    pending = sweep.pending
    output.say(state(sweep.settled, len(pending)))
    if sweep.options.dry_run:
        _refuse_what_does_not_fit(sweep)
        output.say(f"  cost: {cost_of(sweep)}")
        return 0

    _record(sweep)
    source.grown = lambda: _record(sweep)
    launched = None if source.exhausted else (launcher or _launched)(sweep, interruption)
    if interruption.signum is not None:
        committed = store.committed()
        left = sum(committed.get(key) not in source.done for key in source.planned)
        output.say(f"interrupted with {counted(left, 'trial')} to go; this command carries on:\n  {origin.command}")
        return 128 + interruption.signum
    if launched is None or not launched.losses:
        _remove_checkpoints(sweep)
    return _report(sweep, launched)


def _refuse_what_does_not_fit(sweep: PlannedSweep) -> None:
    """Refuse a pack that this machine cannot hold, if the start would use this machine as a local cluster.

    Raises:
        StartError: the pack will never fit.
    """
    resources = sweep.spec.resources
    if resources.bundles() == Resources().bundles():
        return  # any machine has one core, and Ray takes a second to import
    from sweeper import launch

    try:
        launch.refuse_too_large(sweep.options.address, resources)
    except launch.TooLarge as error:
        raise StartError(str(error), 2) from error


def _launched(sweep: PlannedSweep, interruption: Interruption) -> "launch.Launched":
    """Run all packs of the source on a cluster; errors are those of `on_cluster.launched`."""
    from sweeper import launch  # Ray takes seconds to import

    spec, options = sweep.spec, sweep.options
    job = launch.Job(
        source=sweep.source,
        planned=sweep.event,
        store=sweep.store,
        provenance=sweep.origin,
        resources=spec.resources,
        work_kind=launch.Training(),
        early_stopping=spec.search.early_stopping,
        concurrency=options.concurrency,
    )
    first_packs = [work.pack.part(work.pending) for work in sweep.source.upcoming()[:EAGER] if work.pending]
    return on_cluster.launched(job, options.address, sweep.output, interruption, first_packs)


def state(settled: Mapping[str, Status], pending: int) -> str:
    """How many planned trials are done, and how many are to run."""
    counts = collections.Counter(settled.values())
    parts = [
        f"{counts['finished']:,} done",
        *(f"{counts[key]:,} {key}" for key in ("stopped", "failed") if counts[key]),
    ]
    return "  " + " · ".join([*parts, f"{pending:,} to run"])


def _changes(earlier: Sequence[SweepRecord], planned: Mapping[str, TrialSpec]) -> list[str]:
    """How this start differs from the latest of the earlier ones, in sentences; nothing at the first start."""
    if not earlier:
        return []
    before, now = set(earlier[-1].trial_ids), set(planned)
    if before == now:
        return []
    counts = f"{len(now - before):,} added, {len(now & before):,} kept, {len(before - now):,} no longer planned"
    return [f"  since the last start: {counts}"]


def _record(sweep: PlannedSweep) -> None:
    """Write what is planned by now into the store."""
    record = SweepRecord(
        name=sweep.spec.name,
        text=sweep.spec.text,
        overrides=sweep.spec.overrides,
        trial_ids=tuple(sweep.source.planned),
        provenance=sweep.origin,
    )
    sweep.store.record_sweep(record)


def _remove_checkpoints(sweep: PlannedSweep) -> None:
    """Delete the checkpoints that no sweep needs, and say so where steps were trained in vain.

    These are checkpoints of trials that no latest start plans, and those that a worker left when it died after its last
    commit. What a failed trial has left stays, for a retry.
    """
    store, source = sweep.store, sweep.source
    with contextlib.suppress(StoreError):  # a checkpoint that stays does no harm
        if names := store.listing("checkpoints"):
            planned, statuses = deletion.planned_trials(store), store.committed()

            def needed(trial_id: str) -> bool:
                done = source.done - {"failed"} if trial_id in source.planned else {"finished"}
                return trial_id in planned and statuses.get(trial_id) not in done

            removed = checkpoint.remove_without(store, names, needed)
            vain = sum(not trial_ids or not statuses.keys() >= set(trial_ids) for trial_ids in removed)
            if vain:
                counts = f"{counted(vain, 'checkpoint')} {inflected(vain, 'was', 'were')} removed"
                sweep.output.say(f"{counts}: damaged, or of trials that no sweep plans any more")


def _report(sweep: PlannedSweep, launched: "launch.Launched | None") -> int:
    """Print the table, the figures and the failures; returns the exit code."""
    spec, store, source, output = sweep.spec, sweep.store, sweep.source, sweep.output
    rows = store.trials(source.planned)
    frame = rows.to_pandas()
    finished, stopped, failed = (frame[frame["status"] == status] for status in ("finished", "stopped", "failed"))
    elsewhere = finished_elsewhere(frame, spec, store)
    if len(frame):
        table, lines = ending(frame, spec, elsewhere, sweep.options.results, sweep.options.address)
        output.table(table)
        for line in lines:
            output.say(line)
    drawn = rows.filter(pa.array(~frame["trial_id"].isin(elsewhere)))
    for line in figure_lines(spec, store, drawn, sweep.origin):
        output.say(line)
    lost = [_lost(store, loss) for loss in launched.losses] if launched else []
    if source.held_up:
        reason = "has not come to its next rung, or waits for trials that have not"
        lost.append(events.TrialsLost("", source.held_up, reason))
    refused = launched is not None and launched.refused
    rows_that_count = frame[~frame["trial_id"].isin(source.held_up)]
    reasons = unfinished.unfinished(source.planned, rows_that_count, source.done - {"failed"}, lost, refused)
    for text in source.impossible:
        output.complain(f"a setting that cannot be trained was left out: {text}")
    planned = counted(len(source.planned), "trial")
    if not reasons:
        early = f", {len(stopped):,} of them stopped early" if len(stopped) else ""
        output.say(f"{len(finished) + len(stopped):,} of {planned} committed{early}")
        return 0
    verb = inflected(len(source.planned), "is", "are")
    output.complain(f"{sum(map(len, reasons.values())):,} of {planned} {verb} not finished:")
    for line in unfinished.lines(reasons):
        output.complain(f"  {line}")
    if len(failed):
        output.complain("  failed trials are run again with --retry-failed")
    return 1


def _lost(store: Store, loss: events.TrialsLost) -> events.TrialsLost:
    """The lost trials, with a single sentence for a full disk, even if several files were refused."""
    reason = re.sub(re.escape(store.root) + r"/[^\s:]+", f"files in {store.root}", loss.reason)
    return dataclasses.replace(loss, reason=reason)
