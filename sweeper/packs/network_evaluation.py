"""Evaluations of stored networks: the plan of the pending ones, and the run of a pack of them.

As for training, the store is the only memory, so that an interrupted evaluation goes on where it was: the chosen trials
with a network, minus the trials evaluated already. A trial is evaluated by its own protocol with the changes of the
command line.

Trials are evaluated and committed one by one, and a run that starts again passes over the trials that the same code has
committed. So an evaluation needs no checkpoint.
"""

import collections
import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import pyarrow as pa
from pydantic import ValidationError

from sweeper.events import PackProgressed
from sweeper.messages import UserError, instead
from sweeper.packs import device_memory, start_from
from sweeper.packs.failures import PluginRaised, kind_and_message
from sweeper.packs.other_code import computed_by_other_code
from sweeper.packs.plan import Plan, Run, Work, plan
from sweeper.packs.trained_trial import LoadError, with_network
from sweeper.store.seal import TrialSeal
from sweeper.store.store import NoNetworkError, Status, Store, TrialResult
from sweeper.store.trial_file import evaluation_seal, protocol_id
from sweeper.training import arithmetic
from sweeper.training.identity import of_evaluation
from sweeper.training.kind import kind_of
from sweeper.training.named_weights import network_of
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.fingerprint import Code
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial import Trial


class ProtocolError(UserError, ValueError):
    """A protocol that makes no sense for a trial; the message is one line."""


Changes = Mapping[str, Any]
"""Changed entries of the protocols of trials, by name; all others are each trial's own."""


def by_protocol(trial: Trial, changes: Changes) -> Trial:
    """A trial with changes of its protocol; a `ProtocolError` if they do not fit the rest.

    The id of the changed trial differs from that of its row, so it is for evaluations alone.
    """
    try:
        return trial.with_protocol(dict(changes))
    except ValidationError as error:
        wrong = error.errors()[0]
        place = "".join(f"{name}: " for name in wrong["loc"] if name in changes)
        raise ProtocolError(place + wrong["msg"].removeprefix("Value error, ")) from error
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _entries(trial: Trial) -> set[str]:
    """The names of what an evaluation may change of the protocol of a trial."""
    return set() if trial.protocol is None else type(trial.protocol).model_fields.keys() - {"name"}


def _require_entries(changes: Changes, trials: Collection[Trial]) -> None:
    """Refuse a change of an entry that none of the trials has, if there are any."""
    known = {name for trial in trials for name in _entries(trial)}
    if trials and (unknown := sorted(changes.keys() - known)):
        raise ProtocolError(f"{unknown[0]}: no trial is evaluated by such an entry{instead(unknown[0], sorted(known))}")


def _changed(key: str, trial: Trial, changes: Changes) -> Trial:
    """The trial with changes of its protocol; a `LoadError` or `ContractError` if it cannot be evaluated so."""
    if trial.protocol is None:
        raise LoadError(f"trial {key} has no protocol that could be changed")
    if missing := sorted(changes.keys() - _entries(trial)):
        raise LoadError(f"trial {key} has no entry '{missing[0]}' to be evaluated by")
    changed = by_protocol(trial, changes)
    with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
        misfit = kind_of(trial).misfit(trial, changed)
    if misfit is not None:
        raise ProtocolError(f"{trial.words}: {misfit}")
    return changed


@dataclass(frozen=True)
class EvaluationPlan:
    """An evaluation held against a store."""

    plan: Plan  # the trials with a network, in packs; a trial is done when it has an evaluation
    evaluations: Mapping[str, pa.Table]  # the rows of the evaluations that are there, by trial
    other_code: Collection[str]  # trials whose evaluation is by other code than this
    other_networks: Collection[str]  # trials whose network was trained by other code than this
    left_out: Mapping[str, int]  # why trials cannot be evaluated: their number by reason

    @property
    def pending(self) -> list[str]:
        """Ids of the trials that are to be evaluated."""
        return [key for work in self.plan.work for key in work.pending]


def evaluation_plan(
    store: Store,
    trial_ids: Iterable[str],
    changes: Changes,
    code: Callable[[], Code],
    lanes: int | None,
    recompute_other_code: bool,
) -> EvaluationPlan:
    """The plan of the pending evaluations of the chosen trials by changed protocols; for `lanes` see `packing.packs`.

    `code` is asked for the code that evaluates once the trials are known, as their plug-ins are loaded then.
    A protocol that makes no sense for a trial is a `ProtocolError`.
    """
    chosen = list(dict.fromkeys(trial_ids))
    seals = store.seals(chosen)
    rows = {row["trial_id"]: row for row in store.trials(chosen).to_pylist()}
    left_out: collections.Counter[str] = collections.Counter()
    loaded: dict[str, Trial] = {}
    protocols: dict[str, str] = {}
    for key in chosen:
        try:
            # Rows and seals are two looks at the store, and a commit or a deletion may have come between.
            if key not in rows or key not in seals:
                raise LoadError(f"trial {key} is not committed")
            loaded[key] = with_network(rows[key], seals[key])
            protocols[key] = protocol_id(_changed(key, loaded[key], changes).protocol)
        except (LoadError, ContractError) as error:
            left_out[str(error).removeprefix(f"trial {key} ")] += 1
    _require_entries(changes, loaded.values())
    trials = {key: loaded[key] for key in protocols}
    evaluated: dict[str, TrialSeal] = {}
    evaluations: dict[str, pa.Table] = {}
    for seal, row in store.evaluations({key: seals[key] for key in trials}):
        if seal.protocol == protocols[seal.trial_id]:
            evaluated[seal.trial_id], evaluations[seal.trial_id] = seal, row
    own = code()
    others = computed_by_other_code(trials, evaluated, own)
    done: dict[str, Status] = {key: "finished" for key in evaluated if not (recompute_other_code and key in others)}
    return EvaluationPlan(
        plan=plan(trials, lanes, done, frozenset({"finished"})),
        evaluations=evaluations,
        other_code=others,
        other_networks=computed_by_other_code(trials, seals, own),
        left_out=left_out,
    )


@dataclass
class EvaluationRun(Run):
    """Evaluates the pending trials of a pack by changed protocols, and commits each; `provenance` is in every row."""

    work: Work
    changes: Changes
    store: Store
    provenance: Provenance
    rows: dict[str, Status] = field(default_factory=dict)
    raised: list[PluginRaised] = field(default_factory=list)  # by the programs of trials

    def __post_init__(self) -> None:
        self.left = list(self.work.pending)
        self.begun = time.monotonic()

    def advance(self) -> PackProgressed:
        """Evaluate and commit one trial. A trial that has lost its network is passed over.

        What the program of a trial raises is raised after the other trials.
        """
        if self.left:
            key = self.left.pop(0)
            trial = self.work.pack.trials[self.work.pack.trial_ids.index(key)]
            try:
                if self._evaluated(key, trial):
                    self.rows[key] = "finished"
            except jax.errors.JaxRuntimeError as error:
                if device_memory.out_of_memory(error):
                    raise
                self.raised.append(PluginRaised(f"{': '.join(kind_and_message(error))}, trial {key}"))
        elif self.raised:
            raise self.raised[0]
        return self.progress()

    def progress(self) -> PackProgressed:
        """Progress of the run; an evaluated trial counts as its training steps."""
        steps, lanes = self.work.pack.trials[0].steps, len(self.work.pending)
        done = steps * (lanes - len(self.left))
        return PackProgressed(
            pack_id=self.work.pack.pack_id,
            phase="evaluating" if self.left or self.raised else "done",
            step=done // max(1, lanes),
            steps=steps,
            lanes=lanes,
            rows=dict(self.rows),
            train_loss=float("nan"),
            steps_per_second=done / max(1e-9, time.monotonic() - self.begun),  # by which the time left is told
        )

    def _evaluated(self, key: str, trial: Trial) -> bool:
        """Whether the trial has an evaluation now."""
        of = self.store.seals_of([trial]).get(key)
        if of is None or of.without_network is not None:
            return False
        changed = by_protocol(trial, self.changes)
        if self.store.has(evaluation_seal(of, changed.protocol, self.provenance.fingerprint(trial))):
            return True  # by an earlier worker, which died
        try:
            network = network_of(trial, self.store.weights(of))
            (whole,) = start_from.with_networks(self.store, [changed])
        except NoNetworkError:
            return False
        started = datetime.datetime.now(datetime.UTC)
        begun, cpu_begun = time.monotonic(), time.process_time()
        kind = kind_of(changed)
        evaluated = kind.evaluate(whole, kind.restored(whole, network), changed.steps)
        result = TrialResult(
            trial=changed,
            of=of,
            status="finished",
            metrics=evaluated.metrics,
            outcomes=evaluated.outcomes,
            timings={
                "evaluation_seconds": time.monotonic() - begun,
                "cpu_seconds": time.process_time() - cpu_begun,
                "peak_memory_bytes": device_memory.peak_bytes(),
            },
            provenance=self.provenance,
            pack_id=self.work.pack.pack_id,
            lanes=1,
            device=jax.devices()[0].device_kind,
            arithmetic=arithmetic.own(),
            programs=of_evaluation(changed, evaluated.program),
            data=kind.data(changed),
            started=started,
            finished=datetime.datetime.now(datetime.UTC),
        )
        self.store.commit(result)
        return True
