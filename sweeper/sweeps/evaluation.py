"""Stored networks evaluated by another protocol: a plan, its packs on a cluster, and the result.

An evaluation that exists is not repeated.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from sweeper import events, listeners
from sweeper.analysis.recorded_spaces import NOTHING, Asked, asked_by
from sweeper.analysis.results import evaluation_rows, named_frame
from sweeper.analysis.settings_table import settings, settings_table
from sweeper.interruption import Interruption
from sweeper.listeners import heartbeats
from sweeper.messages import counted, inflected, typed
from sweeper.packs import conformance, start_from
from sweeper.packs.network_evaluation import Changes, EvaluationPlan, evaluation_plan
from sweeper.packs.plan import ListedWork
from sweeper.progress import doing
from sweeper.space import search_space
from sweeper.space.resources import Resources
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store
from sweeper.sweeps import on_cluster
from sweeper.sweeps.on_cluster import Interrupted
from sweeper.sweeps.output import Output
from sweeper.trial import fingerprint, jax_settings, provenance
from sweeper.trial.loaded_code import LoadedCode
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial import Trial, used_plug_ins


@dataclasses.dataclass(frozen=True, repr=False)
class PlannedEvaluation:
    """An evaluation before its packs run; printed, it is a few lines for people."""

    name: str  # what the evaluation is called
    store: Store  # the store with the networks, which also takes the evaluations
    origin: Provenance  # the provenance in the rows of this start
    resources: Resources  # how the packs run
    changes: Changes  # changes of the trials' protocols
    evaluation: EvaluationPlan  # the trials, held against the store
    recompute_other_code: bool  # whether evaluations by other code are made again
    asked: Asked  # what the space asks for

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def trials(self) -> Mapping[str, Trial]:
        """The trials with a network, by id."""
        return self.evaluation.plan.trials

    def lines(self) -> list[str]:
        """How many networks are evaluated, how many are to be, and how many trials cannot be."""
        evaluation, plan = self.evaluation, self.evaluation.plan
        counts = f"{len(plan.committed):,} evaluated · {len(evaluation.pending):,} to evaluate"
        lines = [f"{self.name}: {counted(len(plan.trials), 'network')} · {counts}"]
        if count := len(evaluation.other_networks):
            lines.append(f"  {counted(count, 'network')} {inflected(count, 'is', 'are')} of other code")
        if count := len(evaluation.other_code):
            happens = "made again" if self.recompute_other_code else "kept; --recompute-other-code makes them again"
            lines.append(f"  {counted(count, 'evaluation')} of other code: {happens}")
        left_out = evaluation.left_out.items()
        return [*lines, *(f"  left out: {counted(count, 'trial')} ({reason})" for reason, count in left_out)]


@dataclasses.dataclass(frozen=True, repr=False)
class EvaluationResult:
    """What came out of an evaluation; printed, it is the table at the end of `python -m sweeper evaluate`.

    Attributes:
        trials: Number of networks that were to be evaluated.
        evaluations: One row an evaluation, with the columns of the view `evaluations`.
        left: Number of trials that are not evaluated.
        reasons: Why, as far as that is known: the number of trials by reason.
        asked: What the space asks of tables.
    """

    trials: int
    evaluations: pd.DataFrame
    left: int
    reasons: Mapping[str, int]
    asked: Asked = NOTHING

    def __repr__(self) -> str:
        return Output.text_of(self.tell)

    @property
    def complete(self) -> bool:
        """Whether every chosen network is evaluated."""
        return not self.left

    def tell(self, output: Output) -> None:
        if len(self.evaluations):
            output.table(settings_table(settings(self.evaluations), asked=self.asked))
        networks = counted(self.trials, "network")
        if self.complete:
            output.say(f"{networks} evaluated; {typed('query', 'from evaluations')} shows all")
            return
        output.complain(f"{self.left:,} of {networks} are not evaluated")
        for reason, count in self.reasons.items():
            output.complain(f"  {counted(count, 'trial')}: {reason}")


def plan_evaluation(
    chosen: str | Path | SweepSpec | Sequence[str],
    changes: Changes,
    results: str | Path,
    *,
    recompute_other_code: bool = False,
    command: str | None = None,
) -> PlannedEvaluation:
    """The plan of an evaluation of the trials of a space, or of trials by id; it raises what `sweeper.evaluate` raises.

    `command` is the command line in the provenance of rows.
    """
    store = Store.existing(results)
    with doing("planning"):
        spec = search_space.read(chosen) if isinstance(chosen, str | Path) else chosen
        if isinstance(spec, SweepSpec):
            name, ids, resources, asked = spec.name, _planned_ids(spec, store), spec.resources, asked_by(spec)
        else:
            name, ids, resources, asked = "evaluation", spec, Resources(), NOTHING
        jax_settings.require()
        plan = evaluation_plan(store, ids, changes, fingerprint.captured, resources.lanes, recompute_other_code)
        origin = provenance.capture(command or provenance.command_line(["sweeper.evaluate"]))
        LoadedCode(used_plug_ins(plan.plan.trials.values())).require_unchanged()
    return PlannedEvaluation(name, store, origin, resources, changes, plan, recompute_other_code, asked)


def evaluate(
    planned: PlannedEvaluation,
    *,
    address: str | None = None,
    concurrency: int | None = None,
    interruption: Interruption | None = None,
    output: Output | None = None,
) -> EvaluationResult:
    """Evaluate what is missing; see `sweeper.evaluate`.

    A command gives the interruption that has its signals, and the output for progress; otherwise signals are answered
    as long as packs run.
    """
    store, code = planned.store, planned.origin.code
    with contextlib.ExitStack() as stack:
        losses: list[events.TrialsLost] = []
        interruption = interruption or stack.enter_context(on_cluster.answering_signals("raise"))
        if not planned.evaluation.plan.work:
            heartbeats.remove_dead(store.files, planned.name)
        else:
            with doing("importing Ray"):
                from sweeper import launch

            source = ListedWork(planned.evaluation.plan)
            done = len(planned.evaluation.plan.committed)
            steps = source.steps(planned.evaluation.pending)
            event = events.SweepPlanned(planned.name, len(source.planned), done, 0, steps, source.programs)
            kind = launch.NetworkEvaluation(planned.changes)
            job = launch.Job(
                source,
                lambda: event,
                store,
                planned.origin,
                planned.resources,
                kind,
                concurrency,
                source.planned.values(),
            )
            output = output or Output.plain()
            own = listeners.of_sweep(store, planned.origin.command, interruption.ask)
            hearing = [listeners.view(output.out), *own]
            with doing("checking what plug-ins compute"):
                rehearsal = conformance.probe(source.planned.values(), code)
            losses, _ = on_cluster.launched(job, address, hearing, output, interruption, rehearsal)
        now = evaluation_plan(store, planned.trials, planned.changes, lambda: code, None, planned.recompute_other_code)
        if interruption.signum is not None:
            raise Interrupted(interruption.signum, len(now.pending), planned.origin.command)
    rows = evaluation_rows(store.trials(now.evaluations), now.evaluations.values())
    frame = named_frame(rows.to_pandas())
    reasons = collections.Counter(now.left_out)
    for loss in losses:
        reasons[loss.reason] += len(set(loss.trial_ids).intersection(now.pending))
    left = len(now.pending) + sum(now.left_out.values())
    return EvaluationResult(len(planned.trials), frame, left, +reasons, planned.asked)


def _planned_ids(spec: SweepSpec, store: Store) -> Iterable[str]:
    """Ids of the trials of a space; of an adaptive search, those that it has proposed so far."""
    if spec.search.ADAPTS:
        starts = [record.trial_ids for record in store.sweeps() if record.name == spec.name]
        return list(starts[-1]) if starts else []
    return start_from.of_store(spec, store).expand().trial_ids
