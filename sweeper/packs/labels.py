"""What a pack trains in a few words: its task, its baseline, and whatever varies in the sweep."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sweeper.packs.packing import Pack
from sweeper.trial.entry_names import entries_of, named_values, varying_names
from sweeper.trial.trial_spec import TrialSpec, canonical

MOST = 3
"""A label lists at most this many values. Of more numbers it has the smallest and the largest, of others the count."""

_ALWAYS = ("task.name", "baseline")


def varying(trials: Iterable[TrialSpec]) -> dict[str, str]:
    """The names of the entries in which trials differ, by dotted path."""
    return varying_names([entries_of(canonical(trial)) for trial in trials])


def label(pack: Pack, names: Mapping[str, str]) -> str:
    """The task, the baseline, and the values of further entries, such as "coloring Aq_R q=10 seed=0…4".

    Args:
        pack: The pack.
        names: Names of the entries by dotted path, as `varying` returns.
    """
    trials = [entries_of(canonical(trial)) for trial in pack.trials]

    def text_of(path: str) -> str:
        return _values([trial[path] for trial in trials if path in trial])

    others = {path: name for path, name in names.items() if path not in _ALWAYS}
    return " ".join([*map(text_of, _ALWAYS), *named_values(others, text_of)])


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
