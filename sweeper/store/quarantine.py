"""Damaged files are moved below `quarantine/`, with one warning each; trials whose files are damaged are pending again.

A file that cannot be moved stays, and readers leave it out.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from sweeper.store.file_names import file_path, is_compacted
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import FILE_KINDS, Detail, FileKind

logger = logging.getLogger(__name__)


class Damage(NamedTuple):
    """A damaged file, as reading reports it.

    Attributes:
        kind: The folder that the file is in.
        name: The name below `trials` of the row that it belongs to.
        reason: The damage in words, such as "is empty".
        compacted_too: Whether the trial has a sound row in a compacted file, to which its outcomes belong.
    """

    kind: FileKind
    name: str
    reason: str
    compacted_too: bool = False


class EvaluationDamage(NamedTuple):
    """A damaged evaluation, as reading reports it.

    Attributes:
        name: Its name below `evaluations`.
        reason: The damage in words, such as "is empty".
    """

    name: str
    reason: str


def set_aside(files: DurableFiles, damages: Iterable[Damage]) -> None:
    """Move the files of damaged trials out of the way, rows first, so that their trials are pending from then on."""
    compacted: tuple[FileKind, ...] = ("trials", "curves")
    for damage in damages:
        if damage.compacted_too:
            kinds, what = compacted, "it was set aside in quarantine/; its trial has another row"
        elif is_compacted(damage.name):
            kinds, what = compacted, "all trials in it were set aside in quarantine/ and are pending again"
        else:
            kinds, what = FILE_KINDS, "its trial was set aside in quarantine/ and is pending again"
        trouble = _damaged(file_path(damage.kind, damage.name), damage.reason)
        _move(files, [file_path(kind, damage.name) for kind in kinds], trouble, what)


def set_aside_evaluations(files: DurableFiles, damages: Iterable[EvaluationDamage]) -> None:
    """Move damaged evaluations out of the way; their trials stay committed."""
    for damage in damages:
        file = f"evaluations/{damage.name}"
        _move(files, [file], _damaged(file, damage.reason), "it was set aside in quarantine/")


def set_aside_foreign(files: DurableFiles, kind: Detail, name: str) -> None:
    """Move away a detail that belongs to another worker's row; the trial stays committed."""
    file = file_path(kind, name)
    trouble = f"foreign: {file!r} is of another run than its trial's row"
    _move(files, [file], trouble, "it was set aside in quarantine/")


def _damaged(file: str, reason: str) -> str:
    return f"damaged: {file!r} {' '.join(reason.split())}"


def _move(files: DurableFiles, names: Iterable[str], trouble: str, moved: str) -> None:
    """Move files below `quarantine/`, with a warning that says what the trouble is and whether they were moved."""
    try:
        for name in names:
            files.move(name, f"quarantine/{name}")
    except StoreError as error:
        logger.warning("%s; it is left out, but %s", trouble, error)
    else:
        logger.warning("%s; %s", trouble, moved)
