"""The search spaces that starts have recorded, as this checkout reads them."""

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sweeper.space.problems import SearchSpaceError
from sweeper.space.scales import Scale, Varied
from sweeper.store.store import Store, SweepRecord
from sweeper.trial.entry_names import decoded
from sweeper.trial.kinds import Goal
from sweeper.trial.remembered import remembered

if TYPE_CHECKING:
    from sweeper.space.sweep_spec import SweepSpec


def recorded_space(record: SweepRecord, store: Store) -> "SweepSpec | None":
    """The search space of a start; None if this checkout cannot read it."""
    from sweeper.packs import start_from  # with the language of spaces it takes a second to import, for JAX
    from sweeper.space import search_space

    try:
        space = start_from.of_store(search_space.of_text(f"{record.name}.yaml", record.text, record.overrides), store)
        if space.search.halving is not None:
            space.expand()  # as all callers ask such a space for its searches
    except SearchSpaceError:
        return None
    return space


class Asked(NamedTuple):
    """What a space asks of the tables of its trials, and of a cluster."""

    goal: Goal | None = None  # what settings are ranked by; None if the kind of trial says it
    metrics: tuple[str, ...] = ()  # further columns
    resources: Mapping[str, Any] = {}  # for its packs, where they are not the defaults
    entries: tuple[str, ...] = ()  # of its trials, by dotted path: those left open, and then the others that it writes
    varied: Mapping[str, Varied] = {}  # those that it varies
    halves: bool = False  # whether its trials compete while they train, so that its results are those of the winners


NOTHING = Asked()


def asked_by(space: "SweepSpec") -> Asked:
    """What a space asks for."""
    from sweeper.space.varied_entries import varied_entries

    resources = space.resources.model_dump(exclude_defaults=True)
    halves = space.search.halving is not None
    return Asked(space.search.goal, space.metrics, resources, space.entries, varied_entries(space.tree), halves)


def asked_of(record: SweepRecord) -> Asked:
    """What the space of a start asks for; nothing if this checkout cannot read it."""
    try:
        goal, metrics, resources, entries, found, halves = _asked(
            record.name, record.text, json.dumps(record.overrides)
        )
    except SearchSpaceError:
        return NOTHING
    varied = {path: Varied(scale and Scale(*scale), decoded(values)) for path, (scale, values) in found.items()}
    return Asked(goal and Goal(*goal), tuple(metrics), resources, tuple(entries), varied, halves)


@functools.lru_cache(1000)
@remembered
def _asked(name: str, text: str, overrides: str) -> list[Any]:
    from sweeper.space import search_space

    return list(asked_by(search_space.of_text(f"{name}.yaml", text, json.loads(overrides))))
