"""One start of a sweep, from the YAML to the table of results.

A start plans, launches what is pending, and says what came out. What happens meanwhile is a stream of events
(`sweeper.events`), which `sweeper.listeners` shows.
"""

import collections
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jax
from pyarrow.fs import LocalFileSystem
from rich.console import Console

from sweeper import events, listeners
from sweeper.analysis import cost, unfinished
from sweeper.analysis.best_setting import ending
from sweeper.analysis.means import fitting
from sweeper.analysis.results import Results, finite_values
from sweeper.analysis.table import Table, terminal
from sweeper.interruption import Interruption
from sweeper.messages import counted, printable_lines
from sweeper.packs import checkpoint, other_code, plan, trial_timing
from sweeper.space import panel_checks, search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.remarks import remarks
from sweeper.space.resources import Resources
from sweeper.space.search import AdaptiveSearch
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status, Store, StoreError, SweepRecord
from sweeper.store.superseded import supersede
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

if TYPE_CHECKING:
    from sweeper import launch


@dataclasses.dataclass(frozen=True)
class Options:
    """The command line of `sweeper.run`."""

    space: Path
    results: str
    address: str | None
    dry_run: bool
    overrides: tuple[str, ...]
    retry_failed: bool
    recompute_other_code: bool
    concurrency: int | None
    argv: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Output:
    """Where a start prints.

    Attributes:
        out: What is asked for.
        complaints: What is wrong.
    """

    out: Console = dataclasses.field(default_factory=Console)
    complaints: Console = dataclasses.field(default_factory=lambda: Console(stderr=True))

    def say(self, text: str) -> None:
        """Print lines as they are, without what a terminal would obey; a terminal may break them, a log must not."""
        self.out.print(printable_lines(text), markup=False, highlight=False, soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table of settings: as much as fits a terminal, all of it into a log."""
        console = self.out if self.out.is_terminal else Console(file=self.out.file, width=10_000)
        console.print(terminal(fitting(table, console.width)))

    def complain(self, text: str) -> None:
        """The same, about what is wrong."""
        self.complaints.print(printable_lines(text), markup=False, highlight=False, soft_wrap=True)


class _StartError(Exception):
    """Ends a start; the message is for the user.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


def start(options: Options, interruption: Interruption) -> int:
    """Plan, run and report; returns the exit code.

    Raises:
        KeyboardInterrupt: a signal came while no pack was running, or a second one.
    """
    output = Output()
    # The driver plans and counts; accelerators are the workers'.
    jax.config.update("jax_platforms", "cpu")
    try:
        spec = search_space.read(options.space, options.overrides)
        panel_checks.check(spec)
        store = Store.open(options.results)
    except (SearchSpaceError, StoreError) as error:
        output.complain(str(error))
        return 2
    try:
        return _run(_planned(options, spec, store, output), interruption)
    except SearchSpaceError as error:
        output.complain(str(error))
        return 2
    except StoreError as error:
        output.complain(str(error))
        return 1
    except _StartError as error:
        output.complain(str(error))
        return error.code


@dataclasses.dataclass(frozen=True)
class _Start:
    """A start that has been planned.

    Attributes:
        options: The command line.
        spec: The search space.
        store: The results store.
        origin: What the rows of this start say of their origin.
        committed: Status of every trial in the store before the start, by id.
        source: Hands out what is to run.
        output: Where to print.
    """

    options: Options
    spec: SweepSpec
    store: Store
    origin: provenance.Provenance
    committed: Mapping[str, Status]
    source: plan.Source
    output: Output

    @property
    def settled(self) -> dict[str, Status]:
        """Status of the planned trials that had a row before the start."""
        return {key: self.committed[key] for key in self.source.planned if key in self.committed}

    @property
    def pending(self) -> list[str]:
        """Ids of the planned trials that are to run."""
        return [key for key in self.source.planned if self.committed.get(key) not in self.source.done]

    def planned(self) -> events.SweepPlanned:
        """How much there is to do, as far as the source has asked for it."""
        kept = collections.Counter(status for status in self.settled.values() if status in self.source.done)
        return events.SweepPlanned(
            name=self.spec.name,
            trials=len(self.source.planned),
            done=kept["finished"] + kept["stopped"],
            failed=kept["failed"],
            steps=self.source.steps,
        )


def _planned(options: Options, spec: SweepSpec, store: Store, output: Output) -> _Start:
    """The start, after a look at what is committed and by which code."""
    origin = provenance.capture(options.argv)
    assert origin.code is not None
    seals = store.committed_seals()
    committed: dict[str, Status] = {key: seal.status for key, seal in seals.items()}
    done = plan.done_statuses(spec.search.early_stopping is not None, options.retry_failed)
    source, sentence = _source(spec, store, committed, done)
    output.say(f"{spec.name}: {sentence}")
    counting = {key: seal for key, seal in seals.items() if seal.status in done}
    others = other_code.computed_by_other_code(source.planned, counting, origin.code)
    if others:
        output.say(f"  {other_code.sentence(store, others, seals, options.recompute_other_code)}")
    if others and options.recompute_other_code:
        if not options.dry_run:
            supersede(store, others)
        for key in others:
            del committed[key]
        source, _ = _source(spec, store, committed, done)
    return _Start(options, spec, store, origin, committed, source, output)


def _run(start: _Start, interruption: Interruption) -> int:
    """Run what is pending; returns the exit code."""
    store, source, output, origin = start.store, start.source, start.output, start.origin
    for line in [
        *_changes(store, start.spec.name, source.planned),
        *remarks(source.planned.values(), start.spec.search),
    ]:
        output.say(line)
    pending = start.pending
    output.say(_state(start.settled, len(pending)))
    if start.options.dry_run:
        _refuse_what_does_not_fit(start)
        output.say(f"  cost: {_cost(start)}")
        return 0

    _record(start)
    launched = None if source.exhausted else _launched(start, interruption)
    if interruption.signum is not None:
        committed = store.committed()
        left = sum(committed.get(key) not in source.done for key in source.planned)
        output.say(f"interrupted with {counted(left, 'trial')} to go; this command carries on:\n  {origin.command}")
        return 128 + interruption.signum
    if isinstance(start.spec.search, AdaptiveSearch):
        _record(start)  # only now its trials are known
    if launched is None or not launched.losses:
        checkpoint.sweep(store, source.finished)
    return _report(start, launched)


def _refuse_what_does_not_fit(start: _Start) -> None:
    """Refuse a pack that this machine cannot hold, if it is the machine that a start would use.

    Raises:
        _StartError: the pack will never fit.
    """
    resources = start.spec.resources
    if resources.bundles() == Resources().bundles():
        return  # any machine has one core, and Ray takes a second to import
    from sweeper import launch

    try:
        launch.refuse_too_large(start.options.address, resources)
    except launch.TooLarge as error:
        raise _StartError(str(error), 2) from error


def _cost(start: _Start) -> str:
    """What the pending trials cost; this machine's cores tell nothing of a GPU."""

    def timed(trial: TrialSpec) -> trial_timing.Timing:
        start.output.say(f"  timing some steps of {trial.task.name} {trial.baseline} m={trial.objective.m}")
        return trial_timing.timed(trial)

    pending = [start.source.planned[key] for key in start.pending]
    try:
        return cost.estimate(start.store, pending, None if start.spec.resources.gpus else timed)
    except Exception as error:  # whatever a task or a model raises; a start makes failed rows of it
        return f"unknown, as a trial cannot be timed: {type(error).__name__}: {error}"


def _launched(start: _Start, interruption: Interruption) -> "launch.Launched":
    """Run all packs of the source on a cluster.

    Raises:
        _StartError: there is no cluster that can run them.
    """
    from sweeper import launch  # Ray takes seconds to import

    spec, options = start.spec, start.options
    job = launch.Job(
        source=start.source,
        planned=start.planned,
        store=start.store,
        provenance=start.origin,
        resources=spec.resources,
        early_stopping=spec.search.early_stopping,
        concurrency=options.concurrency,
    )
    try:
        with (
            events.Stream(listeners.listeners(start.output.out), warn=start.output.complain) as stream,
            launch.connected(options.address, spec.resources, interruption) as address,
        ):
            stream.emit(start.planned())
            stream.emit(events.SweepStarted(address))
            return launch.launch(job, stream, interruption)
    except launch.LaunchError as error:
        raise _StartError(str(error), 2 if isinstance(error, launch.TooLarge) else 1) from error


def _source(
    spec: SweepSpec, store: Store, committed: Mapping[str, Status], done: frozenset[Status]
) -> tuple[plan.Source, str]:
    """What is to run, and a sentence about it."""
    if isinstance(spec.search, AdaptiveSearch):
        study = plan.Conversation(
            spec, committed, done, lambda trials: finite_values(store, trials, spec.search.metric)
        )
        searched = f"{spec.search.TITLE} of {counted(spec.search.trials or 0, 'setting')}"
        return study, f"{searched}, {counted(len(study.planned), 'trial')} so far"
    expansion = spec.expand()
    planned = plan.plan(expansion.trials, spec.resources.lanes, committed, done)
    counts = f"{counted(planned.cells, 'cell')} · {counted(planned.packs, 'pack')}"
    return plan.Listed(planned), f"{expansion.summary} · {counts}"


def _state(settled: Mapping[str, Status], pending: int) -> str:
    counts = collections.Counter(settled.values())
    parts = [
        f"{counts['finished']:,} done",
        *(f"{counts[key]:,} {key}" for key in ("stopped", "failed") if counts[key]),
    ]
    return "  " + " · ".join([*parts, f"{pending:,} to run"])


def _changes(store: Store, name: str, planned: Mapping[str, TrialSpec]) -> list[str]:
    """What is different from the latest start of this sweep, if there was one."""
    earlier = [record for record in store.sweeps() if record.name == name]
    if not earlier:
        return []
    before, now = set(earlier[-1].trial_ids), set(planned)
    if before == now:
        return []
    counts = f"{len(now - before):,} added, {len(now & before):,} kept, {len(before - now):,} no longer wanted"
    return [f"  since the last start: {counts}"]


def _record(start: _Start) -> None:
    record = SweepRecord(
        name=start.spec.name,
        text=start.spec.text,
        overrides=start.spec.overrides,
        trial_ids=tuple(start.source.planned),
        provenance=start.origin,
    )
    start.store.record_sweep(record)


def _report(start: _Start, launched: "launch.Launched | None") -> int:
    """Print the table, the figures and the failures; returns the exit code."""
    spec, store, source, output = start.spec, start.store, start.source, start.output
    frame = store.trials(source.planned).to_pandas()
    finished, stopped, failed = (frame[frame["status"] == status] for status in ("finished", "stopped", "failed"))
    if len(frame):
        table, lines = ending(frame, spec, start.options.results, start.options.address)
        output.table(table)
        for line in lines:
            output.say(line)
    for line in _figures(spec, store, source):
        output.say(line)
    lost = [_lost(store, loss) for loss in launched.losses] if launched else []
    refused = launched is not None and launched.refused
    reasons = unfinished.unfinished(source.planned, frame, source.done - {"failed"}, lost, refused)
    for text in source.impossible:
        output.complain(f"a setting that cannot be trained was left out: {text}")
    planned = counted(len(source.planned), "trial")
    if not reasons:
        early = f", {len(stopped):,} of them stopped early" if len(stopped) else ""
        output.say(f"{len(finished) + len(stopped):,} of {planned} committed{early}")
        return 0
    verb = "is" if len(source.planned) == 1 else "are"
    output.complain(f"{sum(map(len, reasons.values())):,} of {planned} {verb} not finished:")
    for line in unfinished.lines(reasons):
        output.complain(f"  {line}")
    if len(failed):
        output.complain("  failed trials are run again with --retry-failed")
    return 1


def _lost(store: Store, loss: "launch.Loss") -> unfinished.LostTrials:
    """The lost trials, with one sentence for a full disk, whichever files it refused."""
    reason = re.sub(re.escape(store.root) + r"/[^\s:]+", f"files in {store.root}", loss.reason)
    return unfinished.LostTrials(loss.trial_ids, reason)


def _figures(spec: SweepSpec, store: Store, source: plan.Source) -> list[str]:
    """Draw the panels that the space declares; returns lines with the files and with remarks."""
    if not spec.panels:
        return []
    from sweeper.analysis import figures

    local = isinstance(store.files.filesystem, LocalFileSystem)
    folder = Path(store.root) / "figures" if local else Path("figures").resolve()
    results = Results.of_store(store).only(source.planned)
    report = figures.draw(results, spec.panels, folder / spec.name)
    lines = [f"figure: {path}" for path in report.paths if path.suffix == ".png"]
    return lines + [f"  {', '.join(panels)}: {line}" for panels, line in figures.note_lines(report.notes)]
