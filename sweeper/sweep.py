"""One start of a sweep, from the YAML to the table of results.

All that is printed for people is composed here; what is done is done by `plan`, `launch` and the store.
"""

import collections
import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jax
from pyarrow.fs import LocalFileSystem
from rich.console import Console

from sweeper import live_view
from sweeper.analysis import cost
from sweeper.analysis.means import means
from sweeper.analysis.results import finite_values
from sweeper.analysis.table import terminal
from sweeper.interruption import Interruption
from sweeper.messages import counted
from sweeper.packs import checkpoint, plan
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.remarks import remarks
from sweeper.space.search import AdaptiveSearch
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status, Store, StoreError, SweepRecord
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

if TYPE_CHECKING:
    from sweeper import launch

MAX_REASONS = 20


@dataclasses.dataclass(frozen=True)
class Options:
    """The command line of `sweeper.run`."""

    space: Path
    results: str
    address: str | None
    dry_run: bool
    overrides: tuple[str, ...]
    retry_failed: bool
    concurrency: int | None
    argv: tuple[str, ...]


def start(options: Options, interruption: Interruption) -> int:
    """Plan, run and report; returns the exit code.

    Raises:
        KeyboardInterrupt: a signal came while no pack was running, or a second one.
    """
    out, complaints = Console(), Console(stderr=True)
    # The driver plans and counts; accelerators are the workers'.
    jax.config.update("jax_platforms", "cpu")
    try:
        spec = search_space.read(options.space, options.overrides)
        store = Store.open(options.results)
    except (SearchSpaceError, StoreError) as error:
        _say(complaints, str(error))
        return 2
    try:
        return _start(options, spec, store, interruption, out, complaints)
    except SearchSpaceError as error:
        _say(complaints, str(error))
        return 2
    except StoreError as error:
        _say(complaints, str(error))
        return 1


def _start(
    options: Options, spec: SweepSpec, store: Store, interruption: Interruption, out: Console, complaints: Console
) -> int:
    committed = store.committed()
    done = plan.done_statuses(spec.search.early_stopping is not None, options.retry_failed)
    source, sentence = _source(spec, store, committed, done)
    _say(out, f"{spec.name}: {sentence}")
    for line in [*_changes(store, spec.name, source.planned), *remarks(source.planned.values())]:
        _say(out, line)
    settled: dict[str, Status] = {key: committed[key] for key in source.planned if key in committed}
    pending = [key for key in source.planned if settled.get(key) not in done]
    _say(out, _state(settled, len(pending)))
    if options.dry_run:
        _say(out, f"  cost: {cost.estimate(store, [source.planned[key] for key in pending])}")
        return 0

    origin = provenance.capture(options.argv)
    _record(store, spec, source, origin)
    launched = None
    if not source.exhausted:
        from sweeper import launch

        kept = collections.Counter(status for status in settled.values() if status in done)
        board = live_view.Board(source, kept["finished"] + kept["stopped"], kept["failed"])
        try:
            with launch.connected(options.address, spec.resources, interruption) as found:
                _say(out, f"running on {'this machine' if found is None else f'the Ray cluster at {found}'}")
                with live_view.watch(board, out) as watcher:
                    launched = launch.launch(
                        source,
                        store,
                        origin,
                        spec.resources,
                        spec.search.early_stopping,
                        options.concurrency,
                        watcher,
                        interruption,
                    )
        except launch.LaunchError as error:
            _say(complaints, str(error))
            return 2 if isinstance(error, launch.TooLarge) else 1
    if interruption.signum is not None:
        committed = store.committed()
        left = sum(committed.get(key) not in done for key in source.planned)
        _say(out, f"interrupted with {counted(left, 'trial')} to go; this command carries on:\n  {origin.command}")
        return 128 + interruption.signum
    if isinstance(spec.search, AdaptiveSearch):
        _record(store, spec, source, origin)  # only now its trials are known
    if launched is None or not launched.losses:
        checkpoint.sweep(store, source.finished)
    return _report(spec, store, source, launched, out, complaints)


def _say(console: Console, text: str) -> None:
    """Print a line as it is; a terminal may break it, a log must not."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _source(
    spec: SweepSpec, store: Store, committed: Mapping[str, Status], done: frozenset[Status]
) -> tuple[plan.Source, str]:
    """What is to run, and a sentence about it."""
    if isinstance(spec.search, AdaptiveSearch):
        study = plan.Conversation(
            spec, committed, done, lambda trials: finite_values(store, trials, spec.search.metric)
        )
        searched = f"an Optuna search of {counted(spec.search.trials or 0, 'setting')}"
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


def _record(store: Store, spec: SweepSpec, source: plan.Source, origin: provenance.Provenance) -> None:
    record = SweepRecord(
        name=spec.name,
        text=spec.text,
        overrides=spec.overrides,
        trial_ids=tuple(source.planned),
        provenance=origin,
    )
    store.record_sweep(record)


def _report(
    spec: SweepSpec,
    store: Store,
    source: plan.Source,
    launched: "launch.Launched | None",
    out: Console,
    complaints: Console,
) -> int:
    """Prints the table, the figures and the failures; returns the exit code."""
    frame = store.trials(source.planned).to_pandas()
    finished, stopped, failed = (frame[frame["status"] == status] for status in ("finished", "stopped", "failed"))
    if len(finished) or len(stopped):
        out.print(terminal(means(frame)))
    for line in _figures(spec, store, source):
        _say(out, line)
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in failed.to_dict("records"):
        reasons[f"{row['error_kind']}: {row['error_message']}"].append(row["trial_id"])
    told = set(failed["trial_id"]) | set(finished["trial_id"])
    if spec.search.early_stopping is not None:
        told |= set(stopped["trial_id"])
    for loss in launched.losses if launched else ():
        # One sentence for a full disk, whichever files it refused.
        text = re.sub(re.escape(store.root) + r"/[^\s:]+", f"files in {store.root}", loss.reason)
        reasons[text] += [key for key in loss.trial_ids if key not in told]
        told.update(loss.trial_ids)
    unfinished = [key for key in stopped["trial_id"] if key not in told]
    if unfinished:
        reasons["stopped early by another sweep, and not run to the end"] += unfinished
        told.update(unfinished)
    missing = [key for key in source.planned if key not in told]
    if missing and launched and launched.refused:
        reasons["not run, as nothing could be committed any more"] += missing
    elif missing:
        reasons["no row, although its worker reported the end"] += missing
    for text in source.impossible:
        _say(complaints, f"a setting that cannot be trained was left out: {text}")
    count = sum(map(len, reasons.values()))
    if not count:
        ending = f", {len(stopped):,} of them stopped early" if len(stopped) else ""
        _say(out, f"{len(finished) + len(stopped):,} of {len(source.planned):,} trials committed{ending}")
        return 0
    _say(complaints, f"{count:,} of {len(source.planned):,} trials are not finished:")
    for text, keys in sorted(reasons.items(), key=lambda item: -len(item[1]))[:MAX_REASONS]:
        if keys:
            others = f" and {len(keys) - 1:,} more" if len(keys) > 1 else ""
            _say(complaints, f"  {len(keys):,} x {text} (trial {keys[0]}{others})")
    if len(failed):
        _say(complaints, "  failed trials are run again with --retry-failed")
    return 1


def _figures(spec: SweepSpec, store: Store, source: plan.Source) -> list[str]:
    """Draws the panels that the space declares; returns what there is to say about them."""
    if not spec.panels:
        return []
    from sweeper.analysis import figures

    folder = (
        Path(store.root) / "figures" if isinstance(store.filesystem, LocalFileSystem) else Path("figures").resolve()
    )
    results = figures.Results.of_store(store).only(source.planned)
    report = figures.draw(results, spec.panels, folder)
    lines = [f"figure: {path}" for path in report.paths if path.suffix == ".png"]
    return lines + [f"  {note.panel}: {note.series}: {note.text}" for note in report.notes]
