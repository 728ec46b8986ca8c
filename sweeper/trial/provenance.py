"""Where a result comes from: code, locked dependencies, versions and command.

The process that starts a sweep captures the record once, and every row holds the record. Workers get the record from
this process, because they may run from a copy of the checkout without history. Names of users, machines and folders are
left out.
"""

import datetime
import functools
import hashlib
import importlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from sweeper.messages import printable, redacted
from sweeper.trial import fingerprint, plugins
from sweeper.trial.fingerprint import Code
from sweeper.trial.project_files import git, is_of_store, is_store
from sweeper.trial.trial import Trial

logger = logging.getLogger(__name__)

PACKAGES = ("evosax", "flax", "jax", "jax-cuda13-plugin", "jaxlib", "numpy", "optax", "pyarrow", "ray")
"""Packages whose version may change a number or a file; packages that are not installed are left out."""

_ABSOLUTE = re.compile(r"(?:^|(?<==))(?:~[^/]*)?/(?:[^/]*/)*(?=[^/])")
"""The folders of an absolute path, at the beginning of a word or after an equals sign."""


LOCKS = (
    "locks/runtime.lock", "uv.lock", "pylock.toml", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock",
    "conda-lock.yml", "requirements.lock", "requirements.txt",
)  # fmt: skip
"""The files that lock dependencies; the first that a place has is its lock."""


class State(BaseModel):
    """The state of the code in one place."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    commit: str | None = None  # None where there is no git history, or git refuses to read it
    # Whether tracked files differ from the commit, or untracked ones or plug-ins that git ignores stand beside them;
    # results aside
    dirty: bool | None = None
    lock_hash: str | None = None  # SHA-256 of the lock file, None where there is none


class Source(State):
    """The state of `sweeper`, or of a package with plug-ins."""

    version: str | None = None


class Provenance(State):
    """The code, packages and command line behind a result; `commit`, `dirty` and `lock_hash` are the project's."""

    # The other places of code by name: `sweeper`, and packages with plug-ins; empty in records of older programs
    sources: dict[str, Source] = {}
    versions: dict[str, str]  # version by package, and of `python`
    command: str  # the command line, ready to be typed again
    captured: str  # time of the capture, as UTC in ISO 8601
    code: Code | None = None  # digests of the code that computes numbers; None in records of older programs

    def fingerprint(self, trial: Trial) -> str | None:
        """Fingerprint of the program that computes the trial; None where the code is not known."""
        return None if self.code is None else self.code.fingerprint(trial)

    def columns(self) -> dict[str, Any]:
        """What a row has of it, by column; the fingerprint depends on the trial."""
        sources = {name: source.model_dump(exclude_none=True) for name, source in self.sources.items()}
        return self.model_dump(include={"commit", "dirty", "lock_hash", "command"}) | {
            "sources": json.dumps(sources, sort_keys=True, separators=(",", ":")),
            "versions": json.dumps(self.versions, sort_keys=True, separators=(",", ":")),
        }


def capture(command: str, project: Path | None = None) -> Provenance:
    """Provenance of this process, whose command line to type again (`command_line`) is given."""
    state = functools.cache(_state)  # the project may be the checkout of this package
    version = importlib.import_module("sweeper").__version__  # the package is above this room
    sources = {"sweeper": Source(**dict(state(plugins.ROOT)), version=version)}
    for name, package in plugins.packages().items():
        folder = _edited_in(package)
        sources[name] = Source(**(dict(state(folder)) if folder else {}), version=package.version)
    installed = (next(iter(importlib.metadata.distributions(name=name)), None) for name in PACKAGES)
    return Provenance(
        **dict(state(project or plugins.PROJECT)),
        sources=sources,
        versions={"python": platform.python_version(), **{each.name: each.version for each in installed if each}},
        command=command,
        captured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=fingerprint.captured(),
    )


def _edited_in(package: importlib.metadata.Distribution) -> Path | None:
    """The folder of the code of a package that is somebody's own."""
    from urllib.request import url2pathname  # imports what speaks with servers

    origin = json.loads(package.read_text("direct_url.json") or "{}")
    own = origin.get("dir_info", {}).get("editable", False)
    return Path(url2pathname(urlsplit(origin["url"]).path)) if own else None


def command_line(argv: Sequence[str]) -> str:
    """The command line of `sys.argv` to type again: modules by name instead of by path, and without keys in URLs."""
    words = list(argv)
    program = Path(words[0]) if words else Path()
    if program.suffix == ".py" and program.parent.name == "sweeper":
        module = "sweeper" if program.stem == "__main__" else f"sweeper.{program.stem}"
        words[:1] = ["python", "-m", module]
    elif words:
        words[0] = program.name
    # Bytes that are no UTF-8 could not be stored.
    return shlex.join(redacted(word) for word in words).encode(errors="backslashreplace").decode()


def without_folders(text: str) -> str:
    """A command line in which absolute paths, also values such as that of `--results=/a/b`, are file names only."""
    try:
        words = shlex.split(text)
    except ValueError:  # no command line of this program
        return text
    return shlex.join(_ABSOLUTE.sub("", word) for word in words)


def _state(place: Path) -> State:
    locks = (place / name for name in LOCKS)
    lock = next((file for file in locks if file.is_file() and os.access(file, os.R_OK)), None)
    commit, dirty = _git_state(place)
    return State(
        commit=commit, dirty=dirty, lock_hash=None if lock is None else hashlib.sha256(lock.read_bytes()).hexdigest()
    )


def _git_state(place: Path) -> tuple[str | None, bool | None]:
    """Commit, and whether anything but results differs from it; None where there is no history, or git refuses."""
    if not any((folder / ".git").exists() for folder in (place, *place.parents)):
        return None, None
    try:
        # A folder without history inside somebody else's repository must not take the commit of that repository.
        if not git(place, "ls-files", "--", ".").strip():
            return None, None
        folder, _, commit = git(place, "rev-parse", "--show-toplevel", "HEAD").removesuffix("\n").rpartition("\n")
        untold = _untold(checkout := Path(folder), place)
        how = ("--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none", "--no-renames")
        status = git(checkout, "status", *how)
    except (OSError, subprocess.SubprocessError) as error:
        stderr = getattr(error, "stderr", None)  # as bytes, if git took too long
        said = ((isinstance(stderr, str) and stderr.strip()) or str(error)).splitlines()[0]
        logger.warning("rows will name no commit, because git does not read %s: %s", place, printable(said))
        return None, None
    changed = (checkout / line[3:] for line in status.split("\0") if line)
    return commit, untold or any(not _is_result(path, checkout, place) for path in changed)


def _untold(checkout: Path, place: Path) -> bool:
    """Whether code differs from the commit that `git status` passes over: what git ignores, or was told to overlook."""
    folders = [f"{kind}s/*.py" for kind in plugins.KINDS]
    if git(place, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *folders):
        return True
    entries = git(checkout, "ls-files", "-v", "-s", "-z").split("\0")
    overlooked = [entry.partition("\t") for entry in entries if entry[:1] == "S" or entry[:1].islower()]
    present = {name: about.split()[2] for about, _, name in overlooked if (checkout / name).is_file()}
    return bool(present) and git(checkout, "hash-object", "--", *present).split() != [*present.values()]


def _is_result(path: Path, checkout: Path, place: Path) -> bool:
    """Whether a path that differs from the commit is in a results store, or a folder with nothing but stores.

    A project may be its own store; then only the store's own folders in it are results.
    """
    stores = [folder for folder in (path, *path.parents) if folder.is_relative_to(checkout) and is_store(folder)]
    if any(not place.is_relative_to(folder) or is_of_store(path.relative_to(folder)) for folder in stores):
        return True
    try:
        return path.is_dir() and all(_is_result(inner, checkout, place) for inner in path.iterdir())
    except PermissionError:  # who cannot read it has no results in it
        return False


@functools.cache
def drawing_code(folder: Path) -> str:
    """A digest of the Python files of a folder, and of the libraries that draw."""
    libraries = [importlib.metadata.version(name) for name in ("matplotlib", "pandas", "numpy")]
    digest = hashlib.blake2b(" ".join(libraries).encode(), digest_size=16)
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
