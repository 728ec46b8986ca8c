"""Folders on this machine that other users can neither read nor write."""

import os
import stat
import tempfile
from pathlib import Path


def private_folder(name: str) -> Path | None:
    """A folder for this user alone, the same for every process of the user; None if no safe folder can be made.

    The folder lies in a folder of the temporary directory that is named by the user's id and has mode 0700. A folder
    that belongs to another user, or that others may enter, is not used.
    """
    try:
        parent = Path(tempfile.gettempdir()) / f"sweeper-{os.getuid()}"
        parent.mkdir(mode=0o700, exist_ok=True)
        status = parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        folder = parent / name
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder
