"""Entries of specifications are taken apart part by part, and are the same as of the whole."""

import json

import pytest

from sweeper.trial.entry_names import entries, entries_of
from sweeper.trial.trial_spec import canonical
from tests.trials import coloring_trial

SPEC = canonical(coloring_trial())


def text_of(spec):
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


SPECS = {
    "as it is": SPEC,
    "an infinite q": SPEC | {"objective": {"m": 2, "q": "inf"}},
    "a task that this checkout lacks": SPEC | {"task": {"name": "maze", "size": [3, 4], "walls": {"seed": 3}}},
    "an entry called like a later part": SPEC | {"model": {"name": "m", "steps": 7, "task": {"x": 1}, "z": 0}},
    "an entry called like an earlier part": SPEC | {"task": {"baseline": "x", "name": "maze", "seed": 3}},
    "a text like a part": SPEC | {"task": {"name": "maze", "text": '"seed":3,"steps":4'}},
    "a further part": SPEC | {"mood": "good", "zeal": {"a": 1}},
    "no objective": {name: value for name, value in SPEC.items() if name != "objective"},
    "no parts": {},
}


@pytest.mark.parametrize("name", SPECS)
def test_entries_of_parts_are_those_of_the_whole(name):
    text = text_of(SPECS[name])
    assert entries(text) == entries_of(json.loads(text))
    assert list(entries(text)) == list(entries_of(json.loads(text)))


def test_no_spelling_of_json_is_misread():
    text = json.dumps(SPEC, indent=1)
    assert entries(text) == entries_of(SPEC)
