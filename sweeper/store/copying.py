"""Copying trials and sweeps from one store into another, which keeps what it has.

A trial is committed in the target as a worker would commit it: details first, then the row. So a copy that is killed
leaves whole trials and nothing else, and the same copy carries on. A trial that the target has is left alone, unless
its row there is of a lower rank (`schema.RANK`).

Every file is proven whole before it is written. Files that stay the same are copied byte by byte; a row whose details
or command change (fewer columns of outcomes, curves that were compacted, a command without folders) is sealed anew and
names the new files. The same copy of the same trials into an empty store writes the same bytes.

Records of sweeps are copied before the trials, so that no trial is without a sweep meanwhile.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.messages import did_you_mean, nearest_name
from sweeper.store.annotations import copy_annotations
from sweeper.store.committed_rows import ATTEMPTS, Entry, moved_too_often
from sweeper.store.decoded_rows import decoded_rows
from sweeper.store.decoded_size import DETAIL_LIMIT, decoded_bytes
from sweeper.store.details import whole_detail
from sweeper.store.evaluations import StoredEvaluation, evaluations_table, stored_evaluations
from sweeper.store.file_names import file_path
from sweeper.store.publication import publish_sealed, sealed_row
from sweeper.store.quarantine import Damage
from sweeper.store.rows import ENCODINGS
from sweeper.store.schema import OUTCOMES, RANK, Detail
from sweeper.store.seal import SEAL_VERSION, DamagedError, DetailFile, Seal, SealedFile
from sweeper.store.sealed_parquet import digest_of, sealed, unsealed, unsealed_compacted, unsealed_evaluation
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import copy_records, latest_starts
from sweeper.store.threads import in_threads
from sweeper.trial.provenance import without_folders


class Copied(NamedTuple):
    """What a copy did.

    Attributes:
        trials: Number of trials that the target has now and had not before.
        present: Number of trials that the target had.
        evaluations: Number of evaluations copied.
        damaged: Ids of trials with a damaged file in the source, which were not copied.
    """

    trials: int
    present: int
    evaluations: int
    damaged: list[str]


Kept = Collection[str] | Mapping[str, Collection[str]] | None
"""Columns of the outcomes that a copy keeps, beside `input`: the same of all trials, or by trial id, where a trial that
is not listed keeps none. None keeps all, an empty collection keeps no outcomes."""


def copy(
    source: Store,
    target: Store,
    sweeps: Collection[str] = (),
    outcomes: Kept = None,
    hide_folders: bool = False,
) -> Copied:
    """Copy sweeps with their trials, networks, evaluations, notes and tags; without names all that the source has.

    Args:
        source: Where from.
        target: Where to.
        sweeps: Names of sweeps; the trials are those that the latest start of each planned.
        outcomes: Columns of the outcomes that are kept.
        hide_folders: Whether commands, in rows and in records of starts, lose the folders of absolute paths.

    Raises:
        StoreError: a name is unknown, the target has another sweep of a name, or a store cannot be read or written.
            Trials that were copied before stay.
    """
    if source.url == target.url:
        raise StoreError("a store cannot be copied onto itself")
    latest = latest_starts(source.sweeps(), sweeps)
    wanted = {trial_id for name in sweeps for trial_id in latest[name].trial_ids} if sweeps else None
    entries = source.entries(wanted)
    _check_columns(entries, outcomes)
    there = target.committed_seals()
    copy_records(source.files, target.files, sweeps or list(latest), hide_folders)
    missing = [entry for entry in entries if not _has(there, entry.seal)]
    groups = _by_file(missing)
    copier = _Copier(source, target, outcomes, hide_folders)
    seals = {seal.trial_id: seal for group in in_threads(copier.copied, groups) for seal in group}
    damaged = sorted({entry.seal.trial_id for entry in missing} - seals.keys())
    evaluations = _copy_evaluations(source, target, entries, there | seals, hide_folders)
    present = {entry.seal.trial_id for entry in entries} & (there.keys() | seals.keys())
    copy_annotations(source.files, target.files, sweeps or list(latest), present)
    return Copied(len(seals), len(entries) - len(missing), evaluations, damaged)


def _has(there: Mapping[str, Seal], seal: Seal) -> bool:
    """Whether a store has a row of the trial that is as good."""
    standing = there.get(seal.trial_id)
    return standing is not None and RANK[standing.status] >= RANK[seal.status]


def _check_columns(entries: Sequence[Entry], outcomes: Kept) -> None:
    """Refuses columns that no trial has."""
    if isinstance(outcomes, Mapping):
        return
    known = {name for entry in entries for name in entry.seal.outcome_columns}
    for name in outcomes or ():
        if name not in known:
            raise StoreError(
                f"no trial has outcomes called {name!r}{did_you_mean(nearest_name(name, known))}; "
                f"known are: {', '.join(sorted(known)) or 'none'}"
            )


def _by_file(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The trials, those of one compacted file together."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.row_file].append(entry)
    return list(groups.values())


class _MovedError(Exception):
    """A trial's row has moved into or out of a compacted file since it was read."""


class _Copier:
    """Copies trials from one store to another."""

    def __init__(self, source: Store, target: Store, outcomes: Kept, hide_folders: bool):
        self._source, self._target, self._outcomes, self._hide_folders = source, target, outcomes, hide_folders

    def copied(self, entries: list[Entry]) -> list[Seal]:
        """Copy the trials of one file; the seals of their rows in the target, without trials that are damaged."""
        try:
            return self._copied(entries)
        except _MovedError:
            pass
        seals = []
        for entry in entries:
            for _ in range(ATTEMPTS):
                with contextlib.suppress(_MovedError):
                    seals += self._copied(self._source.entries([entry.seal.trial_id]))
                    break
            else:
                raise moved_too_often()
        return seals

    def _copied(self, entries: list[Entry]) -> list[Seal]:
        if not entries:
            return []
        first = entries[0]
        seals = [first.seal] if first.place is None else first.place.file.rows
        rows = decoded_rows(first.data, first.row_file, seals)
        curves = self._compacted_curves(first)
        copied = []
        for entry in entries:
            try:
                if isinstance(rows, Damage):
                    raise DamagedError(rows.reason)
                row = rows.slice(0 if entry.place is None else entry.place.position, 1)
                copied.append(self._publish(entry, row, self._details(entry, curves)))
            except DamagedError:
                for kind in get_args(Detail):
                    self._source.verify(kind, [entry.seal.trial_id])
        return copied

    def _seal(self, entry: Entry) -> Seal:
        """The seal of the trial's row in the target, as far as it is known before its details are read."""
        seal = dataclasses.replace(entry.seal, version=SEAL_VERSION)
        if seal.outcomes is None or self._outcomes is None:
            return seal
        wanted = self._outcomes.get(seal.trial_id, ()) if isinstance(self._outcomes, Mapping) else self._outcomes
        kept = tuple(name for name in seal.outcome_columns if name in wanted)
        return dataclasses.replace(seal, outcomes=seal.outcomes if kept else None, outcome_columns=kept)

    def _publish(self, entry: Entry, row: pa.Table, details: Mapping[Detail, SealedFile]) -> Seal:
        """Commits a trial in the target, unless a row there is as good by now; the seal of the row that stands."""
        seal, data = self._seal(entry), entry.data
        named = all(seal.detail(kind) == file.mark for kind, file in details.items())
        shown = _without_folders(row) if self._hide_folders else row
        if entry.place is not None or seal != entry.seal or not named or shown is not row:
            seal, data = sealed_row(seal, shown, details)
        files = self._target.files
        present = files.read(f"trials/{seal.name}")
        if present is not None:
            with contextlib.suppress(DamagedError):  # the new row takes the place of a damaged one
                standing = unsealed(present, "trials", seal.name)
                if _has({seal.trial_id: standing}, seal):
                    return standing
            for kind in get_args(Detail):
                if kind not in details:
                    files.delete(file_path(kind, seal.name))
        publish_sealed(files, seal, data, details)
        return seal

    def _compacted_curves(self, entry: Entry) -> pq.ParquetFile | None:
        """The curves of the compacted file that holds the row; None without any.

        Raises:
            _MovedError: the rows have left the file.
        """
        place = entry.place
        if place is None or place.file.curves is None:
            return None
        files, name = self._source.files, place.file.name
        data = files.read(f"curves/{name}")
        if data is None:
            if files.read(f"trials/{name}") is None:
                raise _MovedError
            return None  # deleted by hand
        try:
            unsealed_compacted(data, "curves", name)
        except DamagedError:
            self._source.verify("curves", [entry.seal.trial_id])  # sets the file aside with all of its trials
            raise _MovedError from None
        return pq.ParquetFile(pa.BufferReader(data)) if place.file.curves.is_file(digest_of(data)) else None

    def _details(self, entry: Entry, compacted: pq.ParquetFile | None) -> dict[Detail, SealedFile]:
        """The trial's details as the target is to have them, without those that were deleted by hand.

        Raises:
            DamagedError: a file is damaged.
            _MovedError: the row has moved into a compacted file.
        """
        details: dict[Detail, SealedFile] = {}
        seal = self._seal(entry)
        if entry.place is not None and entry.place.member.curves_group is not None and compacted is not None:
            table = compacted.read_row_group(entry.place.member.curves_group).replace_schema_metadata(None)
            details["curves"] = sealed([table], seal.bare("curves"), ENCODINGS["curves"](table))
        for kind in get_args(Detail):
            mark = seal.detail(kind)
            file = None if mark is None else self._whole(entry, kind, mark)
            if file is not None:
                details[kind] = file
        if "outcomes" in details and seal.outcome_columns != entry.seal.outcome_columns:
            details["outcomes"] = _with_columns(details["outcomes"], seal)
        return details

    def _whole(self, entry: Entry, kind: Detail, mark: DetailFile) -> SealedFile | None:
        """A detail in a file of its own, proven whole; None if it was deleted or is of another run.

        Raises:
            DamagedError: it is damaged.
            _MovedError: the row has moved into a compacted file.
        """
        files, name = self._source.files, entry.seal.name
        file = whole_detail(files, kind, name)
        if file is None:
            if kind == "curves" and files.read(f"trials/{name}") is None:
                raise _MovedError
            return None
        return file if mark.is_file(file.mark.digest) else None


def _without_folders(row: pa.Table) -> pa.Table:
    """The row with a command without folders; the same object if the command has none."""
    index = row.column_names.index("command")
    commands = row["command"].to_pylist()
    hidden = [command and without_folders(command) for command in commands]
    return row if hidden == commands else row.set_column(index, row.field(index), pa.array(hidden, pa.string()))


def _with_columns(file: SealedFile, seal: Seal) -> SealedFile:
    """Outcomes with the columns that the seal of the row names, and no others.

    Raises:
        DamagedError: the file would take too much memory.
    """
    parquet = pq.ParquetFile(pa.BufferReader(file.data))
    if decoded_bytes(parquet.metadata) > DETAIL_LIMIT:
        raise DamagedError("would take too many bytes")
    names = [name for name in parquet.schema_arrow.names if name in OUTCOMES.names or name in seal.outcome_columns]
    table = parquet.read(columns=names).replace_schema_metadata(None)
    return sealed([table], seal.bare("outcomes"), ENCODINGS["outcomes"](table))


def _copy_evaluations(
    source: Store, target: Store, entries: Sequence[Entry], there: Mapping[str, Seal], hide_folders: bool
) -> int:
    """Copies the evaluations of networks that the target has too; returns how many."""
    listed, count = target.files.listing("evaluations"), 0
    for evaluation in stored_evaluations(source, entries):
        seal = evaluation.seal
        row = there.get(seal.trial_id)
        if row is None or row.networks is None or row.networks.digest != seal.network:
            continue
        path = f"evaluations/{seal.name}"
        present = target.files.read(path) if path in listed else None
        if present is None or not _is_of(present, seal.name, seal.network):
            target.write_bytes(path, _shown(source, evaluation) if hide_folders else evaluation.data)
            count += 1
    return count


def _shown(source: Store, evaluation: StoredEvaluation) -> bytes:
    """The file of an evaluation with a command without folders."""
    table = evaluations_table(source, [evaluation])
    shown = _without_folders(table)
    if shown is table:
        return evaluation.data
    return sealed([shown], evaluation.seal, ENCODINGS["trials"](shown)).data


def _is_of(data: bytes, name: str, network: str) -> bool:
    """Whether an evaluation is whole and of this network."""
    try:
        return unsealed_evaluation(data, name).network == network
    except DamagedError:
        return False
