"""What a pack trains in a few words: its task, its baseline, and whatever varies in the sweep."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sweeper.packs.packing import Pack
from sweeper.trial.trial_spec import TrialSpec, canonical, leaf_values

MOST = 3
"""A label lists at most this many values. Of more numbers it has the smallest and the largest, of others the count."""

_WITHOUT_NAME = ("baseline", "model.name")
_ALWAYS = ("task.name", "baseline")


def varying(trials: Iterable[TrialSpec]) -> tuple[str, ...]:
    """Dotted paths of the entries in which trials differ, in the order of the specification."""
    first: dict[str, Any] = {}
    different: set[str] = set()
    for trial in trials:
        for path, value in leaf_values(canonical(trial)):
            if first.setdefault(path, value) != value:
                different.add(path)
    return tuple(path for path in first if path in different)


def label(pack: Pack, paths: Iterable[str]) -> str:
    """The task, the baseline, and the values of these entries, such as "coloring Aq_R q=10 seed=0…4"."""
    trials = [dict(leaf_values(canonical(trial))) for trial in pack.trials]

    def text_of(path: str) -> str:
        return _values([trial[path] for trial in trials if path in trial])

    others = [path for path in paths if path not in _ALWAYS]
    return " ".join([*map(text_of, _ALWAYS), *named_values(others, text_of)])


def named_values(paths: Sequence[str], text_of: Callable[[str], str]) -> list[str]:
    """Entries in words such as "q=10", or "Aq_R" where the value needs no name.

    Args:
        paths: Dotted paths of the entries. An entry is called by the last part of its path, or by the whole path where
            two last parts are equal.
        text_of: The value of an entry; an entry with an empty text is left out.
    """
    names = [path.rpartition(".")[2] for path in paths]
    words = []
    for path, name in zip(paths, names, strict=True):
        if text := text_of(path):
            title = path if names.count(name) > 1 else name
            words.append(text if path in _WITHOUT_NAME else f"{title}={text}")
    return words


def _values(values: Iterable[Any]) -> str:
    distinct = list({json.dumps(value): value for value in values}.values())
    if len(distinct) > MOST:
        numbers = [value for value in distinct if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) < len(distinct):
            return f"{len(distinct)} values"
        return f"{_text(min(numbers))}…{_text(max(numbers))}"
    return ",".join(map(_text, distinct))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
