"""Tasks and models are found by import path.

The task called `coloring` is the class `Task` of `tasks/coloring.py`, the model called `transformer` the class `Model`
of `models/transformer.py`. There is no registry to edit: a new file is a new name, and a package with an `__init__.py`
counts as a file. `tasks` and `models` are common names for a package, so a loaded module must come from this checkout;
a foreign one is refused with both paths.
"""

import functools
import importlib
from pathlib import Path
from typing import Literal

from sweeper.messages import did_you_mean, nearest_name

ROOT = Path(__file__).resolve().parent.parent.parent

Kind = Literal["task", "model"]


class PluginError(ValueError):
    """A task or model that cannot be loaded; the message is written for the author of a search space."""


def names(kind: Kind) -> list[str]:
    """Every task or model of this checkout, in alphabetical order."""
    return sorted(_sources(kind))


def _sources(kind: Kind) -> dict[str, Path]:
    folder = ROOT / f"{kind}s"
    files = {path.stem: path for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return files | {path.parent.name: path for path in folder.glob("*/__init__.py")}


@functools.cache
def load(kind: Kind, name: str) -> type:
    """The class `Task` or `Model` called `name`.

    Raises:
        PluginError: there is no such name (the message lists the known ones and the nearest), the file lacks the
            class, or Python found a package of the same name outside this checkout.
    """
    sources = _sources(kind)
    known = sorted(sources)
    if name not in known:
        hint = did_you_mean(nearest_name(name, known))
        raise PluginError(f"unknown {kind} '{name}'{hint} (known: {', '.join(known)})")
    module = importlib.import_module(f"{kind}s.{name}")
    expected = sources[name]
    found = Path(module.__file__ or "")
    if found.resolve() != expected.resolve():
        raise PluginError(
            f"{kind} '{name}' was loaded from {found}, not from {expected}: another package called '{kind}s' comes "
            f"first on the import path; run from the repository root"
        )
    class_name = kind.capitalize()
    if not hasattr(module, class_name):
        raise PluginError(f"{expected} defines no class '{class_name}'")
    return getattr(module, class_name)
