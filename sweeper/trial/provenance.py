"""Where a result comes from: code, locked dependencies, versions and command.

The process that starts a sweep captures the record once, and every row holds the record. Workers get the record from
this process, because they may run from a copy of the checkout without history. Names of users, machines and folders are
left out.
"""

import datetime
import hashlib
import importlib.metadata
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sweeper.messages import redacted
from sweeper.trial import fingerprint, plugins
from sweeper.trial.fingerprint import Code
from sweeper.trial.trial_spec import TrialSpec

PACKAGES = ("evosax", "flax", "jax", "jax-cuda13-plugin", "jaxlib", "numpy", "optax", "pyarrow", "ray")
"""Packages whose version may change a number or a file; packages that are not installed are left out."""

_ABSOLUTE = re.compile(r"(?:^|(?<==))(?:~[^/]*)?/(?:[^/]*/)*(?=[^/])")
"""The folders of an absolute path, at the beginning of a word or after an equals sign."""


class Provenance(BaseModel):
    """The code, packages and command line behind a result.

    Attributes:
        commit: Git commit of the checkout, None where there is no git history.
        dirty: Whether tracked files differ from the commit or untracked ones stand beside them.
        lock_hash: SHA-256 of the lock file, None where there is none.
        versions: Version by package, and of `python`.
        command: The command line, ready to be typed again.
        captured: Time of the capture, as UTC in ISO 8601.
        code: Digests of the code that computes numbers; None in records of older programs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    commit: str | None
    dirty: bool | None
    lock_hash: str | None
    versions: dict[str, str]
    command: str
    captured: str
    code: Code | None = None

    def fingerprint(self, trial: TrialSpec) -> str | None:
        """Fingerprint of the program that computes the trial; None where the code is not known."""
        return None if self.code is None else self.code.fingerprint(trial)


def capture(argv: Sequence[str], checkout: Path = plugins.ROOT) -> Provenance:
    """Provenance of this process, which was started by the command line `argv` (as in `sys.argv`)."""
    commit, dirty = _git_state(checkout)
    lock = checkout / "locks" / "runtime.lock"
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock_hash=hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None,
        versions=_versions(),
        command=command(argv),
        captured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=fingerprint.captured(),
    )


def command(argv: Sequence[str]) -> str:
    """The command line to type again: modules by name instead of by path, and without keys in URLs."""
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


def _git_state(checkout: Path) -> tuple[str | None, bool | None]:
    top = _git(checkout, "rev-parse", "--show-toplevel")
    # A checkout without history inside somebody else's repository must not take the commit of that repository.
    if top is None or Path(top).resolve() != checkout.resolve():
        return None, None
    commit = _git(checkout, "rev-parse", "HEAD")
    status = _git(checkout, "status", "--porcelain")
    return commit, None if status is None else bool(status)


def _git(checkout: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
