"""The trials that other trials start from: which these are, whether a training may start from them, and their networks.

A search space names such a trial by its id, or by its sweep. Every plan looks into the store again, so that a trial has
the id of the one that it starts from, and another id if the sweep has another trial meanwhile. A worker reads networks
from the store that takes its checkpoints; a training that goes on from a checkpoint needs none.

Invariants:
    - Which trial is found depends on the space and on the store alone. Of a sweep the latest start counts.
    - A training starts from the network of a finished trial only, as this network stays for ever: a stopped trial may
      be trained on, and a failed one may be trained again.
    - The plan refuses a trial that cannot start, with the place in the space. A trial that has a row is not trained
      again, so the plan does not ask whether it could start.
"""

import collections
import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.messages import one_line
from sweeper.packs.halving import searches_of, winners_of
from sweeper.packs.other_code import differences
from sweeper.packs.trained_trial import LoadError, with_network
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
from sweeper.trial.fingerprint import Code
from sweeper.trial.start_from import StartError, StartFrom, setting_digest
from sweeper.trial.trial import Trial, trial_id

Row = Mapping[str, Any]


def of_store(
    spec: SweepSpec, store: Store, code: Code | None = None, settled: Callable[[str], bool] = lambda key: False
) -> SweepSpec:
    """The space whose trials start from trials of this store.

    With the code of this process, trials that are not `settled` (by id) must be able to start.
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


def copy_start(trial: Trial, source: Store, target: Store) -> None:
    """Copy what a trial starts from, if it does, into a store in which the trial is to be trained."""
    if (name := _start_of(trial)) is not None:
        (seal,) = _seals(source, [name]).values()
        if (data := source.files.read(seal.name)) is not None:
            target.publish(seal, data)


def _start_of(trial: Trial) -> str | None:
    return None if trial.start_from is None else trial.start_from.trial


def _seals(store: Store, names: Collection[str]) -> Mapping[str, TrialSeal]:
    """The seals of trials from which others start; a `NoNetworkError` if one is gone."""
    seals = store.seals(names)
    if missing := [name for name in names if name not in seals]:
        raise NoNetworkError(f"trial {missing[0]}, from which a training starts, is not in the store any more")
    return seals


class _Search:
    """Looks for the trials of a store from which others start, for each once."""

    def __init__(self, own_name: str, store: Store, code: Code | None, settled: Callable[[str], bool]):
        self._own_name, self._store, self._code, self._settled = own_name, store, code, settled
        self._row, self._by_seed = functools.cache(self._read_row), functools.cache(self._read_by_seed)
        self._refusals: dict[tuple[str, Any], str | None] = {}  # by the id of a trial, and the structure of another

    def found(self, trial: Trial) -> Trial:
        """The trial with the id of the one that it starts from; a `StartError` if that is not there or will not do."""
        written = trial.start_from
        if written is None:
            return trial
        row = self._row(written.trial) if written.trial else self._row_of(written.sweep or "", trial.seed)
        start = StartFrom(trial=row["trial_id"], setting=setting_digest(json.loads(row["spec"])))
        trial = trial.model_copy(update={"start_from": start})
        if self._code is not None and not self._settled(trial_id(trial)):
            self._require(row, trial, self._code)
        return trial

    def _read_row(self, name: str) -> Row:
        rows = self._store.trials([name]).to_pylist()
        if not rows:
            raise StartError(f"there is no trial {name} in the store")
        return rows[0]

    def _row_of(self, sweep: str, seed: int) -> Row:
        """The row of the trial of a sweep that is meant by a trial with this training seed."""
        rows = self._by_seed(sweep).get(seed, [])
        if len(rows) != 1:
            found = f"{len(rows):,} trials" if rows else "no trial, or no winner of its search,"
            which = ": write the id of one" if rows else " in the store"
            raise StartError(f"the sweep '{sweep}' has {found} with this training seed{which}, got {seed}")
        return rows[0]

    def _read_by_seed(self, sweep: str) -> Mapping[int, Sequence[Row]]:
        """The trials that may be meant, by the training seed of the trial that names the sweep.

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
        rows = collections.defaultdict(list)
        for row in self._store.trials(record.trial_ids).to_pylist():
            if won is None or row["trial_id"] in won:
                rows[row["seed"] // (1 if halving is None else halving.starts)].append(row)
        return rows

    @functools.cached_property
    def _latest(self) -> Mapping[str, SweepRecord]:
        return self._store.latest_starts()

    def _winners(self, record: SweepRecord) -> frozenset[str]:
        space = of_store(search_space.of_text(f"{record.name}.yaml", record.text, record.overrides), self._store)
        return winners_of(space, searches_of(space), self._store)

    def _require(self, row: Row, trial: Trial, code: Code) -> None:
        key = row["trial_id"], jax.tree.structure(trial.for_programs())
        if key not in self._refusals:
            self._refusals[key] = self._refusal(row, trial, code)
        if (refusal := self._refusals[key]) is not None:
            raise StartError(refusal)

    def _refusal(self, row: Row, trial: Trial, code: Code) -> str | None:
        """Why a trial cannot start from the trial of a row; None if it can."""
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
        try:
            with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
                wanted, kept = kind_of(trial).startable(trial), kind_of(other).built(other)
        except ContractError as error:
            return str(error)
        if (difference := first_difference(named_leaves(wanted), named_leaves(kept))) is not None:
            weight, must, is_now = difference
            return f"the network of trial {name} does not fit: its weight {weight} is {is_now}, must be {must}"
        return None
