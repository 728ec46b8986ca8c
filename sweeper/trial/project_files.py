"""The files of the project: what workers get a copy of, and what a fingerprint may count.

These are all files in the folder of the project but those that git ignores, hidden files, backups of editors, results
stores, and environments of Python. Pipes, sockets, devices, links that lead nowhere, what this user cannot read, and
names that are no UTF-8 are no files here either. A copy of the files of a project has the same files.
"""

import fnmatch
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOT_OURS = (".*", "#*", "*~", "__pycache__")
"""Patterns of names that are no files of a project."""

_HEX = "[0-9a-f]"
_STORE = {
    "trials": "task=*",
    "evaluations": "task=*",
    "drivers": f"*/{_HEX * 16}.json",
    "checkpoints": f"{_HEX * 20}.ckpt",
}
"""Folders of a results store, by any of which it is known, and what they hold; see docs/store.md. Other tools have
folders of these names as well, with files of other names."""

_UNFINISHED = ".unfinished"
"""The folder that the first write into a store makes, by which a store is known as well."""

_OF_STORE = (*_STORE, "sweeps", "snapshots", "quarantine", "superseded", "annotations", "annotations.json")


class ProjectFiles:
    """The files in a folder, as they are when this is made."""

    def __init__(self, folder: Path):
        self._ignored = _ignored(folder)
        if is_store(folder):  # a project may be its own store
            self._ignored |= {os.path.join(folder, name) for name in _OF_STORE}

    def below(self, path: Path) -> Iterator[Path]:
        """The files of a folder, in the order of their names; of a file the file itself. Links are followed."""
        return self._walk(str(path), frozenset())

    def inside(self, folder: Path) -> list[Path]:
        """The files and folders in a folder, one level deep."""
        try:
            names = sorted(os.listdir(folder))
        except OSError:  # it is none, or cannot be read
            return []
        return [folder / name for name in names if self._ours(os.path.join(folder, name))]

    def _ours(self, path: str) -> bool:
        name = os.path.basename(path)
        if path in self._ignored or any(fnmatch.fnmatchcase(name, pattern) for pattern in NOT_OURS):
            return False
        if any("\udc80" <= letter <= "\udcff" for letter in name):  # no archive could name it
            return False
        if os.path.isfile(path):
            return os.access(path, os.R_OK)
        readable = os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)
        return readable and not _is_environment(path) and not is_store(Path(path))

    def _walk(self, path: str, above: frozenset[str]) -> Iterator[Path]:
        if os.path.isfile(path):
            yield Path(path)
        elif os.path.isdir(path) and (real := os.path.realpath(path)) not in above:  # no link to a folder around it
            for inner in self.inside(Path(path)):
                yield from self._walk(str(inner), above | {real})


def stamp(path: Path) -> list[int]:
    """What changes when a file or folder is touched: times in nanoseconds, size, number; nothing if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def is_store(folder: Path) -> bool:
    """Whether a folder is a results store."""
    if os.path.isdir(folder / _UNFINISHED):
        return True
    return any(os.path.isdir(folder / name) and any((folder / name).glob(pattern)) for name, pattern in _STORE.items())


def is_of_store(path: Path) -> bool:
    """Whether a path in a store is one that programs of this package write; figures are for people."""
    return path.parts[:1] in [(name,) for name in (*_OF_STORE, _UNFINISHED, "figures")]


def _is_environment(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))


def git(folder: Path, *arguments: str) -> str:
    """What git says of the repository that a folder is in.

    Hooks of git name another repository, or another index, in the environment of all that they start. If git is not
    there, or refuses, that is an `OSError` or a `subprocess.SubprocessError`.
    """
    kept = ("GIT_CONFIG_", "GIT_TEST_")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or (name.startswith(kept) and name != "GIT_CONFIG_PARAMETERS")
    }
    # Nothing is to wait for the lock of the index, which a hook holds.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="surrogateescape", timeout=30, check=True, env=environment
    )
    return done.stdout


def _ignored(folder: Path) -> frozenset[str]:
    """Paths that git ignores; of a folder that is ignored whole the folder alone."""
    command = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    try:
        if any((place / ".git").exists() for place in (folder, *folder.parents)):
            listed = git(folder, *command)
        elif (folder / ".gitignore").is_file():  # it says the same where there is no repository
            with tempfile.TemporaryDirectory() as empty:
                git(folder, "init", "--quiet", "--bare", empty)
                listed = git(folder, f"--git-dir={empty}", f"--work-tree={folder}", *command)
        else:
            return frozenset()
    except (OSError, subprocess.SubprocessError):  # `provenance` says why
        return frozenset()
    return frozenset(os.path.join(folder, name.rstrip("/")) for name in listed.split("\0") if name not in ("", "./"))
