"""From the reports of packs to events: progress as it comes, each choice of lanes and each commit once."""

from collections.abc import Callable, Mapping

from sweeper import events
from sweeper.events import Status, Stream


class ProgressEvents:
    """Remembers which commits and choices of lanes were emitted, so that each is emitted once."""

    def __init__(self, stream: Stream):
        """Nothing was emitted yet.

        Args:
            stream: Takes the events.
        """
        self._stream = stream
        self._committed: set[str] = set()
        self._lane_reasons: dict[str, str] = {}

    def tell(self, progress: events.PackProgressed, trial_ids: Callable[[], tuple[str, ...]]) -> None:
        """Emit a report, and the choice of lanes and the commits in it that are new.

        Args:
            progress: The report.
            trial_ids: Gives the trials of its pack; only asked when a choice of lanes is new.
        """
        self._stream.emit(progress)
        reason = progress.lanes_reason
        if reason is not None and self._lane_reasons.get(progress.pack_id) != reason:
            self._lane_reasons[progress.pack_id] = reason
            self._stream.emit(events.LanesChosen(progress.pack_id, progress.lanes, trial_ids(), reason))
        self.tell_commits(progress.pack_id, progress.rows)

    def tell_commits(self, pack_id: str, rows: Mapping[str, Status]) -> None:
        """Emit the commits that no report has told before.

        Args:
            pack_id: The pack.
            rows: Status of every committed trial of the pack, by id.
        """
        for trial_id, status in rows.items():
            if trial_id not in self._committed:
                self._committed.add(trial_id)
                self._stream.emit(events.TrialCommitted(pack_id, trial_id, status))
