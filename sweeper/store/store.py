"""The results store: one trial, one parquet file, one rename, in a folder that any tool can read.

    trials/task=<t>/baseline=<b>/<trial_id>.parquet   a trial: its row, curves, outcomes and network
    evaluations/…/<trial_id>-<protocol>.parquet       an evaluation of its network by another protocol
    snapshots/trials.parquet                          a copy of all rows and curves, to be read fast
    sweeps/<name>/                                    the starts of a sweep, and the trials that they planned
    annotations/                                      notes and tags on sweeps and trials
    checkpoints/                                      of unfinished packs
    quarantine/                                       damaged files, set aside
    superseded/                                       trials that are computed again, set aside

A file never moves while it counts and never changes its meaning. A `finished` trial is never replaced. A `stopped` one
gives way to a finished one and to one that was trained longer, a `failed` one to any other.

Every file says in its footer what it is (`seal`), and its pages have checksums: a reader of any part notices damage to
that part. A damaged file of a trial is set aside with a warning, and the trial is pending again.

The modules of this room: `files` with `local_files` and `object_files` are the operations on files, `schema` their
names and columns, `trial_file` the file of a trial, `committed_trials` and `snapshots` read many of them.
"""

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sweeper.events import Status
from sweeper.messages import redacted
from sweeper.store import committed_trials, trial_file
from sweeper.store.files import DurableFiles, StoreError, in_threads
from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles
from sweeper.store.schema import (
    CURVES,
    NETWORK_COLUMN,
    OUTCOMES,
    OUTCOMES_COLUMN,
    PARTITION,
    SCHEMA_VERSION,
    TRIALS,
    trial_file_name,
)
from sweeper.store.seal import DamagedError, TrialSeal, seal_of, unsealed
from sweeper.store.sweep_records import SweepRecord, latest_starts, read_records, write_record
from sweeper.store.trial_file import TrialResult, network_weights
from sweeper.trial.trial import Trial, trial_id

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "CURVES", "OUTCOMES", "SCHEMA_VERSION", "TRIALS",
    "NoNetworkError", "Status", "Store", "StoreError", "SweepRecord", "TrialResult",
]  # fmt: skip

logger = logging.getLogger(__name__)


class NoNetworkError(StoreError):
    """A trial without a network in the store; the message ends a sentence that begins with its id."""


class Store:
    """A results folder or bucket. Cheap to make, to copy and to send to a worker; it holds no open file."""

    def __init__(self, files: DurableFiles) -> None:
        self._files = files

    @classmethod
    def open(cls, url: str | Path) -> "Store":
        """The store at a local folder or a URL such as `s3://bucket/results`; nothing is read or made yet."""
        local = _local_path(url)
        return cls(ObjectFiles.at(str(url)) if local is None else LocalFiles.at(local))

    @classmethod
    def existing(cls, url: str | Path) -> "Store":
        """The store at an address, for those who only want to read: a `StoreError` if nothing is there."""
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
        return self._files

    @property
    def root(self) -> str:
        """Where the store is, in words; on a disk the folder."""
        return self._files.root

    def __repr__(self) -> str:
        return f"Store({redacted(self.url)!r})"

    def exists(self) -> bool:
        return self._files.exists()

    # Write

    def commit(self, result: TrialResult) -> bool:
        """Publish a trial with its curves, outcomes and network, or an evaluation, as one file, atomically and durably.

        May be called again for the same trial, from any process, at any time. Returns whether the file was published;
        False if there is one that stands. A network that is too large, or could not be read back, is a `ValueError`.
        """
        seal, data = trial_file.trial_file(result)
        return self.publish(seal, data)

    def publish(self, seal: TrialSeal, data: bytes) -> bool:
        """Write a file, unless there is one that stands; see `commit`."""
        return self._files.write(seal.name, data, keep=lambda present: _stands(present, seal))

    def supersede(self, trial_ids: Iterable[str]) -> None:
        """Move trials below `superseded/<fingerprint>/`, so that they are pending again.

        A trial that was superseded before under the same fingerprint is kept as well, under a name with random digits.
        """
        for seal in self.seals(trial_ids).values():
            self._files.move(seal.name, f"superseded/{seal.fingerprint}/{seal.name}")

    def compact(self) -> int:
        """Replace the snapshot by one of all trials; returns how many of them it lacked."""
        return committed_trials.compact(self._files)

    # Read

    def _read(self, columns: Sequence[str], trial_ids: Iterable[str] | None = None) -> pa.Table:
        return committed_trials.read(self._files, columns, trial_ids)

    def committed(self) -> dict[str, Status]:
        """Status of every committed trial by id."""
        rows = self._read(["trial_id", "status"])
        return dict(zip(rows["trial_id"].to_pylist(), rows["status"].to_pylist(), strict=True))

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of `TRIALS` of all committed trials, which costs less than all columns."""
        return self._read(names)

    def seals_of(self, trials: Iterable[Trial]) -> dict[str, TrialSeal]:
        """The seals of those of the trials that are committed, by id, from their files alone."""
        names = [trial_file_name(*trial.folder, trial_id(trial)) for trial in trials]
        return _seals(committed_trials.rows_in(self._files, names, ["trial_id", "seal"]))

    def seals(self, trial_ids: Iterable[str] | None = None) -> dict[str, TrialSeal]:
        """The seals of all committed trials, or of those listed, by id."""
        return _seals(self._read(["trial_id", "seal"], trial_ids))

    def trials(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The rows of all committed trials, or of those listed, with the columns of `TRIALS`, sorted by trial id."""
        return self._read(TRIALS.names, trial_ids)

    def curves(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The training curves of all committed trials, or of those listed, with the columns of `CURVES`."""
        return trial_file.points(self._read(["trial_id", *PARTITION.names, "curves"], trial_ids))

    def evaluations(self, seals: Mapping[str, TrialSeal]) -> list[tuple[TrialSeal, pa.Table]]:
        """Seals and rows of the evaluations of networks, by the seals of their trials.

        If a trial has been trained again, evaluations of its old network are left out. The rows have the columns of
        `schema.EVALUATION_FILE`.
        """
        return committed_trials.evaluations(self._files, seals)

    def has(self, seal: TrialSeal) -> bool:
        """Whether there is a sound file with this very seal."""
        found = committed_trials.row_in(self._files, seal.name, seal.schema.names)
        return found is not None and found[0] == seal

    def outcomes(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """Per-input outcomes of all committed trials that kept them, or of those listed.

        The columns are those of `OUTCOMES` and every outcome of any of the trials, null where a trial has none.
        A trial may have hundreds of thousands of rows: name the trials.
        """
        seals = [seal for seal in self.seals(trial_ids).values() if seal.outcomes]
        tables = [OUTCOMES.empty_table(), *in_threads(self._outcomes, seals)]
        return pa.concat_tables([table for table in tables if table is not None], promote_options="default")

    def _outcomes(self, seal: TrialSeal) -> pa.Table | None:
        found = committed_trials.row_in(self._files, seal.name, [OUTCOMES_COLUMN.name])
        values = {} if found is None else trial_file.outcome_values(found[1])
        if not values:
            return None
        count = len(next(iter(values.values())))
        whose = [pa.repeat(text, count) for text in (seal.trial_id, seal.task, seal.baseline)]
        columns = dict(zip(OUTCOMES.names, [*whose, pa.array(np.arange(count), pa.int32())], strict=True))
        return pa.table(columns | values)

    def outcomes_dataset(self) -> "tuple[ds.Dataset, list[str]]":
        """The outcomes of all trials as they are stored, to be scanned in place, and their names.

        The columns are `trial_id`, `task`, `baseline` and the map `outcomes`, one row a trial. A filter on the first
        three leaves out whole files without opening them. Pages are checked as they are read.
        """
        import pyarrow.dataset as ds  # imports pandas, which takes a quarter of a second

        schema = pa.schema([("trial_id", pa.string()), *PARTITION, OUTCOMES_COLUMN])
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = ds.ParquetFileFormat(default_fragment_scan_options=options)
        fragments, names, filesystem = [], dict[str, None](), self._files.filesystem
        for seal in self.seals().values():
            if seal.outcomes:
                partition = (pc.field("task") == seal.task) & (pc.field("baseline") == seal.baseline)
                within = partition & (pc.field("trial_id") == seal.trial_id)
                fragments.append(form.make_fragment(f"{self._files.root}/{seal.name}", filesystem, within))
                names |= dict.fromkeys(seal.outcomes)
        return ds.FileSystemDataset(fragments, schema, form, filesystem), list(names)

    def network(self, seal: TrialSeal) -> bytes:
        """The network of a committed trial as a safetensors file; a `NoNetworkError` if there is no sound one."""
        if (why := seal.without_network) is not None:
            raise NoNetworkError(why)
        found = committed_trials.row_in(self._files, seal.name, [NETWORK_COLUMN.name])
        if found is None or found[0].network != seal.network:
            raise NoNetworkError("has no network any more: its file is damaged, or was replaced")
        return found[1][NETWORK_COLUMN.name][0].as_py()

    def weights(self, seal: TrialSeal) -> dict[str, np.ndarray]:
        """The weights of a committed trial's network by name, which can only be read; raises as `network` does."""
        return network_weights(self.network(seal))

    def verify(self) -> list[str]:
        """Read all columns of all trials; the ids of those that are damaged, and now set aside."""
        return committed_trials.verify(self._files)

    # Sweeps, and files of other modules

    def record_sweep(self, record: SweepRecord) -> None:
        """Add one start to the history of the sweep that the record names; the latest counts."""
        write_record(self._files, record)

    def sweeps(self) -> list[SweepRecord]:
        """Every start of every sweep, by name and then in order; records that cannot be read are left out loudly."""
        return read_records(self._files)

    def latest_starts(self, names: Collection[str] = ()) -> dict[str, SweepRecord]:
        """The latest start of each of these sweeps, which must be there, or of every sweep, by name."""
        return latest_starts(self._files, names)

    def write_bytes(self, relative: str, data: bytes) -> None:
        """Publish a file below the root atomically and durably, replacing a file of the same name."""
        self._files.write(relative, data)

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file below the root, None where there is none."""
        return self._files.read(relative)

    def listing(self, folder: str) -> list[str]:
        """Names relative to the root of all files at any depth below a folder."""
        return list(self._files.listing(folder))

    def delete(self, relative: str) -> None:
        self._files.delete(relative)


def _seals(rows: pa.Table) -> dict[str, TrialSeal]:
    return dict(zip(rows["trial_id"].to_pylist(), map(seal_of, rows["seal"].to_pylist()), strict=True))


def _local_path(url: str | Path) -> str | None:
    """The path on this machine that an address means; None for an object store."""
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        return None
    path = url2pathname(urlsplit(text).path) if text.startswith("file://") else text
    if not path.strip():
        raise StoreError("the results store has an empty name (a variable that is not set?): name a folder or a URL")
    return os.path.expanduser(path)


def _stands(present: bytes | None, new: TrialSeal) -> bool:
    """Whether a file of a trial that is already there stays when another arrives."""
    if present is None:
        return False
    try:
        old, _ = unsealed(pa.BufferReader(present), TrialSeal, new.name)
    except DamagedError:
        return False
    return stands(old, new)


def stands(old: TrialSeal, new: TrialSeal) -> bool:
    """Whether a committed trial stays when another result of the same trial arrives. An evaluation never stays.

    The better status stays, of two that finished the first. A stopped one gives way to one that was trained longer,
    even if that failed in the end: else a sweep that needs the later steps would train them at every start. A failure
    is replaced by whatever comes later.
    """
    if new.protocol is not None:
        return False
    if old.status == "stopped" and new.status != "finished":
        return old.steps >= new.steps
    return old.status == "finished"
