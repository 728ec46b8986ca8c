"""Curves and outcomes of committed trials: whether their files are sound, and scanning them where they are."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from sweeper.store.committed_rows import Entry
from sweeper.store.file_names import is_compacted
from sweeper.store.files import DurableFiles
from sweeper.store.quarantine import Damage
from sweeper.store.schema import SCHEMAS, Detail, Kind
from sweeper.store.sealed_parquet import CompactedSeal, DamagedError, Seal, unsealed, unsealed_compacted
from sweeper.store.threads import in_threads

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def damage_in(files: DurableFiles, kind: Detail, name: str) -> Damage | None:
    """What is wrong with a file of curves or outcomes, which is read to the last byte; a missing file is sound."""
    data = files.read(f"{kind}/{name}")
    try:
        if data is not None:
            (unsealed_compacted if is_compacted(name) else unsealed)(data, kind, name)
    except DamagedError as error:
        return Damage(kind, name, str(error))
    return None


class DamagedDetail(NamedTuple):
    """A damaged file of curves or outcomes, and the trials whose it is."""

    damage: Damage
    entries: list[Entry]


def damaged_details(files: DurableFiles, kind: Detail, entries: Iterable[Entry]) -> list[DamagedDetail]:
    """Those files of the trials' curves or outcomes that are damaged; every file is read to the last byte."""
    owners: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        owners[entry.detail(kind)[0]].append(entry)
    damages = in_threads(lambda name: damage_in(files, kind, name), list(owners))
    return [DamagedDetail(damage, owners[damage.name]) for damage in damages if damage is not None]


def modified_details(files: DurableFiles, kind: Detail, entries: Iterable[Entry]) -> list[Entry]:
    """Trials whose curves or outcomes have another size than their row says, or were modified after it."""
    states = files.listing(kind)
    modified = []
    for entry in entries:
        name, file = entry.detail(kind)
        state = states.get(f"{kind}/{name}")
        if state is not None and (file is None or state.size != file.bytes or state.modified > entry.modified):
            modified.append(entry)
    return modified


def scanned_details(files: DurableFiles, kind: Detail, entries: Sequence[Entry], few: bool) -> ds.Dataset | None:
    """The curves or outcomes of the trials as a dataset, or None if a row has moved since the entries were read.

    Args:
        files: The files of the store.
        kind: Curves or outcomes.
        entries: The trials.
        few: Whether asking for every file is cheaper than listing the store.
    """
    single: list[Seal] = []
    groups: dict[str, tuple[CompactedSeal, list[int]]] = {}
    for entry in entries:
        if kind == "curves" and entry.place is not None:
            seal, group = entry.place.file, entry.place.member.curves_group
            if group is not None:
                groups.setdefault(seal.name, (seal, []))[1].append(group)
        elif entry.detail(kind)[1] is not None:
            single.append(entry.seal)
    there = present(files, kind, [*(seal.name for seal in single), *groups], few)
    # Curves without a file were deleted by hand, or were compacted just now; then the row's own file has gone too.
    rows = [seal.name for seal in single if seal.name not in there and kind == "curves"]
    if len(present(files, "trials", rows, few=True)) < len(rows):
        return None
    schema = SCHEMAS[kind]
    if kind == "outcomes":
        names = dict.fromkeys(name for seal in single if seal.name in there for name in seal.outcome_columns)
        schema = pa.schema([*schema, *(pa.field(name, pa.float32()) for name in names)])

    def fragment(name: str, seal: Seal | CompactedSeal, ids: pc.Expression, row_groups: list[int] | None = None):
        within = (pc.field("task") == seal.task) & (pc.field("baseline") == seal.baseline) & ids
        return _FORMAT.make_fragment(files.path(f"{kind}/{name}"), files.filesystem, within, row_groups)

    trial = pc.field("trial_id")
    fragments = [fragment(seal.name, seal, trial == seal.trial_id) for seal in single if seal.name in there]
    for name, (seal, positions) in groups.items():
        if name in there:
            first, last = seal.members[0].trial_id, seal.members[-1].trial_id
            fragments.append(fragment(name, seal, (trial >= first) & (trial <= last), sorted(positions)))
    return ds.FileSystemDataset(fragments, schema, _FORMAT, files.filesystem)


def present(files: DurableFiles, kind: Kind, names: Sequence[str], few: bool) -> set[str]:
    """Those of the files below the folder of `kind` that are there."""
    if few:
        known = files.filesystem.get_file_info([files.path(f"{kind}/{name}") for name in names])
        return {name for name, info in zip(names, known, strict=True) if info.type == fs.FileType.File}
    listed = files.listing(kind)
    return {name for name in names if f"{kind}/{name}" in listed}
