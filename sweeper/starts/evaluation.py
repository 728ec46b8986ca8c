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
from sweeper.messages import counted
from sweeper.packs.evaluation_plan import EvaluationPlan, ProtocolChanges, ProtocolError, evaluation_plan
from sweeper.packs.plan import ListedWork
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.resources import Resources
from sweeper.space.search import AdaptiveSearch
from sweeper.space.sweep_spec import SweepSpec
from sweeper.starts import on_cluster
from sweeper.starts.on_cluster import StartError
from sweeper.starts.output import Output
from sweeper.store.evaluations import protocol_id
from sweeper.store.networks import NoNetworkError, stored_weights
from sweeper.store.store import Store, StoreError
from sweeper.trial import provenance
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


def start(options: EvaluationOptions, interruption: Interruption) -> int:
    """Choose, evaluate and report; returns the exit code.

    Raises:
        KeyboardInterrupt: a signal came while no pack was running, or a second one.
    """
    output = Output()
    jax.config.update("jax_platforms", "cpu")  # only workers use accelerators
    try:
        store = Store.existing(options.results)
        spec = None if options.space is None else search_space.read(options.space, options.overrides)
        chosen = _chosen(options, spec, store)
        resources = Resources() if spec is None else spec.resources
        origin = provenance.capture(options.argv)
        planned = _planned(options, chosen, resources, store, origin)
    except (SearchSpaceError, StoreError, sql.QueryError, ProtocolError) as error:
        output.complain(str(error))
        return 2
    name = "evaluation" if spec is None else spec.name
    _say(output, name, planned, options.recompute_other_code)
    if options.dry_run:
        return 0
    if planned.plan.work:
        try:
            _launched(options, name, resources, planned, store, origin, output, interruption)
        except StoreError as error:
            output.complain(str(error))
            return 1
        except StartError as error:
            output.complain(str(error))
            return error.code
    try:
        return _report(options, planned, store, origin, output, interruption)
    except StoreError as error:
        output.complain(str(error))
        return 1


def _chosen(options: EvaluationOptions, spec: SweepSpec | None, store: Store) -> list[str]:
    """Ids of the chosen trials.

    Raises:
        SearchSpaceError, QueryError: the choice makes no sense.
    """
    if options.where is not None:
        answer = sql.table(f"select trial_id from trials where ({options.where})", store)
        return answer["trial_id"].to_pylist()
    if spec is None:
        return list(options.trial_ids)
    if isinstance(spec.search, AdaptiveSearch):
        starts = [record.trial_ids for record in store.sweeps() if record.name == spec.name]
        return list(starts[-1]) if starts else []
    return [trial_id(trial) for trial in spec.expand().trials]


def _planned(
    options: EvaluationOptions, chosen: Iterable[str], resources: Resources, store: Store, origin: Provenance
) -> EvaluationPlan:
    assert origin.code is not None
    return evaluation_plan(store, chosen, options.changes, origin.code, resources.lanes, options.recompute_other_code)


def _say(output: Output, name: str, planned: EvaluationPlan, recompute: bool) -> None:
    """Print how many trials are to be evaluated, and how many cannot be."""
    pending = sum(len(work.pending) for work in planned.plan.work)
    done = len(planned.plan.committed)
    output.say(f"{name}: {counted(len(planned.plan.trials), 'network')} · {done:,} evaluated · {pending:,} to evaluate")
    if planned.other_code:
        happens = "made again" if recompute else "kept; --recompute-other-code makes them again"
        output.say(f"  {counted(len(planned.other_code), 'evaluation')} by other code: {happens}")
    for reason, count in planned.left_out.items():
        output.say(f"  left out: {counted(count, 'trial')}, of which each {reason}")


def _launched(
    options: EvaluationOptions,
    name: str,
    resources: Resources,
    planned: EvaluationPlan,
    store: Store,
    origin: Provenance,
    output: Output,
    interruption: Interruption,
) -> "launch.Launched":
    """Evaluate all packs on a cluster; errors are those of `on_cluster.launched`."""
    from sweeper import launch  # Ray takes seconds to import

    source = ListedWork(planned.plan)
    done = len(planned.plan.committed)
    event = events.SweepPlanned(name, trials=len(source.planned), done=done, failed=0, steps=source.steps)
    job = launch.Job(
        source=source,
        planned=lambda: event,
        store=store,
        provenance=origin,
        resources=resources,
        work_kind=launch.NetworkEvaluation(options.changes),
        concurrency=options.concurrency,
    )
    return on_cluster.launched(job, options.address, output, interruption)


def _report(
    options: EvaluationOptions,
    planned: EvaluationPlan,
    store: Store,
    origin: Provenance,
    output: Output,
    interruption: Interruption,
) -> int:
    """Print the table and the missing evaluations; returns the exit code."""
    trials = planned.plan.trials
    now = _planned(options, trials, Resources(), store, origin)
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
    for entry in store.entries(pending):
        try:
            stored_weights(store, entry)
        except NoNetworkError as error:
            reasons[str(error)] += 1
    return reasons
