"""A folder that stands for the project of this process for a while."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeper.training import arithmetic
from sweeper.trial import plugins


@contextlib.contextmanager
def in_project(folder: Path) -> Iterator[Path]:
    """Look for plug-ins in the folder. Afterwards the modules that were imported from it are forgotten.

    The search paths of the packages are put back too: a folder left there would come before the next project's.
    """
    modules = set(sys.modules)
    paths = {kind: list(sys.modules[f"{kind}s"].__path__) for kind in plugins.KINDS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "PROJECT", folder)
        plugins.load.cache_clear()
        arithmetic._measured.cache_clear()  # it counts the plug-ins that were loaded
        try:
            yield folder
        finally:
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                    del sys.modules[name]
            for kind, path in paths.items():
                sys.modules[f"{kind}s"].__path__ = path
            plugins.load.cache_clear()
