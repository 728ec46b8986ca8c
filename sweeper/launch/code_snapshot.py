"""A copy of the code for the workers of one start.

Workers import modules when they first need them, which may be hours after the start. They import from a copy that
stays as it is, so that a change of a task reaches no pack of a running sweep. Workers on this machine find the copy by
its path, and Ray ships it to the nodes of a cluster when the driver connects: both have the same files, in the same
working folder.

The copy has this package, and of the files of the project (`sweeper.trial.project_files`)

- all code;
- what counts for the plug-ins of the start (`sweeper.trial.code_files`): packages of plug-ins whole, and files that the
  sources name;
- files that the sources may name: by a pattern, such as `"images/*.png"`, or by a suffix alone, such as the `".npz"` of
  `f"{split}.npz"`;
- files and folders that the search space names by their relative paths.
"""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sweeper.launch.job import SetupError
from sweeper.temporary_folders import temporary_folder
from sweeper.trial import plugins
from sweeper.trial.code_files import CodeFiles
from sweeper.trial.project_files import ProjectFiles
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, used_plug_ins


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
def code_snapshot(trials: Iterable[Trial], text: str = "") -> Iterator[CodeSnapshot]:
    """A copy that only this user can read; removed at the end. A `SetupError` if the copy cannot be made.

    It has the files that the plug-ins of the trials name, and those that the text of a search space names.
    """
    with temporary_folder("code") as folder:
        snapshot = CodeSnapshot(folder, folder / "project")
        try:
            snapshot.project.mkdir()
            for name, file in _files(trials, text).items():
                _copy(file, snapshot.packages / name)
        except OSError as error:
            raise SetupError(f"the project cannot be copied for the workers: {error}") from error
        yield snapshot


def _copy(file: Path, copy: Path) -> None:
    """Copy a file; a module with what Python has compiled of it, or each worker would compile it at once."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, copy)  # with its time: Python compares it with the time in the compiled module
    if file.suffix == ".py" and (compiled := Path(importlib.util.cache_from_source(str(file)))).is_file():
        target = Path(importlib.util.cache_from_source(str(copy)))
        target.parent.mkdir(exist_ok=True)
        shutil.copy(compiled, target)


def _files(trials: Iterable[Trial], text: str) -> dict[str, Path]:
    """What the copy will have: every file by its path in the copy."""
    files = ProjectFiles(plugins.PROJECT)
    places = {plugins.PACKAGE: "sweeper"}
    if plugins.SHIPPED == plugins.ROOT != plugins.PROJECT:
        # In the layout of an installed package: with its plug-ins inside.
        places |= {plugins.SHIPPED / f"{kind}s": f"sweeper/{kind}s" for kind in plugins.KINDS}
    found = {
        f"{name}/{path.relative_to(source)}": path for source, name in places.items() for path in files.below(source)
    }
    needed = _Needed(trials, text)
    for path in files.below(plugins.PROJECT):
        relative = path.relative_to(plugins.PROJECT)
        if not path.is_relative_to(plugins.PACKAGE) and needed.has(path, relative):
            found[f"project/{relative}"] = path
    return found


class _Needed:
    """What the workers of a start need of the files of the project."""

    def __init__(self, trials: Iterable[Trial], text: str):
        trials, code = list(trials), CodeFiles()
        modules = [plugins.module(kind, name) for kind, name in sorted(used_plug_ins(trials))]
        reached = code.reached(modules).files
        self._reached = {file.path for file in reached}
        texts = {text for file in reached if not file.name.startswith("sweeper/") for text in code.content(file).texts}
        self._patterns = {pattern for pattern in map(_pattern, texts) if "*" in pattern.rpartition("/")[2]}
        words = {word for each in (text, *map(_entries, trials)) for word in re.findall(r"[^\s\"',\[\]{}:=]+", each)}
        self._named = {os.path.normpath(word) for word in words if "/" in word or "." in word}

    def has(self, path: Path, relative: Path) -> bool:
        """Whether workers need a file, which has this path within the project."""
        return (
            path.name.endswith(tuple(importlib.machinery.all_suffixes()))
            or path in self._reached
            or not self._named.isdisjoint(map(str, (relative, *relative.parents)))
            or any(relative.match(pattern) for pattern in self._patterns)
        )


def _entries(trial: Trial) -> str:
    return json.dumps(canonical(trial), ensure_ascii=False)


def _pattern(text: str) -> str:
    """The pattern of the names that a text stands for: whatever is put into it while the program runs."""
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    pattern = re.sub(r"%[-\d.]*[a-z]|\{[^{}]*\}", "*", "/".join(parts))
    return f"*{pattern}" if re.fullmatch(r"\.\w+", pattern) else pattern
