"""Damaged files are moved below `quarantine/`, with one warning each; a trial whose file is damaged is pending again.

A file that cannot be moved stays, and readers leave it out.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from sweeper.store.file_names import named_trial
from sweeper.store.files import DurableFiles, StoreError

logger = logging.getLogger(__name__)


class Damage(NamedTuple):
    """A damaged file, as reading reports it, and the damage in words, such as "is empty"."""

    file: str
    reason: str


def set_aside(files: DurableFiles, damages: Iterable[Damage]) -> None:
    """Move damaged files out of the way."""
    for damage in damages:
        trouble = f"damaged: {damage.file!r} {' '.join(damage.reason.split())}"
        pending = named_trial(damage.file) is not None
        moved = "its trial was set aside in quarantine/ and is pending again" if pending else "set aside in quarantine/"
        try:
            files.move(damage.file, f"quarantine/{damage.file}")
        except StoreError as error:
            logger.warning("%s; it is left out, but %s", trouble, error)
        else:
            logger.warning("%s; %s", trouble, moved)
