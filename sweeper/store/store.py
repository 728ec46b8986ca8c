"""The results store: one trial, one key, one commit, in parquet files that any tool can read.

    trials/task=<t>/baseline=<b>/<trial_id>.parquet      one row: what was trained and what came out; it is the commit
    trials/task=<t>/baseline=<b>/compacted-<…>.parquet   the rows of many trials, written by `compaction`
    curves/…  outcomes/…                                 the same names below: training curves, one row per input
    sweeps/<name>/                                       what was planned, one record per start
    checkpoints/                                         of unfinished packs
    quarantine/                                          damaged files, set aside

A trial's curves and outcomes are published before its row, and every reader starts from the rows: without a row there
is no trial, whatever else lies in the folder. A row that says `finished` is never replaced. A `stopped` one gives way
to a finished one only, a `failed` one to any other.

Every file is sealed (see `seals`): whole or damaged is told by its bytes alone. A trial with a damaged file is set
aside as a whole, with a warning, and is pending again; a damaged compacted file is set aside with all of its trials.
Curves and outcomes that are simply missing were deleted to save room: their trial stays.

A row may be compacted, or moved back, while the store is read. Whoever moves rows publishes the new file before the old
ones are deleted, and a reader lists the store twice: no trial can slip through (see `Store.entries`). Where a trial has
a compacted row and one of its own, the better one counts, and of equals the compacted one.
"""

import contextlib
import hashlib
import json
import logging
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pydantic import BaseModel, ConfigDict

from sweeper.messages import redacted
from sweeper.store.files import DurableFiles, StoreError, open_files
from sweeper.store.rows import (
    CURVES,
    ENCODINGS,
    IN_FILE,
    METRICS,
    OUTCOMES,
    PARTITION,
    SCHEMA_VERSION,
    SCHEMAS,
    TIMINGS,
    TRIALS,
    Detail,
    Kind,
    Status,
    TrialResult,
    curves_table,
    outcomes_table,
    trial_table,
)
from sweeper.store.sealed_parquet import (
    RANK,
    CompactedSeal,
    DamagedError,
    Seal,
    check_version,
    sealed,
    unsealed,
    unsealed_compacted,
)
from sweeper.trial import trial_spec
from sweeper.trial.provenance import Provenance

__all__ = [
    "CURVES", "METRICS", "OUTCOMES", "SCHEMA_VERSION", "TIMINGS", "TRIALS",
    "Status", "Store", "StoreError", "SweepRecord", "TrialResult",
]  # fmt: skip

logger = logging.getLogger(__name__)


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


class Compacted(NamedTuple):
    """A compacted file of rows: its seal, its bytes, and when it was modified."""

    seal: CompactedSeal
    data: bytes
    modified: int


class Entry(NamedTuple):
    """A committed trial: its seal, its row, and when that was modified (0 if it was not listed).

    The row is the bytes of its own file, or a compacted file and the row's place in it.
    """

    seal: Seal
    row: bytes | tuple[Compacted, int]
    modified: int


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
    def files(self) -> DurableFiles:
        """The files below the store's root."""
        return self._files

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
            Whether the row was published; False if the trial's file already held one that stands. (Compacted rows are
            not looked at: one that stands goes on counting beside the new file, which the next compaction removes.)

        Raises:
            StoreError: the store cannot be written. The trial is then not committed, and no committed one has suffered.
        """
        seal = Seal(
            "trials", SCHEMA_VERSION, trial_spec.trial_id(result.trial), result.trial.task.name, result.trial.baseline,
            result.status, None, None, (),
        )  # fmt: skip
        present = self._files.read(f"trials/{seal.name}")
        if present is not None and _stands(present, result.status):
            return False
        outcomes = None if result.outcomes is None else outcomes_table(seal.trial_id, result.outcomes)
        if outcomes is not None:
            columns = tuple(name for name in outcomes.column_names if name not in OUTCOMES.names)
            seal = seal._replace(outcome_columns=columns)
            data = _sealed(outcomes, seal._replace(kind="outcomes"))
            self._files.write(f"outcomes/{seal.name}", data)
            seal = seal._replace(outcomes_bytes=len(data))
        elif present is not None:
            self._files.delete(f"outcomes/{seal.name}")
        return self.publish(seal, trial_table(seal.trial_id, result), curves_table(seal.trial_id, result.curves))

    def stands(self, trials: Iterable[trial_spec.TrialSpec]) -> set[str]:
        """Ids of those trials whose own file holds a row that did not fail; compacted rows are not looked at."""

        def sound(trial: trial_spec.TrialSpec) -> str | None:
            trial_id = trial_spec.trial_id(trial)
            seal = Seal("trials", SCHEMA_VERSION, trial_id, trial.task.name, trial.baseline, "failed", None, None, ())
            present = self._files.read(f"trials/{seal.name}")
            return trial_id if present is not None and _stands(present, "failed") else None

        return {found for found in _in_threads(sound, list(trials)) if found is not None}

    def publish(self, seal: Seal, row: pa.Table, curves: pa.Table | None) -> bool:
        """Publish the curves of a trial and then its row, unless its file holds one that stands.

        Args:
            seal: Of the row, without the size of the curves.
            row: The row.
            curves: The curves, None if they were deleted.

        Returns:
            Whether the row was published.
        """
        if curves is not None:
            bare = seal._replace(kind="curves", outcomes_bytes=None, outcome_columns=())
            data = _sealed(curves, bare)
            self._files.write(f"curves/{seal.name}", data)
            seal = seal._replace(curves_bytes=len(data))
        data = _sealed(row, seal)
        return self._files.write(f"trials/{seal.name}", data, keep=lambda present: _stands(present, seal.status))

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
        entries = {entry.seal.trial_id: entry for entry in self.entries()}
        for kind in get_args(Detail):
            states = self._files.listing(kind)
            suspects = []
            for entry in entries.values():
                name, size = _detail(entry, kind)
                state = states.get(f"{kind}/{name}")
                if state is not None and (state.size != size or state.modified > entry.modified):
                    suspects.append(entry)
            for trial_id in self._set_aside_damaged(kind, suspects):
                del entries[trial_id]
        return {trial_id: entry.seal.status for trial_id, entry in entries.items()}

    def trials(self, trial_ids: Iterable[str] | None = None) -> pa.Table:
        """The rows of all committed trials, or of those listed, with the columns of `TRIALS`, sorted by trial id."""
        entries = self.entries(trial_ids)
        parts: dict[int, tuple[Compacted, list[Entry]]] = {}
        single: list[tuple[Seal, bytes]] = []
        for entry in entries:
            if isinstance(entry.row, bytes):
                single.append((entry.seal, entry.row))
            else:
                parts.setdefault(id(entry.row[0]), (entry.row[0], []))[1].append(entry)
        found = list(zip([[seal] for seal, _ in single], _in_threads(self._row, single), strict=True))
        for home, members in parts.values():
            table = self._decoded(home.seal.name, home.data, len(home.seal.members))
            if table is not None:
                places = [entry.row[1] for entry in members if not isinstance(entry.row, bytes)]
                found.append(([entry.seal for entry in members], table.take(places)))
        # Rows of an older program lack the newest columns.
        kept = [(seals, rows) for seals, rows in found if rows is not None]
        tables = [IN_FILE["trials"].empty_table(), *(rows for _, rows in kept)]
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        for name in PARTITION.names:
            values = [getattr(seal, name) for seals, _ in kept for seal in seals]
            table = table.append_column(name, pa.array(values, pa.string()))
        return table.select(TRIALS.names).sort_by("trial_id")

    def _row(self, sealed_row: tuple[Seal, bytes]) -> pa.Table | None:
        return self._decoded(sealed_row[0].name, sealed_row[1], 1)

    def _decoded(self, name: str, data: bytes, rows: int) -> pa.Table | None:
        """The rows in a file, whose columns are among those of `TRIALS`; None if it has to be set aside."""
        try:
            table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            self._set_aside(name, "trials", str(error))
            return None
        known = table.schema.equals(IN_FILE["trials"]) or all(field in IN_FILE["trials"] for field in table.schema)
        if table.num_rows != rows or not known:
            self._set_aside(name, "trials", "does not hold the row of a trial")
            return None
        return table.replace_schema_metadata(None)

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
        for _ in range(_ATTEMPTS):
            # A file is damaged, or was compacted since the store was listed.
            with contextlib.suppress(pa.ArrowException, OSError):
                return self.dataset(kind, wanted).to_table()
            self.verify(kind, wanted)
        return self.dataset(kind, wanted).to_table()

    def dataset(self, kind: Detail, trial_ids: Iterable[str] | None = None) -> ds.Dataset:
        """The curves or outcomes of committed trials as a dataset: nothing is read but what a scan asks for.

        A filter on `trial_id`, `task` or `baseline` leaves out whole files without opening them.
        """
        wanted = None if trial_ids is None else list(trial_ids)
        while True:
            single: list[Seal] = []
            groups: dict[str, tuple[CompactedSeal, list[int]]] = {}
            for entry in self.entries(wanted):
                if kind == "curves" and not isinstance(entry.row, bytes):
                    seal = entry.row[0].seal
                    group = seal.members[entry.row[1]].curves_group
                    if group is not None:
                        groups.setdefault(seal.name, (seal, []))[1].append(group)
                elif _detail(entry, kind)[1] is not None:
                    single.append(entry.seal)
            names = [*(seal.name for seal in single), *groups]
            present = self._present(kind, names, few=wanted is not None)
            # Details without a file were deleted by hand, or compacted just now; then the row's file has gone too.
            rows = [seal.name for seal in single if seal.name not in present and kind == "curves"]
            if len(self._present("trials", rows, few=True)) == len(rows):
                break
        schema = SCHEMAS[kind]
        if kind == "outcomes":
            names = dict.fromkeys(name for seal in single if seal.name in present for name in seal.outcome_columns)
            schema = pa.schema([*schema, *(pa.field(name, pa.float32()) for name in names)])
        format_ = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )

        def fragment(name: str, seal: Seal | CompactedSeal, ids: pc.Expression, row_groups: list[int] | None = None):
            within = (pc.field("task") == seal.task) & (pc.field("baseline") == seal.baseline) & ids
            return format_.make_fragment(self._files.path(f"{kind}/{name}"), self.filesystem, within, row_groups)

        trial = pc.field("trial_id")
        fragments = [fragment(s.name, s, trial == s.trial_id) for s in single if s.name in present]
        for name, (seal, places) in groups.items():
            if name in present:
                first, last = seal.members[0].trial_id, seal.members[-1].trial_id
                fragments.append(fragment(name, seal, (trial >= first) & (trial <= last), sorted(places)))
        return ds.FileSystemDataset(fragments, schema, format_, self.filesystem)

    def _present(self, kind: Kind, names: Sequence[str], few: bool) -> set[str]:
        """Those of the files below the folder of `kind` that are there."""
        if few:
            known = self.filesystem.get_file_info([self._files.path(f"{kind}/{name}") for name in names])
            return {name for name, info in zip(names, known, strict=True) if info.type == fs.FileType.File}
        listed = self._files.listing(kind)
        return {name for name in names if f"{kind}/{name}" in listed}

    def verify(self, kind: Detail, trial_ids: Iterable[str] | None = None) -> list[str]:
        """Read the curves or outcomes to the last byte; set aside every trial with a damaged file.

        Returns:
            Ids of the trials set aside.
        """
        return self._set_aside_damaged(kind, self.entries(trial_ids))

    def entries(self, trial_ids: Iterable[str] | None = None) -> list[Entry]:
        """The best sealed row of all committed trials or of those listed; damaged files are set aside on the way.

        Rows may move while this reads: into a compacted file, or out of one. The new file is always published before
        the old one is deleted. So if two listings, one after the other, show the same compacted files, then a trial
        that both of them missed is not there; and if a file has vanished by the time it is read, another look at the
        store shows where its row went.
        """
        wanted = None if trial_ids is None else set(trial_ids)
        if wanted is not None and len(wanted) <= _FEW:
            partitions = [inner for outer in self._files.folders("trials") for inner in self._files.folders(outer)]
            names = {f"{partition}/{trial_id}.parquet": 0 for partition in partitions for trial_id in sorted(wanted)}
            found = [entry for entry in self._single(names, {}) if isinstance(entry, Entry)]
            if {entry.seal.trial_id for entry in found} == wanted and all(e.seal.status == "finished" for e in found):
                return found
        best: dict[str, Entry] = {}
        strange: set[str] = set()
        for _ in range(_ATTEMPTS):
            before, after = self._files.listing("trials"), self._files.listing("trials")
            listed = before | after
            for name in listed.keys() - strange:
                if not _NAME.fullmatch(name):
                    logger.warning("%r is not a file of this store: ignored", name)
                    strange.add(name)
            names = {name: state.modified for name, state in listed.items() if _NAME.fullmatch(name)}
            together = {name: modified for name, modified in names.items() if _COMPACTED in name}
            homes = _in_threads(self._compacted, list(together.items()))
            best = {}
            for home in (home for home in homes if isinstance(home, Compacted)):
                for place, member in enumerate(home.seal.members):
                    if wanted is None or member.trial_id in wanted:
                        entry = Entry(home.seal.of(member), (home, place), home.modified)
                        best[member.trial_id] = _better(best.get(member.trial_id), entry)
            alone = {}
            for name in names.keys() - together.keys():
                if wanted is None or name[-28:-8] in wanted:
                    if listed[name].size > _LARGEST_ROW:
                        reason = f"has {listed[name].size:,} bytes, too many for a row"
                        self._set_aside(name.removeprefix("trials/"), "trials", reason, spared=name[-28:-8] in best)
                    else:
                        alone[name] = names[name]
            rows = self._single(alone, best)
            for entry in rows:
                if isinstance(entry, Entry):
                    best[entry.seal.trial_id] = _better(best.get(entry.seal.trial_id), entry)
            moved = any(_COMPACTED in name for name in before.keys() ^ after.keys())
            if not moved and _VANISHED not in rows and _VANISHED not in homes:
                break
        return [best[trial_id] for trial_id in sorted(best)]

    def _single(
        self, names: Mapping[str, int], compacted: Mapping[str, Entry]
    ) -> "list[Entry | Literal['vanished'] | None]":
        """Rows in files of their own; None for a damaged one, and for one that is gone and compacted."""

        def entry(listed: tuple[str, int]) -> "Entry | Literal['vanished'] | None":
            name, modified = listed
            data = self._files.read(name)
            elsewhere = name[-28:-8] in compacted
            if data is None:
                return None if elsewhere else _VANISHED
            try:
                return Entry(unsealed(data, "trials", name.removeprefix("trials/")), data, modified)
            except DamagedError as error:
                self._set_aside(name.removeprefix("trials/"), "trials", str(error), spared=elsewhere)
                return None

        return _in_threads(entry, list(names.items()))

    def _compacted(self, listed: tuple[str, int]) -> "Compacted | Literal['vanished'] | None":
        """A compacted file of rows; None for a damaged one."""
        name, modified = listed
        data = self._files.read(name)
        if data is None:
            return _VANISHED
        try:
            return Compacted(unsealed_compacted(data, "trials", name.removeprefix("trials/")), data, modified)
        except DamagedError as error:
            self._set_aside(name.removeprefix("trials/"), "trials", str(error))
            return None

    def _set_aside_damaged(self, kind: Detail, entries: Iterable[Entry]) -> list[str]:
        """Sets aside those of the trials whose curves or outcomes are damaged; returns their ids."""
        files: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            files[_detail(entry, kind)[0]].append(entry)

        def damage(name: str) -> str | None:
            data = self._files.read(f"{kind}/{name}")
            try:
                if data is not None:
                    (unsealed_compacted if _COMPACTED in name else unsealed)(data, kind, name)
            except DamagedError as error:
                return str(error)
            return None

        found: list[str] = []
        shrunk: dict[str, tuple[Compacted, set[str]]] = {}
        for name, reason in zip(files, _in_threads(damage, list(files)), strict=True):
            if reason is not None:
                found += [entry.seal.trial_id for entry in files[name]]
                for home, _ in (entry.row for entry in files[name] if not isinstance(entry.row, bytes)):
                    if home.seal.name != name:
                        shrunk.setdefault(home.seal.name, (home, set()))[1].add(name[-28:-8])
                self._set_aside(name, kind, reason)
        for home, without in shrunk.values():
            # While the store is being compacted this is left to the next reader.
            with self._files.exclusively() as hold:
                try:
                    if hold != "taken":
                        self.dissolve(home, without)
                except StoreError as error:
                    logger.warning("the rows in %r cannot be parted: %s", home.seal.name, error)
        return found

    def dissolve(self, home: Compacted, without: Collection[str] = ()) -> None:
        """Give the trials of a compacted file, but for some, files of their own again, and delete it.

        The caller holds the store exclusively, where that is possible.

        Raises:
            StoreError: the store cannot be written, or somebody else moves the same rows. No trial has suffered.
        """
        seal = home.seal
        rows = self._decoded(seal.name, home.data, len(seal.members))
        data = self._files.read(f"curves/{seal.name}")
        try:
            if data is not None:
                unsealed_compacted(data, "curves", seal.name)
        except DamagedError as error:
            self._set_aside(seal.name, "curves", str(error))
            return
        if rows is None:
            return
        curves = None if data is None else pq.ParquetFile(pa.BufferReader(data))
        for place, member in enumerate(seal.members):
            own = seal.of(member)
            present = self._files.read(f"trials/{own.name}")
            if member.trial_id in without or (present is not None and _stands(present, own.status)):
                continue
            points = None
            if curves is not None and member.curves_group is not None:
                points = curves.read_row_group(member.curves_group).replace_schema_metadata(None)
            self.publish(own, rows.slice(place, 1), points)
        names = [seal.of(member).name for member in seal.members if member.trial_id not in without]
        if len(self._present("trials", names, few=True)) < len(names):
            raise StoreError("another process is compacting this store")
        self._files.delete(f"trials/{seal.name}")
        self._files.delete(f"curves/{seal.name}")

    def _set_aside(self, name: str, kind: Kind, reason: str, spared: bool = False) -> None:
        """Move files out of the way, rows first, so that their trials are pending from then on.

        Args:
            name: The file's name below `trials`, `curves` and `outcomes`.
            kind: Which of these is damaged.
            reason: In which way.
            spared: Whether the trial has a sound row in a compacted file, to which its outcomes belong.
        """
        if spared:
            folders, what = ["trials", "curves"], "it was set aside in quarantine/; its trial has another row"
        elif _COMPACTED in name:
            folders, what = ["trials", "curves"], "all trials in it were set aside in quarantine/ and are pending again"
        else:
            folders, what = list(SCHEMAS), "its trial was set aside in quarantine/ and is pending again"
        try:
            for folder in folders:
                self._files.move(f"{folder}/{name}", f"quarantine/{folder}/{name}")
        except StoreError as error:
            logger.warning("damaged: %r %s; it is left out, but %s", f"{kind}/{name}", reason, error)
        else:
            logger.warning("damaged: %r %s; %s", f"{kind}/{name}", reason, what)

    # ----------------------------------------------------------------------------------------------------------------
    # Sweeps, and files of other modules
    # ----------------------------------------------------------------------------------------------------------------

    def record_sweep(self, record: SweepRecord) -> None:
        """Add one start to the history of the sweep that the record names; the latest counts.

        Raises:
            StoreError: the name cannot be the name of a folder, or the store cannot be written.
        """
        if not _SWEEP.fullmatch(record.name):
            raise StoreError(f"{record.name!r} cannot name a sweep: letters, digits, '_', '-' and '.' only")
        folder = f"sweeps/{record.name}"
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
        check_version(version, name)
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

    def listing(self, folder: str) -> list[str]:
        """Names relative to the root of all files at any depth below a folder."""
        return list(self._files.listing(folder))

    def delete(self, relative: str) -> None:
        """Remove a file below the root, if it is there."""
        self._files.delete(relative)


_NAME = re.compile(r"trials/task=[A-Za-z_]\w*/baseline=[A-Za-z_]\w*/(?:compacted-)?[0-9a-f]{20}\.parquet", re.ASCII)
_COMPACTED = "/compacted-"
_SWEEP = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_START = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)/(\d{6,})-[0-9a-f]{8}\.json", re.ASCII)
_LARGEST_ROW = 16 * 2**20
_FEW = 16  # below it, trying every partition is cheaper than listing the store
_THREADS = 16
_ATTEMPTS = 5  # of reading a store that is being compacted; each compaction can spoil one
_VANISHED: Literal["vanished"] = "vanished"


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


def _sealed(table: pa.Table, seal: Seal) -> bytes:
    return sealed([table], seal, ENCODINGS[seal.kind](table))


def _detail(entry: Entry, kind: Detail) -> tuple[str, int | None]:
    """Name and expected size of the file that holds a trial's curves or outcomes."""
    if kind == "curves" and not isinstance(entry.row, bytes):
        return entry.row[0].seal.name, entry.row[0].seal.curves_bytes
    return entry.seal.name, entry.seal.curves_bytes if kind == "curves" else entry.seal.outcomes_bytes


def _better(standing: Entry | None, other: Entry) -> Entry:
    return other if standing is None or RANK[other.seal.status] > RANK[standing.seal.status] else standing


def _stands(present: bytes, status: Status) -> bool:
    """Whether a row already there stays when one of `status` arrives."""
    try:
        old = unsealed(present, "trials").status
    except DamagedError:
        return False
    return RANK[old] > RANK[status] or old == status != "failed"
