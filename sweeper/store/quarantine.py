"""Damaged files are moved below `quarantine/`, with one warning each, and their trials are pending again."""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from sweeper.store.file_names import file_path, is_compacted
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import KINDS, Detail, Kind

logger = logging.getLogger(__name__)


class Damage(NamedTuple):
    """A damaged file, as reading reports it.

    Attributes:
        kind: The folder that the file is in.
        name: The name below `trials` of the row that it belongs to.
        reason: The damage in words, such as "is empty".
        compacted_too: Whether the trial has a sound row in a compacted file, to which its outcomes belong.
    """

    kind: Kind
    name: str
    reason: str
    compacted_too: bool = False


def set_aside(files: DurableFiles, damages: Iterable[Damage]) -> None:
    """Move the files of damaged trials out of the way, rows first, so that their trials are pending from then on.

    A file that cannot be moved stays, and readers leave it out.
    """
    compacted: tuple[Kind, ...] = ("trials", "curves")
    for damage in damages:
        if damage.compacted_too:
            kinds, what = compacted, "it was set aside in quarantine/; its trial has another row"
        elif is_compacted(damage.name):
            kinds, what = compacted, "all trials in it were set aside in quarantine/ and are pending again"
        else:
            kinds, what = KINDS, "its trial was set aside in quarantine/ and is pending again"
        file, reason = file_path(damage.kind, damage.name), " ".join(damage.reason.split())
        try:
            for kind in kinds:
                files.move(file_path(kind, damage.name), f"quarantine/{file_path(kind, damage.name)}")
        except StoreError as error:
            logger.warning("damaged: %r %s; it is left out, but %s", file, reason, error)
        else:
            logger.warning("damaged: %r %s; %s", file, reason, what)


def set_aside_foreign(files: DurableFiles, kind: Detail, name: str) -> None:
    """Move away a detail that belongs to another worker's row; the trial stays committed."""
    file = file_path(kind, name)
    try:
        files.move(file, f"quarantine/{file}")
    except StoreError as error:
        logger.warning("foreign: %r is of another run than its trial's row; it is left out, but %s", file, error)
    else:
        logger.warning("foreign: %r is of another run than its trial's row; it was set aside in quarantine/", file)
