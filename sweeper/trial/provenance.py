"""Where a result comes from: code, versions and command.

The process that starts a sweep captures the record once, and every row holds the record. Workers get the record from
this process, because they may run from a copy of the checkout without history. Names of users, machines and folders are
left out.
"""

import datetime
import importlib
import importlib.metadata
import json
import logging
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sweeper.messages import printable, redacted
from sweeper.trial import fingerprint, plugins
from sweeper.trial.fingerprint import Code
from sweeper.trial.project_files import git
from sweeper.trial.trial import Trial

logger = logging.getLogger(__name__)

PACKAGES = ("evosax", "flax", "jax", "jax-cuda13-plugin", "jaxlib", "numpy", "optax", "pyarrow", "ray")
"""Packages whose version may change a number or a file; packages that are not installed are left out."""

_ABSOLUTE = re.compile(r"(?:^|(?<==))(?:~[^/]*)?/(?:[^/]*/)*(?=[^/])")
"""The folders of an absolute path, at the beginning of a word or after an equals sign."""


class Provenance(BaseModel):
    """The code, packages and command line behind a result; `commit` and `dirty` are the project's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    commit: str | None = None  # None where there is no git history, or git refuses to read it
    dirty: bool | None = None  # whether files that git tracks differ from the commit
    versions: dict[str, str]  # version by package, of `sweeper`, and of `python`
    command: str  # the command line, ready to be typed again
    captured: str  # time of the capture, as UTC in ISO 8601
    code: Code = Code()  # the code that computes numbers; empty where it was not kept

    def fingerprint(self, trial: Trial) -> str:
        """Fingerprint of the program that computes the trial."""
        return self.code.fingerprint(trial)

    def columns(self) -> dict[str, Any]:
        """What a row has of it, by column; the fingerprint depends on the trial."""
        versions = json.dumps(self.versions, sort_keys=True, separators=(",", ":"))
        return self.model_dump(include={"commit", "dirty", "command"}) | {"versions": versions}


def capture(command: str, project: Path | None = None) -> Provenance:
    """Provenance of this process, whose command line to type again (`command_line`) is given."""
    commit, dirty = _git_state(project or plugins.PROJECT)
    installed = (next(iter(importlib.metadata.distributions(name=name)), None) for name in PACKAGES)
    return Provenance(
        commit=commit,
        dirty=dirty,
        versions={
            "python": platform.python_version(),
            "sweeper": importlib.import_module("sweeper").__version__,  # the package is above this room
            **{each.name: each.version for each in installed if each},
        },
        command=command,
        captured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=fingerprint.captured(),
    )


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


def _git_state(place: Path) -> tuple[str | None, bool | None]:
    """Commit, and whether tracked files differ from it; None where there is no history, or git refuses."""
    if not any((folder / ".git").exists() for folder in (place, *place.parents)):
        return None, None
    try:
        # A folder without history inside somebody else's repository must not take the commit of that repository.
        if not git(place, "ls-files", "--", ".").strip():
            return None, None
        # Results are new files, which are no change of the code. New code is in the fingerprint.
        changed = git(place, "status", "--porcelain", "--untracked-files=no")
        return git(place, "rev-parse", "HEAD").strip(), bool(changed.strip())
    except (OSError, subprocess.SubprocessError) as error:
        stderr = getattr(error, "stderr", None)  # as bytes, if git took too long
        said = ((isinstance(stderr, str) and stderr.strip()) or str(error)).splitlines()[0]
        logger.warning("rows will name no commit, because git does not read %s: %s", place, printable(said))
        return None, None
