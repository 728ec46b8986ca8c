"""A copy of the code for the workers of one start.

Workers import modules when they first need them, which may be hours after the start. They import from a copy that
stays as it is, so that a change of a task reaches no pack of a running sweep. The copy has the files of the project
(`sweeper.trial.project_files`) and this package. Workers on this machine find the copy by its path, and Ray ships it to
the nodes of a cluster when the driver connects: both have the same files, in the same working folder.
"""

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sweeper.launch.job import SetupError
from sweeper.trial import plugins
from sweeper.trial.project_files import ProjectFiles


class CodeSnapshot(NamedTuple):
    """A copy of the code: the folder with the package `sweeper`, and the copy of the project."""

    packages: Path
    project: Path

    def environment(self) -> dict[str, str]:
        """The part of the environment of a process that says where the code is."""
        # A project may have its packages in a folder such as `src`, where an installation finds them.
        inner = [Path(entry) for entry in sys.path if Path(entry).is_relative_to(plugins.PROJECT) and entry]
        copies = [self.project / path.relative_to(plugins.PROJECT) for path in inner]
        path = [str(self.packages), str(self.project), *map(str, filter(Path.is_dir, copies))]
        path += filter(None, [os.environ.get("PYTHONPATH")])
        return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), plugins.PROJECT_VARIABLE: str(self.project)}


@contextlib.contextmanager
def code_snapshot() -> Iterator[CodeSnapshot]:
    """A copy that only this user can read; removed at the end. A `SetupError` if the copy cannot be made."""
    with tempfile.TemporaryDirectory(prefix="sweeper-code-", ignore_cleanup_errors=True) as folder:
        snapshot = CodeSnapshot(Path(folder).resolve(), Path(folder).resolve() / "project")
        try:
            snapshot.project.mkdir()
            for name, file in _files().items():
                _copy(file, snapshot.packages / name)
        except OSError as error:
            raise SetupError(f"the project cannot be copied for the workers: {error}") from error
        yield snapshot


def _copy(file: Path, copy: Path) -> None:
    """Copy a file; a module with what Python has compiled of it, or each worker would compile it at once."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, copy)  # with its time, by which Python knows whether what it has compiled is of this file
    if file.suffix == ".py" and (compiled := Path(importlib.util.cache_from_source(str(file)))).is_file():
        target = Path(importlib.util.cache_from_source(str(copy)))
        target.parent.mkdir(exist_ok=True)
        shutil.copy(compiled, target)


def _files() -> dict[str, Path]:
    """What the copy will have: every file by its path in the copy."""
    files = ProjectFiles(plugins.PROJECT)
    places = {plugins.PACKAGE: "sweeper"}
    if plugins.SHIPPED == plugins.ROOT != plugins.PROJECT:
        # In the layout of an installed package: with its plug-ins inside.
        places |= {plugins.SHIPPED / f"{kind}s": f"sweeper/{kind}s" for kind in plugins.KINDS}
    places[plugins.PROJECT] = "project"
    return {
        f"{name}/{file.relative_to(source)}": file
        for source, name in places.items()
        for file in files.below(source)
        if source != plugins.PROJECT or not file.is_relative_to(plugins.PACKAGE)
    }
