"""Answers of code, remembered from one process to the next, so that a question to a store need not import plug-ins.

How a row is read depends on plug-ins: on the version that is the current one, and on entries that older rows do not
write. To import plug-ins takes seconds, nearly all of them for JAX. So their answers are kept in a file of this user on
this machine, with stamps of all files that the processes that gave the answers had imported.

Invariants:
    - An answer is plain data, and depends on its arguments and on code alone.
    - It counts while none of these files was touched, none was added beside them, the same plug-ins are there, and
      Python searches the same folders. Else it is forgotten, with all others.
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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sweeper.trial import BEGAN, plugins
from sweeper.trial.private_folder import private_folder

AnswerT = TypeVar("AnswerT")

FRESH_SECONDS = 1.0
"""How long a look at the files holds. It takes milliseconds, and a query asks a hundred times."""

Stamp = list[int]
"""Times of the last changes of a file or folder in nanoseconds, its size, and its number in the file system."""


def remembered(ask: Callable[..., AnswerT]) -> Callable[..., AnswerT]:
    """A function of texts with answers of JSON, which are remembered. It is asked again after an exception."""

    @functools.cache
    def kept(memory: _Memory, *arguments: str) -> AnswerT:
        text = json.dumps([f"{ask.__module__}.{ask.__qualname__}", *arguments])
        question = hashlib.sha256(text.encode()).hexdigest()
        answers = memory.answers()
        if question not in answers:
            answers[question] = ask(*arguments)
            memory.grown = True
        return answers[question]

    @functools.wraps(ask)
    def answer(*arguments: str) -> AnswerT:
        memory = _memory()
        return ask(*arguments) if memory is None else kept(memory, *arguments)

    return answer


@functools.cache
def _memory() -> "_Memory | None":
    """The memory of this process; None if it has JAX, or no folder that only this user can write."""
    if "jax" in sys.modules or (folder := private_folder("answers")) is None:
        return None
    place = json.dumps([str(plugins.PROJECT), str(plugins.PACKAGE), str(Path.cwd()), sys.path, sys.version])
    memory = _Memory(folder / hashlib.sha256(place.encode()).hexdigest()[:20])
    atexit.register(memory.write)
    return memory


class _Memory:
    """Answers by question, in a file, as long as the code that gave them is the same."""

    def __init__(self, file: Path):
        self.grown = False  # whether it has answers that its file lacks
        self._file, self._looked = file, -FRESH_SECONDS
        self._plug_ins, self._stamps, self._answers = plugins.places(), dict[str, Stamp](), dict[str, Any]()
        with contextlib.suppress(OSError, ValueError):  # there is no file yet, or only the beginning of one
            self._plug_ins, self._stamps, self._answers = json.loads(file.read_text())

    def answers(self) -> dict[str, Any]:
        """The answers that count now; a further one may be added."""
        if time.monotonic() > self._looked + FRESH_SECONDS:
            if not self._holds():
                self._answers, self._stamps, self._plug_ins = {}, {}, plugins.places()
            self._looked = time.monotonic()
        return self._answers

    def write(self) -> None:
        """Keep the answers for later processes, if the files are those that this process has imported."""
        if not self.grown or not self._holds():
            return
        # A module in a zip, a file that is gone, a full disk: then the next process asks again.
        with contextlib.suppress(OSError):
            stamps = {str(place): _stamp(place) for place in _imported()}
            if all(changed < BEGAN * 1e9 for _, changed, *_ in stamps.values()):
                new = self._file.with_suffix(f".{os.getpid()}")
                new.write_text(json.dumps([self._plug_ins, self._stamps | stamps, self._answers]))
                new.replace(self._file)

    def _holds(self) -> bool:
        try:
            same = all(_stamp(place) == stamp for place, stamp in self._stamps.items())
        except OSError:
            return False
        return same and self._plug_ins == plugins.places()


def _stamp(place: str | Path) -> Stamp:
    status = os.stat(place)
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def _imported() -> set[Path]:
    """The files of the modules of this process, and the folders of those that no archive has brought.

    In such a folder a new file may hide one that was imported. What Python brings along stays as it is.
    """
    names = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files = {Path(name) for name in names if isinstance(name, str)}
    installed = {file for file in files if not {*file.parts}.isdisjoint(plugins.LIBRARY_FOLDERS)}
    own = {file for file in files - installed if not file.is_relative_to(plugins.STANDARD_LIBRARY)}
    return installed | own | {file.parent for file in own}
