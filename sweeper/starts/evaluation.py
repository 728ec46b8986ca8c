"""One start of an evaluation of stored networks, from the choice of trials to the table of results.

Networks go to the workers of a cluster in packs, and an evaluation that exists is not repeated.
"""

import collections
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from sweeper import events
from sweeper.analysis import sql
from sweeper.analysis.evaluations import evaluation_rows
from sweeper.analysis.results import named_frame
from sweeper.analysis.settings_table import settings, settings_table
from sweeper.interruption import Interruption
from sweeper.messages import counted, inflected
from sweeper.packs import other_code
from sweeper.packs.network_evaluation import EvaluationPlan, ProtocolChanges, ProtocolError, evaluation_plan
from sweeper.packs.plan import ListedWork
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.resources import Resources
from sweeper.space.sweep_spec import SweepSpec
from sweeper.starts import on_cluster
from sweeper.starts.on_cluster import StartError
from sweeper.starts.output import Output
from sweeper.store.evaluations import protocol_id
from sweeper.store.store import NoNetworkError, Store, StoreError
from sweeper.trial import jax_settings, plugins, provenance
from sweeper.trial.fingerprint import LoadedCode, OtherCodeError
from sweeper.trial.jax_settings import SettingsError
from sweeper.trial.plugins import PluginError
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import trial_id

if TYPE_CHECKING:
    from sweeper import launch


MAX_READ = 100
"""At most so many networks are read to say why they were not evaluated."""


@dataclasses.dataclass(frozen=True)
class EvaluationOptions:
    """The command line of `sweeper.evaluate`.

    Attributes:
        space: The search space whose trials are evaluated; None if ids or a condition choose the trials.
        trial_ids: Ids of the trials to evaluate; empty if a space or a condition chooses the trials.
        where: A condition of SQL on the view `trials` that chooses the trials; None if a space or ids choose them.
        changes: Changes of the trials' protocols.
    """

    space: Path | None
    trial_ids: tuple[str, ...]
    where: str | None
    changes: ProtocolChanges
    results: str
    address: str | None
    dry_run: bool
    overrides: tuple[str, ...]
    recompute_other_code: bool
    concurrency: int | None
    argv: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PlannedEvaluation:
    """An evaluation before its packs run.

    Attributes:
        options: The command line.
        name: What the evaluation is called.
        store: The store with the networks, which also takes the evaluations.
        origin: The provenance in the rows of this start.
        resources: How the packs run.
        evaluation: The plan.
        output: Where to print.
    """

    options: EvaluationOptions
    name: str
    store: Store
    origin: Provenance
    resources: Resources
    evaluation: EvaluationPlan
    output: Output


def start(options: EvaluationOptions, interruption: Interruption) -> int:
    """Choose, evaluate and report; returns the exit code.

    Raises:
        KeyboardInterrupt: a signal came while no pack was running, or a second one.
    """
    output = Output()
    jax.config.update("jax_platforms", "cpu")  # only workers use accelerators
    try:
        store = Store.existing(options.results)
        with plugins.contained():
            spec = None if options.space is None else search_space.read(options.space, options.overrides)
            chosen = _chosen(options, spec, store)
        resources = Resources() if spec is None else spec.resources
        jax_settings.require()
        origin = provenance.capture(options.argv)
        plan = _plan(options, chosen, resources, store, origin)
        LoadedCode(plan.plan.trials.values()).require_unchanged()
    except (
        SearchSpaceError,
        SettingsError,
        StoreError,
        sql.QueryError,
        ProtocolError,
        PluginError,
        OtherCodeError,
    ) as error:
        output.complain(str(error))
        return 2
    name = "evaluation" if spec is None else spec.name
    planned = PlannedEvaluation(options, name, store, origin, resources, plan, output)
    _say(planned)
    if options.dry_run:
        return 0
    if plan.plan.work:
        try:
            _launched(planned, interruption)
        except StoreError as error:
            output.complain(str(error))
            return 1
        except StartError as error:
            output.complain(str(error))
            return error.code
    try:
        return _report(planned, interruption)
    except StoreError as error:
        output.complain(str(error))
        return 1


def _chosen(options: EvaluationOptions, spec: SweepSpec | None, store: Store) -> list[str]:
    """Ids of the chosen trials.

    Raises:
        SearchSpaceError, QueryError: the choice makes no sense.
    """
    if options.where is not None:
        answer = sql.table(f"select trial_id from trials where {sql.condition(options.where)}", store)
        return answer["trial_id"].to_pylist()
    if spec is None:
        return list(options.trial_ids)
    if spec.search.ADAPTS:
        starts = [record.trial_ids for record in store.sweeps() if record.name == spec.name]
        return list(starts[-1]) if starts else []
    return [trial_id(trial) for trial in spec.expand().trials]


def _plan(
    options: EvaluationOptions, chosen: Iterable[str], resources: Resources, store: Store, origin: Provenance
) -> EvaluationPlan:
    assert origin.code is not None
    return evaluation_plan(store, chosen, options.changes, origin.code, resources.lanes, options.recompute_other_code)


def _say(planned: PlannedEvaluation) -> None:
    """Print how many trials are to be evaluated, and how many cannot be."""
    evaluation, say = planned.evaluation, planned.output.say
    plan = evaluation.plan
    pending = sum(len(work.pending) for work in plan.work)
    counts = f"{len(plan.committed):,} evaluated · {pending:,} to evaluate"
    say(f"{planned.name}: {counted(len(plan.trials), 'network')} · {counts}")
    if others := evaluation.other_networks:
        commits = other_code.commits(planned.store, others, planned.store.seals(others))
        verb = inflected(len(others), "was", "were")
        say(f"  {counted(len(others), 'network')} {verb} trained by other code ({commits}) than evaluates now")
    if evaluation.other_code:
        again = planned.options.recompute_other_code
        happens = "made again" if again else "kept; --recompute-other-code makes them again"
        say(f"  {counted(len(evaluation.other_code), 'evaluation')} by other code: {happens}")
    for reason, count in evaluation.left_out.items():
        say(f"  left out: {counted(count, 'trial')}, of which each {reason}")


def _launched(planned: PlannedEvaluation, interruption: Interruption) -> "launch.Launched":
    """Evaluate all packs on a cluster; errors are those of `on_cluster.launched`."""
    from sweeper import launch  # Ray takes seconds to import

    options, plan = planned.options, planned.evaluation.plan
    source, done = ListedWork(plan), len(plan.committed)
    event = events.SweepPlanned(planned.name, trials=len(source.planned), done=done, failed=0, steps=source.steps)
    job = launch.Job(
        source=source,
        planned=lambda: event,
        store=planned.store,
        provenance=planned.origin,
        resources=planned.resources,
        work_kind=launch.NetworkEvaluation(options.changes),
        concurrency=options.concurrency,
    )
    return on_cluster.launched(job, options.address, planned.output, interruption)


def _report(planned: PlannedEvaluation, interruption: Interruption) -> int:
    """Print the table and the missing evaluations; returns the exit code."""
    options, store, origin, output = planned.options, planned.store, planned.origin, planned.output
    trials = planned.evaluation.plan.trials
    now = _plan(options, trials, Resources(), store, origin)
    left = sum(len(work.pending) for work in now.plan.work)
    if interruption.signum is not None:
        output.say(f"interrupted with {counted(left, 'network')} to go; this command carries on:\n  {origin.command}")
        return 128 + interruption.signum
    protocols = {key: protocol_id(options.changes.of(trial)) for key, trial in trials.items()}
    frame = evaluation_rows(store, store.trials(protocols), protocols).to_pandas()
    if len(frame):
        output.table(settings_table(settings(named_frame(frame))))
    lost = sum(now.left_out.values())
    if left or lost:
        output.complain(f"{left + lost:,} of {counted(len(trials), 'network')} are not evaluated")
        for reason, count in (collections.Counter(now.left_out) + unreadable_networks(store, now)).items():
            output.complain(f"  {counted(count, 'trial')}, of which each {reason}")
        return 1
    output.say(f'{counted(len(trials), "network")} evaluated; python -m sweeper.query "from evaluations" shows all')
    return 0


def unreadable_networks(store: Store, planned: EvaluationPlan) -> collections.Counter[str]:
    """Why networks that are not evaluated yet cannot be read: the number of trials by reason.

    Only the first networks are read.
    """
    pending = [key for work in planned.plan.work for key in work.pending][:MAX_READ]
    reasons: collections.Counter[str] = collections.Counter()
    for seal in store.seals(pending).values():
        try:
            store.network(seal)
        except NoNetworkError as error:
            reasons[str(error)] += 1
    return reasons
