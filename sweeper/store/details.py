"""Details of committed trials: whether their files are sound and the row's own, and scanning tables in place.

A row names its curves, outcomes and network by digest. A sound file with another digest comes from another worker that
trained the same trial, and died before its row or came second: readers ignore this file. Rows from before digests take
any sound file.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from sweeper.store.committed_rows import Entry
from sweeper.store.decoded_size import DETAIL_LIMIT, decoded_bytes
from sweeper.store.file_names import file_path, is_compacted
from sweeper.store.files import LEFTOVER_SECONDS, DurableFiles, FileState
from sweeper.store.quarantine import Damage
from sweeper.store.schema import SCHEMAS, Detail, DetailTable, TableKind
from sweeper.store.seal import CompactedSeal, DamagedError, DetailFile, Seal, SealedFile
from sweeper.store.sealed_network import LARGEST_NETWORK, network_digest, unsealed_network
from sweeper.store.sealed_parquet import END, digest_of, is_whole, unsealed, unsealed_compacted
from sweeper.store.threads import in_threads

logger = logging.getLogger(__name__)

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def damage_in(files: DurableFiles, kind: Detail, name: str) -> Damage | None:
    """The damage in a detail, which is read to the last byte; None if the file is sound or missing."""
    checked = _checked(files, kind, name)
    return checked if isinstance(checked, Damage) else None


def _checked(files: DurableFiles, kind: Detail, name: str) -> Damage | str | None:
    """The digest of a whole file, or the damage in words; None if the file is missing."""
    try:
        file = whole_detail(files, kind, name)
    except DamagedError as error:
        return Damage(kind, name, str(error))
    return None if file is None else file.mark.digest


def whole_detail(files: DurableFiles, kind: Detail, name: str) -> SealedFile | None:
    """The file of a detail, proven whole; None if it is missing.

    Args:
        files: The files of the store.
        kind: Which detail.
        name: Name of the row that the file belongs to.

    Raises:
        DamagedError: the file is not whole, belongs to another row, or is larger than networks are.
        StoreError: a newer version of this program wrote it.
    """
    path = file_path(kind, name)
    if kind == "networks":
        size = files.filesystem.get_file_info(files.path(path)).size
        if size is not None and size > LARGEST_NETWORK:
            raise DamagedError(f"has {size:,} bytes, too many for a network")
    data = files.read(path)
    if data is None:
        return None
    if kind == "networks":
        digest: str | None = unsealed_network(data, name)
    else:
        (unsealed_compacted if is_compacted(name) else unsealed)(data, kind, name)
        digest = digest_of(data)
    return SealedFile(data, DetailFile(len(data), digest))


def digest_at(files: DurableFiles, kind: Detail, name: str) -> str | None:
    """The digest that a detail carries, unproven; None without a file."""
    if kind == "networks":
        data = files.read(file_path(kind, name))
        return None if data is None else network_digest(data)
    end = files.read_end(f"{kind}/{name}", END)
    return None if end is None else digest_of(end)


class DamagedDetail(NamedTuple):
    """A damaged file, and the trials to which it belongs."""

    damage: Damage
    entries: list[Entry]


class CheckedDetails(NamedTuple):
    """The result of reading details to the last byte.

    Attributes:
        damaged: The damaged files.
        foreign: Trials whose file is sound, but belongs to another worker's row.
    """

    damaged: list[DamagedDetail]
    foreign: list[Entry]


def checked_details(files: DurableFiles, kind: Detail, entries: Iterable[Entry]) -> CheckedDetails:
    """Read the trials' details of a kind to the last byte."""
    owners: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        owners[entry.detail(kind)[0]].append(entry)
    damaged, foreign = [], []
    for checked, members in zip(
        in_threads(lambda name: _checked(files, kind, name), list(owners)), owners.values(), strict=True
    ):
        if isinstance(checked, Damage):
            damaged.append(DamagedDetail(checked, members))
        elif checked is not None:
            foreign += [entry for entry in members if not _names(entry.detail(kind)[1], checked)]
    return CheckedDetails(damaged, foreign)


def _names(file: DetailFile | None, digest: str | None) -> bool:
    return file is not None and file.is_file(digest)


def modified_details(listed: Mapping[str, FileState], kind: Detail, entries: Iterable[Entry]) -> list[Entry]:
    """Trials whose detail, as listed, has another size than their row says, or was modified after it."""
    modified = []
    for entry in entries:
        name, file = entry.detail(kind)
        state = listed.get(file_path(kind, name))
        if state is not None and (file is None or state.size != file.bytes or state.modified > entry.modified):
            modified.append(entry)
    return modified


def abandoned(files: DurableFiles, kind: Detail, entry: Entry) -> bool:
    """Whether the file in the place of a trial's detail is too old to wait for a row that names it."""
    info = files.filesystem.get_file_info(files.path(file_path(kind, entry.detail(kind)[0])))
    return info.mtime_ns is not None and info.mtime_ns < (time.time() - LEFTOVER_SECONDS) * 1e9


class Scan(NamedTuple):
    """The curves or outcomes of trials.

    Attributes:
        dataset: The tables; a scan reads only the files and columns that it needs.
        left_out: Trials whose file is damaged, too large, or does not have the digest of their row.
    """

    dataset: ds.Dataset
    left_out: list[Entry]


def scanned_details(files: DurableFiles, kind: DetailTable, entries: Sequence[Entry], few: bool) -> Scan | None:
    """The curves or outcomes of the trials as a dataset, or None if a row has moved since the entries were read.

    Args:
        files: The files of the store.
        kind: Curves or outcomes.
        entries: The trials.
        few: Whether asking for every file is cheaper than listing the store.
    """
    owners: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        name, file = entry.detail(kind)
        without = kind == "curves" and entry.place is not None and entry.place.member.curves_group is None
        if file is not None and not without:
            owners[name].append(entry)
    there = present(files, kind, list(owners), few)
    # Curves without a file were deleted by hand, or were compacted just now; then the row's own file has gone too.
    rows = [name for name in owners if name not in there and not is_compacted(name) and kind == "curves"]
    if len(present(files, "trials", rows, few=True)) < len(rows):
        return None
    names = [name for name in owners if name in there]
    own = in_threads(lambda name: _is_own(files, kind, name, owners[name][0].detail(kind)[1]), names)
    left_out = [entry for name, ours in zip(names, own, strict=True) if not ours for entry in owners[name]]
    scanned = {name: owners[name] for name, ours in zip(names, own, strict=True) if ours}
    schema = SCHEMAS[kind]
    if kind == "outcomes":
        columns = dict.fromkeys(name for members in scanned.values() for name in members[0].seal.outcome_columns)
        schema = pa.schema([*schema, *(pa.field(name, pa.float32()) for name in columns)])
    fragments = [_fragment(files, kind, name, members) for name, members in scanned.items()]
    return Scan(ds.FileSystemDataset(fragments, schema, _FORMAT, files.filesystem), left_out)


def _is_own(files: DurableFiles, kind: DetailTable, name: str, file: DetailFile | None) -> bool:
    """Whether a file carries the digest that the row names, and is small enough to be decoded.

    A small file is proven whole as well. A file without a footer is left to the scan, which refuses it.
    """
    end = files.read_end(f"{kind}/{name}", END)
    if end is None or file is None:
        return file is not None
    whole = len(end) < END
    if file.digest is not None and not (file.is_file(digest_of(end)) and (is_whole(end) or not whole)):
        return False
    try:
        size = decoded_bytes(pq.read_metadata(pa.BufferReader(end)))
    except (pa.ArrowException, OSError):
        return True
    if size > DETAIL_LIMIT:
        logger.warning("%r would take %s bytes: left out", f"{kind}/{name}", f"{size:,}")
    return size <= DETAIL_LIMIT


def _fragment(files: DurableFiles, kind: DetailTable, name: str, entries: list[Entry]) -> ds.ParquetFileFragment:
    """The part of a dataset in one file, with the columns that are known without opening the file."""
    trial, place = pc.field("trial_id"), entries[0].place
    seal: Seal | CompactedSeal = entries[0].seal
    ids, row_groups = trial == entries[0].seal.trial_id, None
    if place is not None and is_compacted(name):
        seal = place.file
        ids = (trial >= seal.members[0].trial_id) & (trial <= seal.members[-1].trial_id)
        groups = [entry.place.member.curves_group for entry in entries if entry.place is not None]
        row_groups = sorted(group for group in groups if group is not None)
    within = (pc.field("task") == seal.task) & (pc.field("baseline") == seal.baseline) & ids
    return _FORMAT.make_fragment(files.path(f"{kind}/{name}"), files.filesystem, within, row_groups)


def present(files: DurableFiles, kind: TableKind, names: Sequence[str], few: bool) -> set[str]:
    """The files among these that exist below the folder of `kind`."""
    if few:
        known = files.filesystem.get_file_info([files.path(f"{kind}/{name}") for name in names])
        return {name for name, info in zip(names, known, strict=True) if info.type == fs.FileType.File}
    listed = files.listing(kind)
    return {name for name in names if f"{kind}/{name}" in listed}
