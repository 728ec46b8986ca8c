"""What a report draws: panels with their trials.

Panels come from the sweeps recorded in the store, which keep the text of their space, and show the trials that the
latest start of the sweep planned. Or panels come from search spaces given with `--space`, and show the trials of the
store that the space plans; a remark counts those that are missing.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from sweeper.analysis.halving_winners import elsewhere_line, finished_elsewhere
from sweeper.analysis.recorded_spaces import recorded_space
from sweeper.analysis.results import Results
from sweeper.messages import UserError, counted, one_line
from sweeper.packs import start_from
from sweeper.packs.plan import done_statuses
from sweeper.panels.kinds import Panel, Panels
from sweeper.space import search_space
from sweeper.space.problems import Refused
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import document_tree, overridden, plain
from sweeper.store.store import Store, SweepRecord


class ReportError(UserError, ValueError):
    """A request that cannot be met; the message is for the user."""


class Source(NamedTuple):
    """A sweep or a search space with its panels, and the trials behind its figures."""

    name: str
    panels: tuple[Panel, ...]
    results: Results  # the finished trials of `trial_ids`
    trial_ids: frozenset[str]  # of any status
    space: SweepSpec | None  # None if this checkout cannot read it
    remark: str = ""  # about an unusual choice of trials, or about trials that are missing
    variables: Mapping[str, Mapping[str, Any]] = {}  # see `SweepRecord.variables`


def sources(
    store: Store,
    everything: Results,
    spaces: Sequence[Path],
    sweeps: Sequence[str],
    panels_needed: bool = True,
) -> list[Source]:
    """The panels to draw and their trials: of the spaces, of the sweeps, or of every recorded sweep with panels.

    With `panels_needed` a list without any panel is refused, as are panels of `sweeps` that can no longer be read.
    """
    latest = store.latest_starts(sweeps)
    listed = [_of_space(store, everything, search_space.read(path)) for path in spaces]
    for name in sweeps or (() if spaces else latest):
        record = latest[name]
        ids, space = frozenset(record.trial_ids), recorded_space(record, store)
        ids, results, left_out = _without_losers(ids, everything, space, store)
        panels: tuple[Panel, ...] = ()
        try:
            panels = recorded_panels(record)
        except ReportError as error:
            if name in sweeps:
                raise
            left_out = "; ".join(filter(None, (left_out, one_line(str(error), 1000))))
        listed.append(Source(name, panels, results, ids, space, left_out, record.variables))
    if panels_needed and not any(source.panels for source in listed):
        named = ", ".join([*map(str, spaces), *(sweeps if spaces else sweeps or latest)])
        unreadable = [f"\n{source.name}: {source.remark}" for source in listed if source.remark]
        refusal = f"no panels are declared in {named}{''.join(unreadable)}"
        raise ReportError(refusal if named else "the store has no sweep; give a --space")
    return listed


def _without_losers(
    trial_ids: frozenset[str], everything: Results, space: SweepSpec | None, store: Store
) -> tuple[frozenset[str], Results, str]:
    """The trials without those of `finished_elsewhere`, their results, and a remark if any was left out."""
    results = everything.only(trial_ids)
    if not (elsewhere := finished_elsewhere(results.trials, space, store)):
        return trial_ids, results, ""
    return trial_ids - elsewhere, results.only(trial_ids - elsewhere), elsewhere_line(elsewhere)


def _of_space(store: Store, everything: Results, spec: SweepSpec) -> Source:
    """The panels of a space, and the trials that it plans; of a search that adapts, those that it has planned."""
    records = [record for record in store.sweeps() if record.name == spec.name]
    variables = dict(itertools.chain.from_iterable(record.variables.items() for record in records))
    spec = start_from.of_store(spec, store)
    recorded = frozenset(key for record in records for key in record.trial_ids)
    planned = recorded if spec.search.ADAPTS else frozenset(spec.expand().trial_ids)
    planned, results, remark = _without_losers(planned, everything, spec, store)
    committed, done = store.committed(), done_statuses(spec.search.stops_trials, retry_failed=True)
    missing = sum(committed.get(key) not in done for key in planned)
    if missing or not planned:
        remark = "; ".join(filter(None, (remark, f"{missing:,} of {counted(len(planned), 'trial')} not run yet")))
    return Source(spec.name, spec.panels, results, planned, spec, remark, variables)


def recorded_panels(record: SweepRecord) -> tuple[Panel, ...]:
    """The panels of a recorded sweep, whose trials need not be legal any more; the panels must be."""
    try:
        tree = document_tree(record.text)
        for override in record.overrides:
            tree = overridden(tree, override)
        entries = plain(tree)
        return TypeAdapter(Panels).validate_python(entries.get("panels", ()) if isinstance(entries, dict) else ())
    except (Refused, ValidationError) as error:
        message = f"the panels recorded with sweep '{record.name}' cannot be read; give its file with --space"
        raise ReportError(f"{message}\n{error}") from None
