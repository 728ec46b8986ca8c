"""The files of the project: what workers get a copy of, and what a fingerprint may count.

These are all files in the folder of the project but those that git ignores, hidden files, backups of editors, results
stores, and environments of Python. A copy of the files of a project has the same files.
"""

import fnmatch
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

NOT_OURS = (".*", "#*", "*~", "__pycache__")
"""Patterns of names that are no files of a project."""


class ProjectFiles:
    """The files in a folder, as they are when this is made."""

    def __init__(self, folder: Path):
        self._ignored = _ignored(folder)

    def below(self, path: Path) -> Iterator[Path]:
        """The files of a folder, in the order of their names; of a file the file itself. Links are followed."""
        return iter([path]) if path.is_file() else self._inside(str(path), frozenset())

    def _inside(self, folder: str, above: frozenset[str]) -> Iterator[Path]:
        # A link to a folder around it has no end, and a folder may have no files.
        if not os.path.isdir(folder) or (real := os.path.realpath(folder)) in above:
            return
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.path in self._ignored or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in NOT_OURS):
                continue
            if entry.is_file():
                yield Path(entry.path)
            elif not _is_environment(Path(entry.path)) and not is_store(Path(entry.path)):
                yield from self._inside(entry.path, above | {real})


def stamp(path: Path) -> list[int]:
    """What changes when a file or folder is touched: times in nanoseconds, size, number; nothing if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def is_store(folder: Path) -> bool:
    """Whether a folder is a results store: it has `sweeps` beside `trials`, or beside `drivers` before any trial."""
    return (folder / "sweeps").is_dir() and any((folder / name).is_dir() for name in ("trials", "drivers"))


def _is_environment(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("pyvenv.cfg", "conda-meta"))


def git(folder: Path, *arguments: str) -> str:
    """What git says of the repository that a folder is in.

    If git is not there, or refuses, that is an `OSError` or a `subprocess.SubprocessError`.
    """
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, errors="surrogateescape", timeout=30, check=True
    ).stdout


def _ignored(folder: Path) -> frozenset[str]:
    """Paths that git ignores; of a folder that is ignored whole the folder alone."""
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return frozenset()
    try:
        listed = git(folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    except (OSError, subprocess.SubprocessError):  # `provenance` says why
        return frozenset()
    return frozenset(os.path.join(folder, name.rstrip("/")) for name in listed.split("\0") if name not in ("", "./"))
