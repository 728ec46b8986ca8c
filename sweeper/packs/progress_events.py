"""What listeners hear of packs: what a pack trains, in a few words, how far it is, and what becomes of it."""

import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from sweeper import events
from sweeper.events import Status, Stream
from sweeper.packs.failures import LOST_IN_A_ROW, Failed, Lost, reason
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work, WorkSource
from sweeper.store.store import Store, StoreError
from sweeper.trial.entry_names import LABEL, entries_of, named_values, varying
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial

MOST_ENTRIES = 5  # in a label, beside those that every label has

MOST_LINES = 20  # of what plug-ins have printed since the last report

MOST = 3
"""A label lists at most this many values. Of more numbers it has the smallest and the largest, of others the count."""


def distinguishing(trials: Iterable[Trial]) -> list[str]:
    """The first of the entries in which trials differ, by dotted path."""
    paths = varying([entries_of(canonical(trial)) for trial in trials])
    return [path for path in paths if path not in LABEL][:MOST_ENTRIES]


def label(pack: Pack, paths: Iterable[str]) -> str:
    """What is trained, and the values of the entries with these paths, such as "classification width=32 seed=0…4"."""
    trials = [entries_of(canonical(trial)) for trial in pack.trials]

    def text_of(path: str) -> str:
        return _values([trial[path] for trial in trials if path in trial])

    return " ".join(filter(None, [*map(text_of, LABEL), *named_values(paths, text_of)]))


def _values(values: Iterable[Any]) -> str:
    distinct = list({json.dumps(value): value for value in values}.values())
    if len(distinct) > MOST:
        numbers = [value for value in distinct if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) < len(distinct):
            return f"{len(distinct)} values"
        return f"{_text(min(numbers))}…{_text(max(numbers))}"
    return ",".join(map(_text, distinct))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def preparing(work: Work) -> events.PackProgressed:
    """The progress of a pack whose data and checkpoint are not there yet."""
    lanes = len(work.pending)
    return events.PackProgressed(
        work.pack.pack_id, "preparing", 0, work.until, lanes, {}, math.nan, steps_per_second=0.0
    )


def printed_lines(text: str) -> tuple[str, ...]:
    """The lines that plug-ins have printed; of many the last."""
    lines = [line[:500] for line in text.splitlines() if line.strip()]
    if (left_out := len(lines) - MOST_LINES) > 0:
        return f"… {left_out:,} lines, and then:", *lines[-MOST_LINES:]
    return tuple(lines)


def named(work: Work) -> tuple[str, ...]:
    """The trials to name; after a death that followed the last commit no trial is pending."""
    return work.pending or work.pack.trial_ids


class PackEvents:
    """Tells what becomes of packs, whoever runs them; each choice of lanes, refused checkpoint and commit once.

    It takes note of trials that could not be committed, and settles packs that have ended.
    """

    def __init__(self, stream: Stream, source: WorkSource, planned: Callable[[], events.SweepPlanned]):
        """For the packs of a source; `planned` makes the event that says how much it has planned by now."""
        self.losses: list[events.TrialsLost] = []
        self.refused = False  # whether nothing can be committed any more
        self._stream, self._source, self._planned = stream, source, planned
        self._known, self._labelled, self._varying = len(source.planned), 0, list[str]()
        self._lost_in_a_row = 0
        self._told = set[tuple[str, ...]]()

    def started(self, work: Work) -> None:
        planned = self._source.planned
        if len(planned) != self._labelled:
            self._labelled, self._varying = len(planned), distinguishing(planned.values())
        words, program = label(work.pack, self._varying), self._source.program(work.pack)
        self._stream.emit(events.PackStarted(work.pack.pack_id, words, work.pending, work.until, program))

    def progressed(self, work: Work, progress: events.PackProgressed) -> None:
        """A report, and the choice of lanes, the refusal of a checkpoint and the commits in it that are new."""
        self._stream.emit(progress)
        pack_id, trial_ids = progress.pack_id, work.pack.trial_ids
        if (why := progress.lanes_reason) is not None and self._is_news(pack_id, why):
            self._stream.emit(events.LanesChosen(pack_id, progress.lanes, trial_ids, why))
        if (why := progress.refused_checkpoint) is not None and self._is_news(pack_id, why):
            self._stream.emit(events.CheckpointRefused(pack_id, trial_ids, why))
        self.committed(pack_id, progress.rows)

    def committed(self, pack_id: str, rows: Mapping[str, Status]) -> None:
        """Those of the committed trials of a pack that no report has told before, with their status."""
        for trial_id, status in rows.items():
            if self._is_news("row", trial_id):
                self._stream.emit(events.TrialCommitted(pack_id, trial_id, status))

    def _is_news(self, *what: str) -> bool:
        before = len(self._told)
        self._told.add(what)
        return len(self._told) > before

    def done(self, work: Work, trouble: Failed | Lost | None = None, host: str = "") -> None:
        """A worker, on this host, has ended its work on a pack."""
        refused = isinstance(trouble, Lost) and trouble.of_store
        self._lost_in_a_row = self._lost_in_a_row + 1 if refused else 0
        self.refused |= self._lost_in_a_row >= LOST_IN_A_ROW
        match trouble:
            case Failed(trial_ids, text, log):
                self.committed(work.pack.pack_id, dict.fromkeys(trial_ids, "failed"))
                log = log and f"{host}: {log}"
                self._stream.emit(events.PackFailed(work.pack.pack_id, named(work), text, log))
            case Lost(text):
                self.lost(work, text)
            case None:
                pass

    def lost(self, work: Work, text: str) -> None:
        self.losses.append(events.TrialsLost(work.pack.pack_id, named(work), text))
        self._stream.emit(self.losses[-1])

    def ended(self, work: Work, whole: bool) -> None:
        """No worker has a pack any more; `whole` if one came to its end."""
        try:
            self._source.settle(work.pack.pack_id, whole)
        except (OSError, StoreError) as error:  # trials that no record names could be deleted while they run
            self.refused = True
            for each in self._source.upcoming():
                self.lost(each, f"the sweep's plan cannot be recorded: {reason(error)}")
        self._stream.emit(events.PackEnded(work.pack.pack_id))
        if len(self._source.planned) != self._known:
            self._known = len(self._source.planned)
            self._stream.emit(self._planned())

    def left(self, store: Store, asked: Collection[str], finished: Collection[str]) -> None:
        """What became of the packs that were asked to leave, by the checkpoints that the store has."""
        with contextlib.suppress(OSError, StoreError):
            saved = {PurePosixPath(name).stem for name in store.listing("checkpoints")}.intersection(asked)
            self._stream.emit(events.SweepStopped(len(asked), len(saved), len(set(finished) - saved)))
