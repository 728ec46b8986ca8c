"""The code that this process has loaded, held against the files as they are now.

A process cannot forget what it has imported. Once files were edited, neither the old nor the new fingerprint is that of
its program, and it trains nothing more. Nor does it train a plug-in with a method that is not from its files: a
notebook has put it there, workers would not have it, and no fingerprint would tell.
"""

import contextlib
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from sweeper.messages import UserError
from sweeper.trial import plugins
from sweeper.trial.code_files import LIBRARIES, NUMERICS, CodeFiles, File
from sweeper.trial.project_files import stamp


class OtherCodeError(UserError, RuntimeError):
    """A process runs other code than the start that it works for."""


_first: dict[File, str] = {}
"""The digest that each file had when this process first looked at it."""

_loaded: dict[str, dict[File, str]] = {}
"""For every plug-in that was loaded, by its module, and for `sweeper`: its files, each with the digest in `_first`."""


@contextlib.contextmanager
def noted(module: str) -> Iterator[None]:
    """Note the files of a plug-in, as they are before this process loads it in the context."""
    code = CodeFiles()
    read = code.reached([module]).files  # each once
    try:
        yield
    except Exception:
        # What was imported stays imported, as it is now, when the plug-in is mended.
        imported = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
        for file in read:
            if str(file.path) in imported:
                _first.setdefault(file, code.content(file).digest)
        raise
    # Once loaded it may have changed `sys.path`, and its imports mean other files.
    _note(module, code, code.reached([module]).files)


def note_numerics(code: CodeFiles, files: Iterable[File]) -> None:
    """Note the files that compute numbers for every trial, when this process first looks at them."""
    if "sweeper" not in _loaded:
        _note("sweeper", code, files)


def _note(module: str, code: CodeFiles, files: Iterable[File]) -> None:
    _loaded[module] = {file: _first.setdefault(file, code.content(file).digest) for file in files}


def imported_files() -> frozenset[Path]:
    """The files of the modules that this process has imported."""
    files = (getattr(each, "__file__", None) for each in list(sys.modules.values()))
    return frozenset(Path(file) for file in files if isinstance(file, str))


class LoadedCode:
    """The code that this process has loaded for some plug-ins, which are given by kind and name."""

    def __init__(self, used: Iterable[tuple[plugins.Kind, str]]):
        self._used = list(used)
        self._modules = {"sweeper", *(plugins.module(kind, name) for kind, name in self._used)} & _loaded.keys()
        self._files = {file.path for module in self._modules for file in _loaded[module]}
        self._places = sorted(self._files | {path.parent for path in self._files})
        self._stamps: list[list[int]] = []

    def require_unchanged(self, imported: Collection[Path] = ()) -> None:
        """An `OtherCodeError` that says which files were changed, added or removed since this process loaded them.

        Once programs are made, those that are `imported` may be edited: nothing will read them again. Where no file was
        touched since the last look, the look is cheap.
        """
        stamps = [stamp(place) for place in self._places]
        if stamps == self._stamps:
            return
        self._require_as_written()
        code, different = CodeFiles(), set[str]()
        for module in self._modules:
            before = {file: digest for file, digest in _loaded[module].items() if file.path not in imported}
            files = (
                before if imported else code.reached([*NUMERICS, *LIBRARIES] if module == "sweeper" else [module]).files
            )
            now = {file: code.content(file).digest for file in files}
            different |= {file.name for file in before.keys() | now.keys() if before.get(file) != now.get(file)}
        if different:
            raise OtherCodeError(
                f"{', '.join(sorted(different))}: changed after this process had loaded the code, which may now be a "
                "mixture, also after importlib.reload; start again (in a notebook restart the kernel)"
            )
        self._stamps = stamps

    def _require_as_written(self) -> None:
        """An `OtherCodeError` about a method of a plug-in, or of its contract, that is from none of their files."""
        for base in {base for kind, name in self._used for base in plugins.load(kind, name).__mro__}:
            if Path(getattr(sys.modules.get(base.__module__), "__file__", None) or "") not in self._files:
                continue  # a class of a library
            for name, value in vars(base).items():
                function = plugins.function_of(value)
                file = Path(function.__code__.co_filename if function else "")
                strange = file.is_file() and file.is_relative_to(plugins.PROJECT) and not plugins.library_folder(file)
                in_main = function is not None and function.__globals__.get("__name__") == "__main__"
                if in_main or (strange and file not in self._files):
                    where = f"{base.__module__}.{base.__qualname__}.{name}"
                    raise OtherCodeError(
                        f"{where} was replaced by a function of {'this program' if in_main else file}, which no worker "
                        "has and no row would tell: write it into the file of the plug-in, and start Python anew"
                    )
