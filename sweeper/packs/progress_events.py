"""What listeners hear of packs: what a pack trains, in a few words, and its progress, lanes and commits, each once."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sweeper import events
from sweeper.events import Status, Stream
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work
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


class ProgressEvents:
    """Tells the progress of packs, and each choice of lanes and each commit once, however often it is reported."""

    def __init__(self, stream: Stream):
        self._stream = stream
        self._committed: set[str] = set()
        self._lane_reasons: dict[str, str] = {}
        self._arithmetics: dict[str, tuple[str, ...]] = {}

    def tell(self, progress: events.PackProgressed, trial_ids: Callable[[], tuple[str, ...]]) -> None:
        """Emit a report, and the choice of lanes, the change of arithmetic and the commits in it that are new.

        `trial_ids` gives the trials of the pack, and is only asked when one of the first two is new.
        """
        self._stream.emit(progress)
        reason = progress.lanes_reason
        if reason is not None and self._lane_reasons.get(progress.pack_id) != reason:
            self._lane_reasons[progress.pack_id] = reason
            self._stream.emit(events.LanesChosen(progress.pack_id, progress.lanes, trial_ids(), reason))
        if len(progress.arithmetics) > 1 and self._arithmetics.get(progress.pack_id) != progress.arithmetics:
            self._arithmetics[progress.pack_id] = progress.arithmetics
            self._stream.emit(events.ArithmeticChanged(progress.pack_id, trial_ids(), progress.arithmetics))
        self.tell_commits(progress.pack_id, progress.rows)

    def tell_commits(self, pack_id: str, rows: Mapping[str, Status]) -> None:
        """Emit those of the committed trials of a pack that no report has told before, with their status."""
        for trial_id, status in rows.items():
            if trial_id not in self._committed:
                self._committed.add(trial_id)
                self._stream.emit(events.TrialCommitted(pack_id, trial_id, status))
