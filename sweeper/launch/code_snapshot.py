"""A copy of the code for the workers of one start.

Workers import modules when they first need them, which may be hours after the start. They import from a copy that
stays as it is, so that a change of a task reaches no pack of a running sweep. Workers on this machine find the copy by
its path. To the nodes of a cluster Ray ships the copy when the driver connects.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sweeper.launch.failures import LaunchError
from sweeper.trial import plugins

NO_CODE = ("__pycache__", ".*", "results")
"""Patterns of files and folders that are not copied."""


class CodeSnapshot(NamedTuple):
    """A copy of the code.

    Attributes:
        packages: The folder with the package `sweeper`.
        project: The copy of the project's modules.
    """

    packages: Path
    project: Path


@contextlib.contextmanager
def code_snapshot() -> Iterator[CodeSnapshot]:
    """A copy that only this user can read; removed at the end.

    Raises:
        LaunchError: the copy cannot be made.
    """
    with contextlib.ExitStack() as ended:
        try:
            folder = tempfile.TemporaryDirectory(prefix="sweeper-code-", ignore_cleanup_errors=True)
            snapshot = CodeSnapshot(Path(ended.enter_context(folder)), Path(folder.name, "project"))
            _copy(plugins.PACKAGE, snapshot.packages / "sweeper")
            if plugins.SHIPPED == plugins.ROOT != plugins.PROJECT:
                copy_shipped_plugins(snapshot.packages / "sweeper")
            _copy_project(snapshot.project)
        except OSError as error:
            raise LaunchError(f"the code cannot be copied for the workers: {error}") from error
        yield snapshot


def copy_shipped_plugins(package: Path) -> None:
    """Put the plug-ins of this checkout into a copy of the package, where an installed package has them."""
    for kind in plugins.KINDS:
        _copy(plugins.SHIPPED / f"{kind}s", package / f"{kind}s")


def _copy_project(target: Path) -> None:
    """Copy the plug-ins of the project, and its other modules and packages, which these may import."""
    target.mkdir()
    for path in plugins.PROJECT.iterdir():
        if path.suffix == ".py" and path.is_file():
            shutil.copy(path, target)
        is_package = path.name in {f"{kind}s" for kind in plugins.KINDS} or (path / "__init__.py").is_file()
        if is_package and path.is_dir() and path != plugins.PACKAGE:
            _copy(path, target / path.name)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*NO_CODE))
