"""The code that this process has loaded, held against the files as they are now.

A process cannot forget what it has imported. Once files were edited, neither the old nor the new fingerprint is that of
its program, and it trains nothing more.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from sweeper.messages import UserError
from sweeper.trial import patches, plugins
from sweeper.trial.code_files import LIBRARIES, NUMERICS, CodeFiles, File
from sweeper.trial.plugins import PluginError
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
    except BaseException:
        # Libraries stay imported, and will be what they are now when the plug-in is mended.
        imported = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
        for file in read:
            if str(file.path) in imported:
                _first.setdefault(file, code.content(file).digest)
        raise
    # Once loaded it may have changed `sys.path`, and its imports mean other files.
    files = code.reached([module]).files
    _note(module, code, files)
    _require_own({file.path for file in files})


def _require_own(files: Set[Path]) -> None:
    """Refuse functions that somebody else has put into the modules of these files, and remember the others."""
    names = set(map(str, files))
    modules = [
        module
        for name, module in list(sys.modules.items())
        if getattr(module, "__file__", None) in names and not name.startswith("sweeper.")
    ]

    def strange(value: object) -> bool:
        if (function := patches.function_of(value)) is None:
            return False
        file = Path(function.__code__.co_filename)
        uncounted = file not in files and file.is_relative_to(plugins.PROJECT) and file.is_file()
        library = file.is_relative_to(plugins.PACKAGE) or plugins.library_folder(file)
        return function.__globals__.get("__name__") == "__main__" or (uncounted and not library)

    if found := patches.foreign(modules, strange):
        listed = ", ".join(f"{name} was replaced by {value}" for name, value in found.items())
        raise PluginError(f"{listed}, which is no part of the plug-in: write it into its file, and start Python anew")
    patches.of_plug_ins.see(modules)


def note_numerics(code: CodeFiles, files: Iterable[File]) -> None:
    """Note the files that compute numbers for every trial, when this process first looks at them."""
    if "sweeper" not in _loaded:
        _note("sweeper", code, files)


def _note(module: str, code: CodeFiles, files: Iterable[File]) -> None:
    _loaded[module] = {file: _first.setdefault(file, code.content(file).digest) for file in files}


class LoadedCode:
    """The code that this process has loaded for some plug-ins, which are given by kind and name."""

    def __init__(self, used: Iterable[tuple[plugins.Kind, str]]):
        modules = {kind: plugins.modules(kind) for kind in plugins.KINDS}
        self._modules = {"sweeper", *(modules[kind].get(name, "") for kind, name in used)} & _loaded.keys()
        files = {file.path for module in self._modules for file in _loaded[module]}
        self._places = sorted(files | {path.parent for path in files})
        self._stamps: list[list[int]] = []

    def require_unchanged(self) -> None:
        """An `OtherCodeError` that says which files were changed, added or removed since this process loaded them.

        Where no file was touched since the last look, the look is cheap.
        """
        stamps = [stamp(place) for place in self._places]
        if stamps == self._stamps:
            return
        code, different = CodeFiles(), set[str]()
        for module in self._modules:
            before = _loaded[module]
            files = code.reached([*NUMERICS, *LIBRARIES] if module == "sweeper" else [module]).files
            now = {file: code.content(file).digest for file in files}
            different |= {file.name for file in before.keys() | now.keys() if before.get(file) != now.get(file)}
        if different:
            raise OtherCodeError(
                f"{', '.join(sorted(different))}: changed after this process had loaded the code, which may now be a "
                "mixture; start again (in a notebook restart the kernel)"
            )
        self._stamps = stamps
