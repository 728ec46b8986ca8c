"""The status of a few trials by their own files, without a list of the store: for a driver whose worker has died."""

from collections.abc import Iterable

from sweeper.store.file_names import file_name
from sweeper.store.publication import stands
from sweeper.store.schema import Status
from sweeper.store.sealed_parquet import unsealed
from sweeper.store.store import Store
from sweeper.store.threads import in_threads
from sweeper.trial.trial_spec import TrialSpec, trial_id


def statuses_of(store: Store, trials: Iterable[TrialSpec]) -> dict[str, Status]:
    """Status, by trial id, of the trials whose own file holds a row that is not failed.

    Compacted rows are not read: their trials are left out.

    Raises:
        StoreError: the store cannot be read.
    """

    def standing(trial: TrialSpec) -> tuple[str, Status] | None:
        key = trial_id(trial)
        data = store.read_bytes(f"trials/{file_name(trial.task.name, trial.baseline, key)}")
        if data is None or not stands(data, "failed"):
            return None
        return key, unsealed(data, "trials").status

    return dict(row for row in in_threads(standing, list(trials)) if row is not None)
