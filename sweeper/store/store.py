"""The results store: one trial, one key, one commit, in parquet files that any tool can read.

    trials/task=<t>/baseline=<b>/<trial_id>.parquet      one row, which is the commit
    trials/task=<t>/baseline=<b>/compacted-<…>.parquet   the rows of many trials, written by `compaction`
    curves/…  outcomes/…                                 the same names below: training curves, one row per input
    networks/task=<t>/baseline=<b>/<trial_id>.safetensors  the weights of the network
    sweeps/<name>/                                       the planned trials, one record per start
    annotations/                                         notes and tags on sweeps and trials
    checkpoints/                                         of unfinished packs
    quarantine/                                          damaged files, set aside
    superseded/                                          rows that are computed again by other code, set aside

A trial's curves, outcomes and network are published before its row, and every reader starts from the rows: a trial
without a row is not committed, even if other files of it exist. A `finished` row is never replaced. A `stopped` row
gives way to a finished row only, a `failed` row to any other.

Every file is sealed (see `sealed_parquet`): its bytes alone show whether it is damaged. A trial with a damaged file is
set aside as a whole, with a warning, and is pending again; a damaged compacted file is set aside with all of its
trials. Curves, outcomes and networks that are simply missing were deleted to save room: their trial stays.

A row may be compacted, or moved back, while the store is read; no trial can slip through (see `committed_rows`).

The modules of this room: `files` with `local_files` and `object_files` are the operations on files, `schema` and `rows`
the tables, `sealed_parquet` the files that hold them, `committed_rows` and `details` find and read what is committed,
`publication` writes it. Reading only reports damage; this module, `upkeep` and `compaction` then have the damaged files
moved (`quarantine`).
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from sweeper.messages import redacted
from sweeper.store.addresses import open_files
from sweeper.store.committed_rows import ATTEMPTS, FEW, Entry, Reading, moved_too_often, read_entries
from sweeper.store.details import scanned_details
from sweeper.store.file_names import file_path
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.publication import publish, stands
from sweeper.store.quarantine import EvaluationDamage, set_aside, set_aside_evaluations
from sweeper.store.retries import Retries
from sweeper.store.rows import curves_table, outcomes_table, trial_table
from sweeper.store.schema import (
    CURVES,
    METRICS,
    OUTCOMES,
    SCHEMA_VERSION,
    TIMINGS,
    TRIALS,
    Detail,
    DetailTable,
    Status,
    TrialResult,
)
from sweeper.store.seal import Seal
from sweeper.store.sweep_records import SweepRecord, read_records, write_record
from sweeper.store.trials_table import trials_table
from sweeper.store.upkeep import inspected, remove_doubles, sound_entries
from sweeper.trial import trial_spec

__all__ = [
    "CURVES", "METRICS", "OUTCOMES", "SCHEMA_VERSION", "TIMINGS", "TRIALS",
    "Status", "Store", "StoreError", "SweepRecord", "TrialResult",
]  # fmt: skip

logger = logging.getLogger(__name__)


class Store:
    """A results folder or bucket. Cheap to make, to copy and to send to a worker; it holds no open file.

    Commits and the files of checkpoints are tried again while the store is in trouble. Lists and tables, for which a
    person waits, are not.
    """

    def __init__(self, files: DurableFiles, retries: Retries = Retries()) -> None:
        self._files = files
        self._retries = retries

    @classmethod
    def open(cls, url: str | Path, retries: Retries = Retries()) -> "Store":
        """The store at a local folder or a URL of an object store, such as `s3://bucket/results`.

        Nothing is read or made yet.

        Args:
            url: The address.
            retries: How long commits and checkpoints wait for a store in trouble.

        Raises:
            StoreError: the address makes no sense.
        """
        return cls(open_files(url), retries)

    @classmethod
    def existing(cls, url: str | Path) -> "Store":
        """The store at an address, for those who only want to read.

        Raises:
            StoreError: nothing is there, or the address makes no sense.
        """
        store = cls.open(url)
        if not store.exists():
            raise StoreError(f"there is no results store at {redacted(store.url)}: name another with --results")
        return store

    @property
    def url(self) -> str:
        """Absolute address, from which any process can open the store."""
        return self._files.url

    @property
    def files(self) -> DurableFiles:
        """The files below the store's root."""
        return self._files

    @property
    def root(self) -> str:
        """Path of the store inside the filesystem of `files`."""
        return self._files.root

    def __repr__(self) -> str:
        return f"Store({redacted(self.url)!r})"

    def exists(self) -> bool:
        """Whether there is anything at this address."""
        return self._files.exists()

    def commit(self, result: TrialResult) -> bool:
        """Publish a trial: its curves, outcomes and network, then its row, each atomically and durably.

        May be called again for the same trial, from any process, at any time.

        Returns:
            Whether the row was published; False if the trial's file already held a row that stands. (Compacted rows
            are not read: a compacted row that stands goes on counting beside the new file, which the next compaction
            removes.)

        Raises:
            StoreError: the store cannot be written. The trial is then not committed, and other trials are unharmed.
            ValueError: the network is too large to be kept.
        """
        return self._retries.until_done(lambda: self._commit(result))

    def _commit(self, result: TrialResult) -> bool:
        seal = dataclasses.replace(
            _bare_seal(result.trial, result.status), fingerprint=result.provenance.fingerprint(result.trial)
        )
        present = self._files.read(f"trials/{seal.name}")
        if present is not None and stands(present, result.status):
            return False
        tables: dict[DetailTable, pa.Table] = {"curves": curves_table(seal.trial_id, result.curves)}
        if result.outcomes is not None:
            outcomes = tables["outcomes"] = outcomes_table(seal.trial_id, result.outcomes)
            columns = tuple(name for name in outcomes.column_names if name not in OUTCOMES.names)
            seal = dataclasses.replace(seal, outcome_columns=columns)
        elif present is not None:
            self._files.delete(f"outcomes/{seal.name}")
        if result.network is None and present is not None:
            self._files.delete(file_path("networks", seal.name))
        return publish(self._files, seal, trial_table(seal.trial_id, result), tables, result.network)

    # ----------------------------------------------------------------------------------------------------------------
    # Read
    # ----------------------------------------------------------------------------------------------------------------

    def committed(self) -> dict[str, Status]:
        """Status of every committed trial, by id; `committed_seals` says how they are read."""
        return {trial_id: seal.status for trial_id, seal in self.committed_seals().items()}

    def committed_seals(self) -> dict[str, Seal]:
        """The seal of every committed row, by trial id.

        Reads every row, and lists the other files: they were published before their row, so a file that has been
        modified since, or has another size, is read too. Trials with a damaged file are set aside and left out; curves
        and outcomes that the row does not name are set aside when they are too old to wait for another row. On a local
        disk the leftovers of killed compactions beside compacted rows are removed.

        Raises:
            StoreError: the store cannot be read, or a newer version of this program wrote it.
        """
        self._files.remove_leftovers()
        reading = self._reading(None)
        remove_doubles(self._files, reading.doubles)
        return {entry.seal.trial_id: entry.seal for entry in sound_entries(self._files, reading.entries)}

    def entries(self, trial_ids: Iterable[str] | None = None) -> list[Entry]:
        """The best sealed row of all committed trials or of those listed; damaged files are set aside."""
        return self._reading(trial_ids).entries

    def _reading(self, trial_ids: Iterable[str] | None) -> Reading:
        reading = read_entries(self._files, trial_ids)
        set_aside(self._files, reading.damage)
        return reading

    def trials(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The rows of all committed trials, or of those listed, with the columns of `TRIALS`, sorted by trial id."""
        table, damage = trials_table(self.entries(trial_ids))
        set_aside(self._files, damage)
        return table

    def curves(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The training curves of all committed trials, or of those listed, with the columns of `CURVES`."""
        return self._read("curves", trial_ids)

    def outcomes(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """Per-input outcomes of all committed trials that kept them, or of those listed.

        The columns are those of `OUTCOMES` and every float32 column of any of the trials, null where a trial has none.
        A colouring trial has 181,440 rows: name the trials, or scan `dataset("outcomes")` with a filter.
        """
        return self._read("outcomes", trial_ids)

    def _read(self, kind: DetailTable, trial_ids: Iterable[str] | None) -> pa.Table:
        wanted = None if trial_ids is None else list(trial_ids)
        for _ in range(ATTEMPTS):
            # A file is damaged, or was compacted since the store was listed.
            with contextlib.suppress(pa.ArrowException, OSError):
                return self.dataset(kind, wanted).to_table()
            self.verify(kind, wanted)
        return self.dataset(kind, wanted).to_table()

    def dataset(self, kind: DetailTable, trial_ids: Iterable[str] | None = None) -> ds.Dataset:
        """The curves or outcomes of committed trials as a dataset: a scan reads only what it asks for.

        A filter on `trial_id`, `task` or `baseline` leaves out whole files without opening them.

        Raises:
            StoreError: the store cannot be read, or its rows moved during every attempt.
        """
        wanted = None if trial_ids is None else list(trial_ids)
        few = wanted is not None and len(wanted) <= FEW
        for _ in range(ATTEMPTS):
            scan = scanned_details(self._files, kind, self.entries(wanted), few)
            if scan is not None:  # otherwise a row has moved: another look at the store shows where it went
                # A file with another digest than its row names is of another run, or damaged.
                inspected(self._files, kind, scan.left_out)
                return scan.dataset
        raise moved_too_often()

    def verify(self, kind: Detail, trial_ids: Iterable[str] | None = None) -> list[str]:
        """Read the curves, outcomes or networks to the last byte; set aside every trial with a damaged file.

        Returns:
            Ids of the trials set aside, and of the trials in whose place lies a file of another run, which is left out.
        """
        inspection = inspected(self._files, kind, self.entries(trial_ids))
        for entry in inspection.foreign:
            path = file_path(kind, entry.detail(kind)[0])
            logger.warning("%r is of another run than its trial's row: left out", path)
        return inspection.damaged + [entry.seal.trial_id for entry in inspection.foreign]

    # ----------------------------------------------------------------------------------------------------------------
    # Sweeps, and files of other modules
    # ----------------------------------------------------------------------------------------------------------------

    def record_sweep(self, record: SweepRecord) -> None:
        """Add one start to the history of the sweep that the record names; the latest counts.

        Raises:
            StoreError: the name cannot be the name of a folder, or the store cannot be written.
        """
        self._retries.until_done(lambda: write_record(self._files, record))

    def sweeps(self) -> list[SweepRecord]:
        """Every start of every sweep, by name and then in order; records that cannot be read are left out loudly."""
        return read_records(self._files)

    def set_aside_evaluations(self, damages: Iterable[EvaluationDamage]) -> None:
        """Move damaged evaluations below `quarantine/`, with one warning each; their trials stay committed."""
        set_aside_evaluations(self._files, damages)

    def write_bytes(self, relative: str, data: bytes) -> None:
        """Publish a file below the root atomically and durably, replacing a file of the same name."""
        self._retries.until_done(lambda: self._files.write(relative, data))

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file below the root, None where there is none."""
        return self._retries.until_done(lambda: self._files.read(relative))

    def listing(self, folder: str) -> list[str]:
        """Names relative to the root of all files at any depth below a folder."""
        return list(self._files.listing(folder))

    def delete(self, relative: str) -> None:
        """Remove a file below the root, if it is there."""
        self._retries.until_done(lambda: self._files.delete(relative))


def _bare_seal(trial: trial_spec.TrialSpec, status: Status) -> Seal:
    """The seal of a row that names no curves and no outcomes."""
    return Seal("trials", SCHEMA_VERSION, trial_spec.trial_id(trial), trial.task.name, trial.baseline, status)
