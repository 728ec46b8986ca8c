"""Answers of code, remembered from one process to the next, so that a question to a store need not import plug-ins.

How a row is read depends on plug-ins: on the version that is the current one, and on entries that rows do not
write. To import plug-ins takes seconds, nearly all of them for JAX. So their answers are kept in a file of this user on
this machine, with stamps of all files that the processes that gave the answers had imported.

Invariants:
    - An answer is plain data, and depends on its arguments and on code alone.
    - A process has the answers of earlier ones if, when it first asks, none of these files was touched, none was added
      beside them, the same plug-ins are there, and Python searches the same folders. Else they are forgotten. What it
      has then it keeps, as it keeps what it has imported.
    - A process remembers nothing for others if a file was touched since it began, as it may have imported what the file
      held before. Nor does it remember for others, or from others, if it has JAX already: then its code can be asked.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sweeper.trial import BEGAN, plugins
from sweeper.trial.private_folder import private_folder
from sweeper.trial.project_files import stamp

AnswerT = TypeVar("AnswerT")


def remembered(ask: Callable[..., AnswerT]) -> Callable[..., AnswerT]:
    """A function of texts with answers of JSON, which are remembered. It is asked again after an exception."""

    @functools.wraps(ask)
    def answer(*arguments: str) -> AnswerT:
        if (answers := _answers()) is None:
            return ask(*arguments)
        question = json.dumps([f"{ask.__module__}.{ask.__qualname__}", *arguments])
        if question not in answers:
            answers[question] = ask(*arguments)
        return answers[question]

    return answer


@functools.cache
def _answers() -> dict[str, Any] | None:
    """Answers by question, which are written when this process ends.

    It is None if the process has JAX, or no folder that only this user can write.
    """
    if "jax" in sys.modules or (folder := private_folder("answers")) is None:
        return None
    place = [str(plugins.PROJECT), str(plugins.PACKAGE), str(Path.cwd()), sys.path, sys.version, plugins.places()]
    file = folder / hashlib.sha256(json.dumps(place).encode()).hexdigest()[:20]
    stamps, answers = dict[str, list[int]](), dict[str, Any]()
    with contextlib.suppress(OSError, ValueError):  # there is no file yet, or only the beginning of one
        before, answered = json.loads(file.read_text())
        if _hold(before):
            stamps, answers = before, answered
    atexit.register(_write, file, stamps, answers, len(answers))
    return answers


def _write(file: Path, stamps: dict[str, list[int]], answers: dict[str, Any], known: int) -> None:
    """Keep the answers for later processes, if the files are those that this process has imported."""
    if len(answers) == known or not _hold(stamps):
        return
    imported = {str(place): stamp(place) for place in _imported()}
    # A module in a zip and a file that is gone have no stamp: then the next process asks again.
    if all(each and each[1] < BEGAN * 1e9 for each in imported.values()):
        new = file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # a full disk, or another process that removes the same
            new.write_text(json.dumps([stamps | imported, answers]))
            new.replace(file)


def _hold(stamps: dict[str, list[int]]) -> bool:
    return all(stamp(Path(place)) == before for place, before in stamps.items())


def _imported() -> set[Path]:
    """The files of the modules of this process, and the folders of those that no archive has brought.

    In such a folder a new file may hide one that was imported. What Python brings along stays as it is.
    """
    names = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files = {Path(name) for name in names if isinstance(name, str)}
    installed = {file for file in files if plugins.library_folder(file)}
    own = {file for file in files - installed if not file.is_relative_to(plugins.STANDARD_LIBRARY)}
    return installed | own | {file.parent for file in own}
