"""The results store: one trial, one key, one commit, in parquet files that any tool can read.

    trials/task=<t>/baseline=<b>/<trial_id>.parquet      one row: what was trained and what came out; it is the commit
    curves/…  outcomes/…                                 the same names below: training curves, one row per input
    sweeps/<name>/                                       what was planned, one record per start
    checkpoints/                                         of unfinished packs
    quarantine/                                          damaged files, set aside

A trial's curves and outcomes are published before its row, and every reader starts from the rows: without a row there
is no trial, whatever else lies in the folder. A row that says `finished` is never replaced. A `stopped` one gives way
to a finished one only, a `failed` one to any other.

Every parquet file is sealed. Its footer carries, under the key `sweeper`, a little JSON that names the trial, its
status and the sizes of the files that belong to it, and the digest of the whole file with the digest's own place
zeroed. So a truncated, emptied or altered file is told from a whole one by its bytes alone, and a resuming sweep reads
ten thousand statuses without decoding one table. Pages carry checksums too, for readers who take only some columns.
A trial with a damaged file is set aside as a whole, with a warning, and is pending again. Curves and outcomes that are
simply missing were deleted to save room: their trial stays.

All readers find files through `Store._entries`, where compacted files will join in.
"""

import dataclasses
import datetime
import hashlib
import json
import logging
import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pydantic import BaseModel, ConfigDict

from sweeper import spec
from sweeper.durable_files import DurableFiles, StoreError, open_files, redacted
from sweeper.provenance import Provenance

__all__ = [
    "CURVES", "METRICS", "OUTCOMES", "SCHEMA_VERSION", "TIMINGS", "TRIALS",
    "Status", "Store", "StoreError", "SweepRecord", "TrialResult",
]  # fmt: skip

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
"""Grows when a column changes its meaning or goes away; a new column that may be null needs no new version."""

Status = Literal["finished", "failed", "stopped"]
Detail = Literal["curves", "outcomes"]
Kind = Literal["trials", Detail]

METRICS = (
    "success", "success_p5", "success_worst5", "failed_inputs", "sampled", "sampled_p5", "majority_5", "majority_5_p5",
    "majority_30", "majority_30_p5", "any_seed", "any_seed_p5", "loss", "loss_p95", "variance", "train_loss",
)  # fmt: skip
"""Metrics with a column of their own; any other metric is kept in `extra_metrics`."""

TIMINGS = {
    "steps_done": pa.int64(), "wall_seconds": pa.float64(), "compile_seconds": pa.float64(),
    "train_seconds": pa.float64(), "evaluation_seconds": pa.float64(), "cpu_seconds": pa.float64(),
    "steps_per_second": pa.float64(), "peak_memory_bytes": pa.int64(),
}  # fmt: skip
"""What was done for a trial and what it cost, with the types of the columns."""

_TIME = pa.timestamp("us", tz="UTC")
_PARTITION = pa.schema([("task", pa.string()), ("baseline", pa.string())])

TRIALS = pa.schema([
    ("trial_id", pa.string()), ("status", pa.string()), *_PARTITION,
    ("model", pa.string()), ("q", pa.float64()), ("m", pa.int64()), ("seed", pa.int64()), ("steps", pa.int64()),
    ("batch_size", pa.int64()), ("optimizer", pa.string()), ("learning_rate", pa.float64()), ("spec", pa.string()),
    *((name, pa.float64()) for name in METRICS), ("extra_metrics", pa.string()),
    *TIMINGS.items(),
    ("error_kind", pa.string()), ("error_message", pa.string()), ("error_step", pa.int64()),
    ("pack_id", pa.string()), ("lanes", pa.int64()), ("device", pa.string()),
    ("commit", pa.string()), ("dirty", pa.bool_()), ("lock_hash", pa.string()), ("versions", pa.string()),
    ("command", pa.string()), ("started", _TIME), ("finished", _TIME), ("schema_version", pa.int64()),
])  # fmt: skip
"""Columns of `trials`, one row a trial. `task` and `baseline` are in the folder's name, not in the file."""

CURVES = pa.schema([
    ("trial_id", pa.string()), *_PARTITION, ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64()),
])  # fmt: skip
"""Columns of `curves`, one row per trial, step and metric."""

OUTCOMES = pa.schema([("trial_id", pa.string()), *_PARTITION, ("input", pa.int32())])
"""Columns that every `outcomes` file has, one row per trial and input; the float32 columns depend on the task."""

_SCHEMAS: dict[Kind, pa.Schema] = {"trials": TRIALS, "curves": CURVES, "outcomes": OUTCOMES}
_IN_FILE = {
    kind: pa.schema([field for field in schema if field.name not in _PARTITION.names])
    for kind, schema in _SCHEMAS.items()
}


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """What a worker commits.

    Attributes:
        trial: What was trained.
        status: `finished`, `stopped` (early, but evaluated), or `failed`.
        metrics: Value by name; those of `METRICS` get a column.
        curves: Step, metric and value of every point.
        outcomes: Per evaluation input: an `input` column of integers, and columns of floats between which only single
            precision matters. None if they are not kept.
        timings: Value by name, some or all of `TIMINGS`.
        error: For a failed trial: its `kind`, `message` and `step` (None if it failed outside of training).
        provenance: Where the result comes from.
        pack_id: The pack it was trained in.
        lanes: Number of trials in that pack.
        device: What it was trained on, such as "cpu" or "NVIDIA H100".
        started: When the work on it began, with a time zone.
        finished: When it ended.
    """

    trial: spec.TrialSpec
    status: Status
    metrics: Mapping[str, float]
    curves: Sequence[tuple[int, str, float]]
    outcomes: pa.Table | None
    timings: Mapping[str, float]
    error: Mapping[str, Any] | None
    provenance: Provenance
    pack_id: str
    lanes: int
    device: str
    started: datetime.datetime
    finished: datetime.datetime

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.timings) - set(TIMINGS)):
            raise ValueError(f"unknown timings {unknown}; known are {', '.join(TIMINGS)}")
        if (self.status == "failed") != (self.error is not None):
            raise ValueError(f"a trial has an error if and only if it failed, not {self.status} with {self.error}")


class SweepRecord(BaseModel):
    """One start of a sweep.

    Attributes:
        name: Name of the sweep: letters, digits, `_`, `-` and `.`.
        text: The search space as it was read.
        overrides: Entries replaced on the command line.
        trial_ids: All trials it asks for, done or not.
        provenance: Commit, command and time of the start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    text: str
    overrides: tuple[str, ...]
    trial_ids: tuple[str, ...]
    provenance: Provenance


class Seal(NamedTuple):
    """What the footer of a sealed file says about its trial.

    The sizes are those of the trial's other files when its row was made, and None in those files themselves. A
    rewritten file of another size is as good as long as its own seal holds.
    """

    kind: Kind
    schema_version: int
    trial_id: str
    task: str
    baseline: str
    status: Status
    curves_bytes: int | None
    outcomes_bytes: int | None
    outcome_columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The trial's file below `trials`, `curves` or `outcomes`."""
        return f"task={self.task}/baseline={self.baseline}/{self.trial_id}.parquet"


class DamagedError(Exception):
    """A file that is not what its writer wrote; the message says in which way."""


class Store:
    """A results folder or bucket. Cheap to make, to copy and to send to a worker; it holds no open file."""

    def __init__(self, files: DurableFiles) -> None:
        self._files = files

    @classmethod
    def open(cls, url: str | Path) -> "Store":
        """The store at a local folder or a URL of an object store, such as `s3://bucket/results`.

        Nothing is read or made yet.

        Raises:
            StoreError: the address makes no sense.
        """
        return cls(open_files(url))

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
    def filesystem(self) -> fs.FileSystem:
        return self._files.filesystem

    @property
    def root(self) -> str:
        """Path of the store inside `filesystem`."""
        return self._files.root

    def __repr__(self) -> str:
        return f"Store({redacted(self.url)!r})"

    def exists(self) -> bool:
        """Whether there is anything at this address."""
        return self._files.exists()

    # ----------------------------------------------------------------------------------------------------------------
    # Commit
    # ----------------------------------------------------------------------------------------------------------------

    def commit(self, result: TrialResult) -> bool:
        """Publish a trial: its curves and outcomes, then its row, each atomically and durably.

        May be called again for the same trial, from any process, at any time.

        Returns:
            Whether the row was published; False if the store already held one that stands.

        Raises:
            StoreError: the store cannot be written. The trial is then not committed, and no committed one has suffered.
        """
        seal = Seal(
            "trials", SCHEMA_VERSION, spec.trial_id(result.trial), result.trial.task.name, result.trial.baseline,
            result.status, None, None, (),
        )  # fmt: skip
        present = self._files.read(f"trials/{seal.name}")
        if present is not None and _stands(present, result.status):
            return False
        curves = _sealed(_curves_table(seal.trial_id, result.curves), seal._replace(kind="curves"))
        self._files.write(f"curves/{seal.name}", curves)
        outcomes = b""
        if result.outcomes is not None:
            table = _outcomes_table(seal.trial_id, result.outcomes)
            names = tuple(name for name in table.column_names if name not in OUTCOMES.names)
            outcomes = _sealed(table, seal._replace(kind="outcomes", outcome_columns=names))
            self._files.write(f"outcomes/{seal.name}", outcomes)
            seal = seal._replace(outcome_columns=names)
        elif present is not None:
            self._files.delete(f"outcomes/{seal.name}")
        seal = seal._replace(curves_bytes=len(curves), outcomes_bytes=len(outcomes) or None)
        row = _sealed(_trial_table(seal.trial_id, result), seal)
        return self._files.write(f"trials/{seal.name}", row, keep=lambda data: _stands(data, result.status))

    # ----------------------------------------------------------------------------------------------------------------
    # Read
    # ----------------------------------------------------------------------------------------------------------------

    def committed(self) -> dict[str, Status]:
        """Status of every committed trial, by id.

        Reads every row, and lists the other files: they were published before their row, so one that has been modified
        since, or has another size, is read too. Trials with a damaged file are set aside and left out.

        Raises:
            StoreError: the store cannot be read, or a newer version of this program wrote it.
        """
        self._files.remove_leftovers()
        entries = {entry.seal.trial_id: entry for entry in self._entries()}
        for kind in get_args(Detail):
            states = self._files.listing(kind)
            suspects = []
            for seal, _, modified in entries.values():
                state = states.get(f"{kind}/{seal.name}")
                if state is not None and (state.size != _expected(seal, kind) or state.modified > modified):
                    suspects.append(seal)
            for trial_id in self._set_aside_damaged(kind, suspects):
                del entries[trial_id]
        return {trial_id: entry.seal.status for trial_id, entry in entries.items()}

    def trials(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The rows of all committed trials, or of those listed, with the columns of `TRIALS`, sorted by trial id."""
        entries = self._entries(trial_ids)
        rows = [
            (entry.seal, row)
            for entry, row in zip(entries, _in_threads(self._row, entries), strict=True)
            if row is not None
        ]
        # Rows of an older program lack the newest columns.
        tables = [_IN_FILE["trials"].empty_table(), *(row for _, row in rows)]
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        for name in _PARTITION.names:
            table = table.append_column(name, pa.array([getattr(seal, name) for seal, _ in rows], pa.string()))
        return table.select(TRIALS.names).sort_by("trial_id")

    def _row(self, entry: "_Entry") -> pa.Table | None:
        """The one row of an entry, whose columns are among those of `TRIALS`; None if it has to be set aside."""
        try:
            row = pq.ParquetFile(pa.BufferReader(entry.data)).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            self._set_aside(entry.seal.name, "trials", str(error))
            return None
        known = row.schema.equals(_IN_FILE["trials"]) or all(field in _IN_FILE["trials"] for field in row.schema)
        if row.num_rows != 1 or not known:
            self._set_aside(entry.seal.name, "trials", "does not hold the row of a trial")
            return None
        return row.replace_schema_metadata(None)

    def curves(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The training curves of all committed trials, or of those listed, with the columns of `CURVES`."""
        return self._read("curves", trial_ids)

    def outcomes(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """Per-input outcomes of all committed trials that kept them, or of those listed.

        The columns are those of `OUTCOMES` and every float32 column of any of the trials, null where a trial has none.
        A colouring trial has 181,440 rows: name the trials, or scan `dataset("outcomes")` with a filter.
        """
        return self._read("outcomes", trial_ids)

    def _read(self, kind: Detail, trial_ids: Iterable[str] | None) -> pa.Table:
        wanted = None if trial_ids is None else list(trial_ids)
        try:
            return self.dataset(kind, wanted).to_table()
        except (pa.ArrowException, OSError):
            if not self.verify(kind, wanted):
                raise
            return self.dataset(kind, wanted).to_table()

    def dataset(self, kind: Detail, trial_ids: Iterable[str] | None = None) -> ds.Dataset:
        """The curves or outcomes of committed trials as a dataset: nothing is read but what a scan asks for.

        A filter on `trial_id`, `task` or `baseline` leaves out whole files without opening them.
        """
        present = None if trial_ids is not None else self._files.listing(kind)
        seals = [entry.seal for entry in self._entries(trial_ids) if _expected(entry.seal, kind) is not None]
        if present is None:
            known = self.filesystem.get_file_info([self._files.path(f"{kind}/{seal.name}") for seal in seals])
            seals = [seal for seal, info in zip(seals, known, strict=True) if info.type == fs.FileType.File]
        else:
            seals = [seal for seal in seals if f"{kind}/{seal.name}" in present]
        schema = _SCHEMAS[kind]
        if kind == "outcomes":
            names = dict.fromkeys(name for seal in seals for name in seal.outcome_columns)
            schema = pa.schema([*schema, *(pa.field(name, pa.float32()) for name in names)])
        format_ = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        fragments = [
            format_.make_fragment(
                self._files.path(f"{kind}/{seal.name}"),
                self.filesystem,
                (pc.field("task") == seal.task)
                & (pc.field("baseline") == seal.baseline)
                & (pc.field("trial_id") == seal.trial_id),
            )
            for seal in seals
        ]
        return ds.FileSystemDataset(fragments, schema, format_, self.filesystem)

    def verify(self, kind: Detail, trial_ids: Iterable[str] | None = None) -> list[str]:
        """Read the curves or outcomes to the last byte; set aside every trial with a damaged file.

        Returns:
            Ids of the trials set aside.
        """
        return self._set_aside_damaged(kind, [entry.seal for entry in self._entries(trial_ids)])

    def _entries(self, trial_ids: Iterable[str] | None = None) -> list["_Entry"]:
        """The sealed rows of all committed trials or of those listed; damaged ones are set aside on the way."""
        wanted = None if trial_ids is None else set(trial_ids)
        if wanted is not None and len(wanted) <= _FEW:
            partitions = [inner for outer in self._files.folders("trials") for inner in self._files.folders(outer)]
            names = {f"{partition}/{trial_id}.parquet": 0 for partition in partitions for trial_id in sorted(wanted)}
        else:
            names = {}
            for name, state in self._files.listing("trials").items():
                if not _NAME.fullmatch(name):
                    logger.warning("%r is not a file of this store: ignored", name)
                elif wanted is None or name[-28:-8] in wanted:
                    if state.size > _LARGEST_ROW:
                        reason = f"has {state.size:,} bytes, too many for a row"
                        self._set_aside(name.removeprefix("trials/"), "trials", reason)
                    else:
                        names[name] = state.modified
        return [entry for entry in _in_threads(self._entry, list(names.items())) if entry is not None]

    def _entry(self, listed: tuple[str, int]) -> "_Entry | None":
        name, modified = listed
        data = self._files.read(name)
        if data is None:
            return None
        try:
            return _Entry(_unsealed(data, "trials", name.removeprefix("trials/")), data, modified)
        except DamagedError as error:
            self._set_aside(name.removeprefix("trials/"), "trials", str(error))
            return None

    def _set_aside_damaged(self, kind: Detail, seals: Sequence[Seal]) -> list[str]:
        def damage(seal: Seal) -> str | None:
            data = self._files.read(f"{kind}/{seal.name}")
            try:
                if data is not None:
                    _unsealed(data, kind, seal.name)
            except DamagedError as error:
                return str(error)
            return None

        found = []
        for seal, reason in zip(seals, _in_threads(damage, seals), strict=True):
            if reason is not None:
                self._set_aside(seal.name, kind, reason)
                found.append(seal.trial_id)
        return found

    def _set_aside(self, name: str, kind: Kind, reason: str) -> None:
        """Move all files of a trial out of the way, its row first, so that it is pending from then on."""
        try:
            for folder in _SCHEMAS:
                self._files.move(f"{folder}/{name}", f"quarantine/{folder}/{name}")
        except StoreError as error:
            logger.warning("damaged: %r %s; it is left out, but %s", f"{kind}/{name}", reason, error)
        else:
            logger.warning("damaged: %r %s; its trial was set aside in quarantine/ and is pending again",
                           f"{kind}/{name}", reason)  # fmt: skip

    # ----------------------------------------------------------------------------------------------------------------
    # Sweeps, and files of other modules
    # ----------------------------------------------------------------------------------------------------------------

    def record_sweep(self, name: str, record: SweepRecord) -> None:
        """Add one start to the history of the sweep called `name`; the latest counts.

        Raises:
            StoreError: the name cannot be the name of a folder, or the store cannot be written.
        """
        if not _SWEEP.fullmatch(name):
            raise StoreError(f"{name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")
        folder = f"sweeps/{name}"
        plan = "\n".join(record.trial_ids).encode()
        plan_hash = hashlib.sha256(plan).hexdigest()[:20]
        # Starts of an unchanged sweep share one list, which may be long.
        self._files.write(f"{folder}/plans/{plan_hash}.txt", plan)
        entry = {"schema_version": SCHEMA_VERSION, **record.model_dump(exclude={"trial_ids"}), "plan": plan_hash}
        # Numbers order the starts, since clocks jump; the random part keeps two drivers that start at once apart.
        starts = map(_START.fullmatch, self._files.listing(folder))
        number = max((int(match[2]) for match in starts if match), default=0) + 1
        data = json.dumps(entry, indent=1).encode()
        self._files.write(f"{folder}/{number:06d}-{secrets.token_hex(4)}.json", data)

    def sweeps(self) -> list[SweepRecord]:
        """Every start of every sweep, by name and then in order; records that cannot be read are left out loudly."""
        found = []
        for name in sorted(self._files.listing("sweeps")):
            if match := _START.fullmatch(name):
                try:
                    found.append(self._sweep(name, match[1]))
                except (ValueError, KeyError, TypeError) as error:
                    logger.warning("%r is not the record of a sweep: %s", name, error)
        return found

    def _sweep(self, name: str, sweep: str) -> SweepRecord:
        entry = json.loads(self._files.read(name) or b"")
        version, plan_hash = entry.pop("schema_version"), entry.pop("plan")
        _check_version(version, name)
        plan = self._files.read(f"sweeps/{sweep}/plans/{plan_hash}.txt")
        if plan is None or hashlib.sha256(plan).hexdigest()[:20] != plan_hash:
            raise ValueError("its list of planned trials is missing or damaged")
        fields = {**entry, "overrides": tuple(entry["overrides"]), "trial_ids": tuple(plan.decode().split())}
        return SweepRecord.model_validate(fields)

    def write_bytes(self, relative: str, data: bytes) -> None:
        """Publish a file below the root atomically and durably, replacing what has its name."""
        self._files.write(relative, data)

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file below the root, None where there is none."""
        return self._files.read(relative)

    def delete(self, relative: str) -> None:
        """Remove a file below the root, if it is there."""
        self._files.delete(relative)


class _Entry(NamedTuple):
    """A sealed row, the bytes of its file, and when that was modified (0 if it was not listed)."""

    seal: Seal
    data: bytes
    modified: int


_NAME = re.compile(r"trials/task=[A-Za-z_]\w*/baseline=[A-Za-z_]\w*/[0-9a-f]{20}\.parquet", re.ASCII)
_SWEEP = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_START = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)/(\d{6,})-[0-9a-f]{8}\.json", re.ASCII)
_LARGEST_ROW = 16 * 2**20
_FEW = 16  # below it, trying every partition is cheaper than listing the store
_THREADS = 16


Item = TypeVar("Item")
Found = TypeVar("Found")


def _in_threads(function: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """`function` of every item, in order; the work is waiting for the disk or the network."""
    # Handing over a file costs more than reading it from a warm disk: threads take some at a time.
    size = max(1, min(64, len(items) // _THREADS))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    if len(parts) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [found for part in pool.map(lambda part: [function(item) for item in part], parts) for found in part]


def _expected(seal: Seal, kind: Detail) -> int | None:
    return seal.curves_bytes if kind == "curves" else seal.outcomes_bytes


def _stands(present: bytes, status: Status) -> bool:
    """Whether a row already there stays when one of `status` arrives."""
    rank = {"failed": 0, "stopped": 1, "finished": 2}
    try:
        old = _unsealed(present, "trials").status
    except DamagedError:
        return False
    return rank[old] > rank[status] or old == status != "failed"


# --------------------------------------------------------------------------------------------------------------------
# Sealed files
# --------------------------------------------------------------------------------------------------------------------

_SEAL = re.compile(rb'\{"digest":"([0-9a-f]{32})","seal":(\[[^\x00-\x1f{}]*\])\}')
_MAGIC = b"PAR1"


def _digest(data: bytes, start: int, end: int) -> bytes:
    """Digest of a file with the digest's own place, from `start` to `end`, zeroed."""
    digest = hashlib.blake2b(memoryview(data)[:start], digest_size=16)
    digest.update(b"0" * (end - start))
    digest.update(memoryview(data)[end:])
    return digest.hexdigest().encode()


def _seal_in(data: bytes) -> re.Match[bytes] | None:
    """The seal in the footer of a parquet file, None if the file has none or is not whole."""
    if len(data) < 12 or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        return None
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return _SEAL.search(data, footer) if footer >= 4 else None


def _sealed(table: pa.Table, seal: Seal) -> bytes:
    """A parquet file of the table, sealed."""
    text = json.dumps({"digest": "0" * 32, "seal": seal}, separators=(",", ":"))
    buffer = pa.BufferOutputStream()
    options = _ENCODINGS[seal.kind](table)
    with pq.ParquetWriter(buffer, table.schema, store_schema=False, write_page_checksum=True, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"sweeper": text})
    data = buffer.getvalue().to_pybytes()
    found = _seal_in(data)
    if found is None:
        raise ValueError(f"columns {table.column_names} cannot be sealed: a name holds a brace, or pyarrow has changed")
    start, end = found.span(1)
    return data[:start] + _digest(data, start, end) + data[end:]


def _unsealed(data: bytes, kind: Kind, name: str | None = None) -> Seal:
    """The seal of a file that is whole and, if `name` is given, stands where it belongs.

    Raises:
        DamagedError: it is not.
        StoreError: a newer version of this program wrote it.
    """
    if not data:
        raise DamagedError("is empty")
    found = _seal_in(data)
    if found is None:
        raise DamagedError("is truncated or was not written by a sweep")
    if _digest(data, *found.span(1)) != found[1]:
        raise DamagedError("was altered: its digest does not fit")
    try:
        values = json.loads(found[2])
        _check_version(values[1], name or kind)
        seal = Seal._make([*values[:8], tuple(values[8]), *values[9:]])
    except (ValueError, TypeError, IndexError) as error:
        raise DamagedError("has a seal of no known form") from error
    if seal.kind != kind or (name is not None and seal.name != name) or seal.status not in get_args(Status):
        raise DamagedError("is the file of another trial")
    return seal


def _check_version(version: Any, what: str) -> None:
    if not isinstance(version, int):
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")


# --------------------------------------------------------------------------------------------------------------------
# Tables and their encodings
# --------------------------------------------------------------------------------------------------------------------


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _trial_table(trial_id: str, result: TrialResult) -> pa.Table:
    trial, provenance = result.trial, result.provenance
    metrics = {name: float(value) for name, value in result.metrics.items()}
    # JSON has no infinity and no NaN; as in the canonical spec, they are spelt out.
    extra = {
        name: value if math.isfinite(value) else str(value) for name, value in metrics.items() if name not in METRICS
    }
    error = result.error or {}
    row = {
        "trial_id": trial_id,
        "status": result.status,
        "model": trial.model.name,
        "q": trial.objective.q,
        "m": trial.objective.m,
        "seed": trial.seed,
        "steps": trial.steps,
        "batch_size": trial.batch_size,
        "optimizer": trial.optimizer.name,
        "learning_rate": getattr(trial.optimizer, "learning_rate", None),
        "spec": _json(spec.canonical(trial)),
        **{name: metrics.get(name) for name in METRICS},
        "extra_metrics": _json(extra),
        **{
            name: int(result.timings[name]) if pa.types.is_integer(kind) else float(result.timings[name])
            for name, kind in TIMINGS.items()
            if name in result.timings
        },
        "error_kind": error.get("kind"),
        "error_message": error.get("message"),
        "error_step": error.get("step"),
        "pack_id": result.pack_id,
        "lanes": result.lanes,
        "device": result.device,
        **provenance.model_dump(include={"commit", "dirty", "lock_hash", "command"}),
        "versions": _json(provenance.versions),
        "started": result.started,
        "finished": result.finished,
        "schema_version": SCHEMA_VERSION,
    }
    return pa.Table.from_pylist([row], schema=_IN_FILE["trials"])


def _curves_table(trial_id: str, curves: Sequence[tuple[int, str, float]]) -> pa.Table:
    steps, metrics, values = zip(*curves, strict=True) if curves else ((), (), ())
    columns = [[trial_id] * len(curves), steps, metrics, [float(value) for value in values]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _IN_FILE["curves"], strict=True)],
                    schema=_IN_FILE["curves"])  # fmt: skip


def _outcomes_table(trial_id: str, outcomes: pa.Table) -> pa.Table:
    """The outcomes in the store's types, with continuous columns rounded."""
    columns = {
        "trial_id": pa.array([trial_id] * outcomes.num_rows, pa.string()),
        "input": outcomes["input"].cast(pa.int32()),
    }
    for name in outcomes.column_names:
        if name not in columns:
            columns[name] = pa.array(_rounded(outcomes[name].cast(pa.float32()).to_numpy()))
    return pa.table(columns)


DISTINCT = 4096
"""A column of more different values than this is continuous: it is rounded."""

MANTISSA_BITS = 12
"""Of the 23 bits of a single-precision mantissa; a relative error of at most 2^-13, far below that of 100 seeds."""


def _rounded(values: np.ndarray) -> np.ndarray:
    """Single-precision values as they are if few differ (shares of seeds, votes), else with a short mantissa."""
    if not _continuous(values):
        return values
    drop = 23 - MANTISSA_BITS
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32)
    return np.where(np.isfinite(values) & np.isfinite(rounded), rounded, values)


def _continuous(values: np.ndarray) -> bool:
    return len(np.unique(values)) > DISTINCT


def _trial_encoding(table: pa.Table) -> dict[str, Any]:
    # For a single row dictionaries, statistics and compression cost more than they save, in bytes and in time.
    return {"use_dictionary": False, "write_statistics": False, "compression": "none"}


def _curve_encoding(table: pa.Table) -> dict[str, Any]:
    return {
        "use_dictionary": ["trial_id", "metric"],
        "column_encoding": {"step": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"},
        "compression": "zstd",
    }


def _outcome_encoding(table: pa.Table) -> dict[str, Any]:
    floats = [name for name in table.column_names if name not in OUTCOMES.names]
    continuous = [name for name in floats if _continuous(table[name].to_numpy())]
    return {
        "use_dictionary": ["trial_id", *(name for name in floats if name not in continuous)],
        "column_encoding": {"input": "DELTA_BINARY_PACKED", **dict.fromkeys(continuous, "BYTE_STREAM_SPLIT")},
        "compression": "zstd",
    }


_ENCODINGS: dict[Kind, Callable[[pa.Table], dict[str, Any]]] = {
    "trials": _trial_encoding,
    "curves": _curve_encoding,
    "outcomes": _outcome_encoding,
}
