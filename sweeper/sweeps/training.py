"""Trains what a plan lacks: on a Ray cluster, or pack after pack in this process.

A single pack for one core trains in this process, unless the user has named a cluster.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sweeper import events, listeners
from sweeper.analysis.results import finite_values
from sweeper.events import Event, Listener
from sweeper.interruption import Interruption
from sweeper.listeners import heartbeats
from sweeper.messages import counted
from sweeper.packs import conformance, start_from
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack
from sweeper.packs.plan import ListedWork
from sweeper.packs.rehearsal import Rehearsal, here
from sweeper.packs.trained_trial import current_trial
from sweeper.progress import doing
from sweeper.space.resources import Resources
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store, SweepRecord
from sweeper.sweeps import on_cluster
from sweeper.sweeps.in_process import trained as trained_in_process
from sweeper.sweeps.on_cluster import Interrupted, SweepError
from sweeper.sweeps.output import Output
from sweeper.sweeps.sweep_plan import SweepPlan, plan_sweep
from sweeper.sweeps.sweep_result import SweepResult, sweep_result
from sweeper.trial import jax_settings, provenance, vectorisation
from sweeper.trial.trial import trial_id

if TYPE_CHECKING:
    from sweeper import launch


class LimitsWatch:
    """A listener that ends its start at the first limit of its space. The goal may be reached before: then it ends at
    once.

    It ends as after Ctrl-C: running packs leave checkpoints, and the next start goes on.
    """

    def __init__(self, plan: SweepPlan, interruption: Interruption, clock: Callable[[], float] = time.monotonic):
        self._plan, self._interruption, self._limits = plan, interruption, plan.spec.limits
        self._clock, self._begun, self._failed = clock, clock(), 0
        self.goal_reached = False
        self._compare(key for key, status in plan.settled.items() if status == "finished")

    def hear(self, event: Event) -> None:
        limits = self._limits
        match event:
            case events.Ticked() if limits.hours is not None and self._clock() - self._begun >= 3600 * limits.hours:
                self._interruption.end(f"limits.hours: {counted(limits.hours, 'hour')} are over")
            case events.TrialCommitted(status="failed"):
                self._failed += 1
                if self._failed == limits.failures:
                    self._interruption.end(f"limits.failures: {counted(self._failed, 'trial')} failed")
            case events.TrialCommitted(trial_id=trial_id, status="finished"):
                self._compare([trial_id])
            case _:
                pass

    def _compare(self, finished: Iterable[str]) -> None:
        goal = self._limits.goal
        if goal is None or self.goal_reached:
            return
        trials = [self._plan.trials[key] for key in finished]
        for value in filter(goal.reached, finite_values(self._plan.store, trials, goal.metric) or ()):
            self.goal_reached = True
            self._interruption.end(f"limits.goal: {goal.metric} is {value:.6g}")


def train_plan(
    plan: SweepPlan,
    *,
    in_process: bool = False,
    address: str | None = None,
    concurrency: int | None = None,
    on_event: Listener | None = None,
    interruption: Interruption | None = None,
    output: Output | None = None,
) -> SweepResult:
    """Train, evaluate and commit what a plan lacks; see `sweeper.train`.

    A plan that was trained before, or whose store has changed, is made anew first. A command gives the interruption
    that has its signals, and the output for progress; otherwise signals are answered as long as packs run.
    """
    plan = _fresh(plan)
    in_process = in_process or (address is None and _needs_no_cluster(plan))
    store, command = plan.store, plan.origin.command
    jax_settings.require()
    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = stack.enter_context(on_cluster.answering_signals("note" if in_process else "raise"))
        output = output or Output.plain()
        limits = LimitsWatch(plan, interruption)
        own = listeners.of_sweep(store, command, interruption.ask)
        hearing = [on_event or listeners.view(output.out), limits.hear, *own]
        for line in _other_starts(plan):
            output.complain(line)
        rehearsal = _checked(plan, in_process)
        _prepare(plan)
        losses, refused = (), False
        if plan.source.exhausted:
            heartbeats.remove_dead(store.files, plan.spec.name)
        if not (plan.source.exhausted or interruption.asked):
            if in_process:
                losses, refused = trained_in_process(plan, hearing, output, interruption)
            else:
                job = _job(plan, concurrency)
                losses, refused = on_cluster.launched(job, address, hearing, output, interruption, rehearsal)
        if interruption.signum is not None:
            raise Interrupted(interruption.signum, len(plan.lacking(store.committed())), command)
        return sweep_result(plan, losses, refused, address, interruption.limit, limits.goal_reached)


def rehearse(plan: SweepPlan, address: str | None) -> None:
    """Refuse what `train_plan` would refuse before its first step; nothing is trained, and Ray is not started."""
    in_process = address is None and _needs_no_cluster(plan)
    rehearsal = _checked(plan, in_process)
    if not in_process and rehearsal.trials:
        with doing("importing Ray"):
            from sweeper import launch
        try:
            launch.rehearsed(plan.spec.resources, rehearsal, plan.spec.names.trials, _text(plan))
        except launch.LaunchError as error:
            raise SweepError(str(error), 2) from error


def _needs_no_cluster(plan: SweepPlan) -> bool:
    """Whether a plan is a single pack for one core, which starts sooner in this process than in a worker."""
    resources, source = plan.spec.resources, plan.source
    return (
        "RAY_ADDRESS" not in os.environ
        and isinstance(source, ListedWork)
        and len(source.upcoming()) == 1
        and (resources.cpus, resources.gpus, resources.population_workers) == (1, 0, 0)
        and resources.progress_seconds == Resources().progress_seconds  # only a worker can be ended
        and vectorisation.in_turns()  # which starts JAX, as the training would
    )


def _other_starts(plan: SweepPlan) -> list[str]:
    """A line for each start of the sweep that runs: a terminal that was closed may have left one behind."""
    if plan.source.exhausted:
        return []
    found = [driver for driver in heartbeats.drivers(plan.store.files, plan.spec.name) if driver.lives]
    end = "which trains the same trials; Ctrl-C here leaves them to it"
    return [f"{plan.spec.name} also runs on {driver.heartbeat.place}, {end}" for driver in found]


def _job(plan: SweepPlan, concurrency: int | None) -> "launch.Job":
    """The packs of a sweep, to be run on Ray."""
    with doing("importing Ray"):
        from sweeper import launch

    kind, resources = launch.Training(plan.spec.search.early_stopping), plan.spec.resources
    trials, text = plan.spec.names.trials, _text(plan)
    return launch.Job(plan.source, plan.event, plan.store, plan.origin, resources, kind, concurrency, trials, text)


def _text(plan: SweepPlan) -> str:
    """What the space and its overrides say, which may name files that workers need."""
    return "\n".join([plan.spec.text, *plan.spec.overrides])


def _fresh(plan: SweepPlan) -> SweepPlan:
    """The plan, made anew if it was trained or its store has changed."""
    if not plan.trained and (plan.seen is None or plan.seen == plan.store.files.listing("trials")):
        return plan
    return plan_sweep(
        plan.spec,
        plan.results,
        retry_failed=plan.retry_failed,
        recompute_other_code=plan.recompute_other_code,
        command=plan.origin.command,
    )


def _checked(plan: SweepPlan, in_process: bool) -> Rehearsal:
    """Check what the plug-ins of new code compute; the rehearsal on Ray is left."""
    with doing("checking what plug-ins compute"):
        rehearsal = conformance.probe([plan.trials[key] for key in plan.pending], plan.origin.code, in_process)
        if in_process:
            with rehearsal.elsewhere(here()):
                pass
    return rehearsal


def _prepare(plan: SweepPlan) -> None:
    """Take rows of other code away, and record the plan."""
    if plan.superseded:  # but for what another start has computed anew since
        seals, now = plan.store.seals(plan.superseded), plan.origin.fingerprint
        plan.store.supersede([key for key, seal in seals.items() if seal.fingerprint != now(plan.trials[key])])
    _record(plan)
    plan.trained = True
    plan.source.grown = lambda: _record(plan)


def train_one(spec: SweepSpec, store: Store, wanted: str, output: Output) -> bool:
    """Train and evaluate one trial of a space in this process, to debug it; whether it has finished.

    What its row would say is printed, and no store gets the row.
    The trial is the one whose id begins with `wanted`; those of an adaptive search are looked for in the store.
    Whatever a plug-in raises passes through with its traceback, also what the checks of a start would have worded.
    """
    jax_settings.require()
    if spec.search.halving is None and not spec.search.ADAPTS:
        trials = {trial_id(trial): trial for trial in start_from.of_store(spec, store).expand().trials}
    else:
        trials = {row["trial_id"]: current_trial(row) for row in store.trials().to_pylist()}
    found = {key: trial for key, trial in trials.items() if key.startswith(wanted)}
    if len(found) != 1:
        known = ", ".join(list(found or trials)[:3])
        raise SweepError(f"--trial {wanted}: {counted(len(found), 'id')} of trials begin so (known: {known} …)", 2)
    (trial,) = found.values()
    output.say(f"{trial.words}, not stored")
    with tempfile.TemporaryDirectory() as folder:
        kept = Store.open(folder)
        start_from.copy_networks(trial, store, kept)
        origin = provenance.capture(provenance.command_line(sys.argv))
        pack = Pack((trial,))
        run = PackRun(pack, pack.trial_ids, Destination(kept, origin, outcomes=False, networks=False))
        while (progress := run.advance()).phase != "done":
            output.say(f"  step {progress.step:,} of {progress.steps:,} · loss {progress.train_loss:.6g}")
        (row,) = kept.trials(pack.trial_ids).to_pylist()
    output.say("\n".join(f"  {name} {value}" for name, value in row.items() if isinstance(value, float)))
    output.say(f"{row['status']}{'' if row['error_message'] is None else ': ' + str(row['error_message'])}")
    return row["status"] == "finished"


def _record(plan: SweepPlan) -> None:
    spec, source = plan.spec, plan.source
    plan.store.record_sweep(
        SweepRecord(
            name=spec.name,
            text=spec.text,
            overrides=spec.overrides,
            trial_ids=tuple(source.planned),
            variables=source.variables,
            provenance=plan.origin,
        )
    )
