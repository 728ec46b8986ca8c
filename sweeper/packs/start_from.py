"""The trials whose networks others need, to start from or in a field: which these are, if they will do, their networks.

A search space names such a trial by its id, or by its sweep. Every plan looks into the store again, so that a trial has
the id of the one that it names, and another id if the sweep has another trial meanwhile. A worker reads networks from
the store that takes its checkpoints. A training that goes on from a checkpoint needs the network of a field (`Trained`)
again, and not the one that it started from.

Invariants:
    - Which trial is found depends on the space and on the store alone. Of a sweep the latest start counts.
    - The network is that of a finished trial, as this network stays for ever: a stopped trial may be trained on, and a
      failed one may be trained again.
    - The plan refuses a trial that cannot have its network, with the place in the space. A trial that has a row is not
      trained again, so the plan does not ask whether it could.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.messages import instead, one_line
from sweeper.packs.halving import searches_of, winners_of
from sweeper.packs.other_code import differences
from sweeper.packs.trained_trial import LoadError, current_trial, with_network
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.seal import TrialSeal
from sweeper.store.store import NoNetworkError, Store, SweepRecord
from sweeper.store.sweep_records import unknown_sweep
from sweeper.training.kind import kind_of
from sweeper.training.named_weights import first_difference, named_leaves, network_of
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.fingerprint import Code
from sweeper.trial.record import canonical
from sweeper.trial.start_from import StartError, StartFrom, replaced, setting_digest, starts_in
from sweeper.trial.trained import Trained
from sweeper.trial.trial import Trial, leaf_values, trial_id

AnyTrial = TypeVar("AnyTrial", bound=Trial)
Row = Mapping[str, Any]


def of_store(
    spec: SweepSpec, store: Store, code: Code | None = None, settled: Callable[[str], bool] = lambda key: False
) -> SweepSpec:
    """The space whose trials have the networks of trials of this store.

    With the code of this process, trials that are not `settled` (by id) must be able to have them.
    """
    return dataclasses.replace(spec, found=_Search(spec.name, store, code, settled).found)


def networks(store: Store, trials: Sequence[Trial]) -> PyTree:
    """The networks that trials of one structure start from, stacked in their order; None if they start fresh."""
    names = [name for name in map(_start_of, trials) if name is not None]
    if not names:
        return None
    seals = _seals(store, names)
    read = {name: network_of(trials[0], store.weights(seals[name])) for name in dict.fromkeys(names)}
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(read[name] for name in names))


def with_networks(store: Store, trials: Sequence[AnyTrial]) -> list[AnyTrial]:
    """The trials with the networks that their fields name, which programs take; they are for computing alone."""
    needed = {start.trial: start for trial in trials for _, start in starts_in(trial) if isinstance(start, Trained)}
    seals = _seals(store, list(filter(None, needed))) if needed else {}
    kept: dict[str | None, PyTree] = {
        name: jax.tree.map(np.asarray, network_of(start.as_trial, store.weights(seals[name or ""])))
        for name, start in needed.items()
    }
    whole = []
    for trial in trials:
        for path, start in starts_in(trial):
            if start.trial in kept and isinstance(start, Trained):
                trial = replaced(trial, path, start.model_copy(update={"kept": kept[start.trial]}))
        whole.append(trial)
    return whole


def copy_networks(trial: Trial, source: Store, target: Store) -> None:
    """Copy the trials whose networks a trial needs, if any, into a store in which the trial is to be trained."""
    for seal in _seals(source, [start.trial for _, start in starts_in(trial) if start.trial]).values():
        if (data := source.files.read(seal.name)) is not None:
            target.publish(seal, data)


def _start_of(trial: Trial) -> str | None:
    return None if trial.start_from is None else trial.start_from.trial


def _seals(store: Store, names: Collection[str]) -> Mapping[str, TrialSeal]:
    """The seals of trials whose networks others need; a `NoNetworkError` if one is gone."""
    seals = store.seals(names) if names else {}
    if missing := [name for name in names if name not in seals]:
        raise NoNetworkError(f"trial {missing[0]}, whose network a training needs, is not in the store any more")
    return seals


class _Search:
    """Looks for the trials of a store whose networks others need, for each once."""

    def __init__(self, own_name: str, store: Store, code: Code | None, settled: Callable[[str], bool]):
        self._own_name, self._store, self._code, self._settled = own_name, store, code, settled
        self._row, self._rows = functools.cache(self._read_row), functools.cache(self._read_rows)
        self._refusals: dict[tuple[str, Any], str | None] = {}  # by the id of a trial, and the structure of another

    def found(self, trial: Trial) -> Trial:
        """The trial with the ids of those that it names; a `StartError` if one is not there or will not do."""
        rows: dict[str, Row] = {}
        for path, written in starts_in(trial):
            with _at(path):
                row = rows[path] = self._row(written.trial) if written.trial else self._row_of(written, trial)
                known = {"trial": row["trial_id"], "setting": setting_digest(json.loads(row["spec"]))}
                if isinstance(written, Trained):
                    other = _experiment_of(row)
                    known |= {"experiment": other.experiment, "steps": other.steps}
                named = written.model_copy(update={**known, "sweep": None, "same": ("seed",)})
                trial = replaced(trial, path, named)
        if rows and self._code is not None and not self._settled(trial_id(trial)):
            for path, row in rows.items():
                with _at(path):
                    self._require(row, trial if path == "start_from" else None, self._code)
        return trial

    def _read_row(self, name: str) -> Row:
        rows = self._store.trials([name]).to_pylist()
        if not rows:
            raise StartError(f"there is no trial {name} in the store")
        return rows[0]

    def _row_of(self, start: StartFrom, trial: Trial) -> Row:
        """The row of the trial of a sweep that is meant by a field of a trial."""
        named = tuple(f"{path}." for path, _ in starts_in(trial))
        own = {path: value for path, value in leaf_values(canonical(trial)) if not path.startswith(named)}
        if unknown := [path for path in start.same if path not in own]:
            raise StartError(f"same: no entry of this trial is called {unknown[0]!r}{instead(unknown[0], list(own))}")
        wanted = {path: own[path] for path in start.same}
        rows = [row for shared, row in self._rows(start.sweep or "") if wanted.items() <= shared.items()]
        if len(rows) != 1:
            found = f"{len(rows):,} trials" if rows else "no trial, or no winner of its search,"
            which = ": write the id of one, or further entries under same" if rows else " in the store"
            equal = f" with the same {' and '.join(wanted)}" if wanted else ""
            got = ", got " + ", ".join(f"{path} {value}" for path, value in wanted.items()) if wanted else ""
            raise StartError(f"the sweep '{start.sweep}' has {found}{equal}{which}{got}")
        return rows[0]

    def _read_rows(self, sweep: str) -> Sequence[tuple[Mapping[str, Any], Row]]:
        """The trials of a sweep that may be meant, each with the entries by which it may be meant.

        Of a halving these are the winners, each by the training seed for which its search stands.
        """
        latest = self._latest
        if sweep == self._own_name:
            raise StartError("is this sweep itself, whose trials would be others at every start; give it another name")
        if sweep not in latest:
            raise StartError(f"{unknown_sweep(sweep, latest)}; it must be run first")
        record = latest[sweep]
        try:
            halving = search_space.search_of(record.text, record.overrides).halving
            won = None if halving is None else self._winners(record)
        except SearchSpaceError as error:
            raise StartError(f"the space of the sweep '{sweep}' cannot be read: {one_line(str(error))}") from error
        rows = self._store.trials(record.trial_ids).to_pylist()
        starts = 1 if halving is None else halving.starts
        return [
            (dict(leaf_values(json.loads(row["spec"]))) | {"seed": row["seed"] // starts}, row)
            for row in rows
            if won is None or row["trial_id"] in won
        ]

    @functools.cached_property
    def _latest(self) -> Mapping[str, SweepRecord]:
        return self._store.latest_starts()

    def _winners(self, record: SweepRecord) -> frozenset[str]:
        space = of_store(search_space.of_text(f"{record.name}.yaml", record.text, record.overrides), self._store)
        return winners_of(space, searches_of(space), self._store)

    def _require(self, row: Row, starting: Trial | None, code: Code) -> None:
        key = row["trial_id"], None if starting is None else jax.tree.structure(starting.for_programs())
        if key not in self._refusals:
            self._refusals[key] = self._refusal(row, starting, code)
        if (refusal := self._refusals[key]) is not None:
            raise StartError(refusal)

    def _refusal(self, row: Row, starting: Trial | None, code: Code) -> str | None:
        """Why the network of the trial of a row cannot be had, or be what a trial starts from; None if it can."""
        name, status = row["trial_id"], row["status"]
        if status != "finished":
            why = "failed" if status == "failed" else "was stopped early, and may be trained on to another network"
            return f"trial {name} {why}"
        seals = self._store.seals([name])
        if name not in seals:
            return f"trial {name} is not in the store any more"
        try:
            other = with_network(dict(row), seals[name])
        except LoadError as error:
            return str(error)
        if seals[name].fingerprint != code.fingerprint(other):
            differs = differences(self._store, {name: other}, seals, code)
            return f"trial {name} is of other code{differs}: its sweep with --recompute-other-code trains it again"
        if starting is None:
            return None
        try:
            with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
                wanted, kept = kind_of(starting).startable(starting), kind_of(other).built(other)
        except ContractError as error:
            return f"trial {name} cannot be started from: {error}"
        if (difference := first_difference(named_leaves(wanted), named_leaves(kept))) is not None:
            weight, must, is_now = difference
            fits = isinstance(starting, ExperimentTrial) * "; a field of the type Trained takes one of any shapes"
            return f"the network of trial {name} does not fit: its weight {weight} is {is_now}, must be {must}{fits}"
        return None


@contextlib.contextmanager
def _at(path: str) -> Iterator[None]:
    try:
        yield
    except StartError as error:
        raise StartError(str(error), path) from error


def _experiment_of(row: Row) -> ExperimentTrial:
    try:
        trial = current_trial(dict(row))
    except LoadError as error:
        raise StartError(str(error)) from error
    if not isinstance(trial, ExperimentTrial):
        raise StartError(f"trial {row['trial_id']} is no experiment, whose network alone a field can have")
    return trial
