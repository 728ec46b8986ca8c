"""The plan of a start of a sweep: its trials, which are committed, by which code, and what the rest costs."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sweeper import events
from sweeper.analysis import cost
from sweeper.analysis.results import finite_values
from sweeper.messages import one_line
from sweeper.packs import other_code, plan, trial_timing
from sweeper.packs.work_sources import work_source
from sweeper.space import search_space
from sweeper.space.sweep_spec import SweepSpec
from sweeper.starts.output import Output
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.trial import jax_settings, provenance
from sweeper.trial.fingerprint import Code, LoadedCode
from sweeper.trial.trial_spec import TrialSpec


@dataclasses.dataclass(frozen=True)
class StartOptions:
    """The command line of `sweeper.run`."""

    space: Path
    results: str
    address: str | None
    dry_run: bool
    overrides: tuple[str, ...]
    retry_failed: bool
    recompute_other_code: bool
    concurrency: int | None
    argv: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PlannedSweep:
    """The plan of a start, before its packs run.

    Attributes:
        options: The command line.
        spec: The search space.
        store: The results store.
        origin: The provenance in the rows of this start.
        earlier: The sweep's earlier starts, in order.
        committed: Status of every trial in the store before the start, by id.
        source: Hands out the packs to run.
        output: Where to print.
    """

    options: StartOptions
    spec: SweepSpec
    store: Store
    origin: provenance.Provenance
    earlier: Sequence[SweepRecord]
    committed: Mapping[str, Status]
    source: plan.WorkSource
    output: Output

    @property
    def settled(self) -> dict[str, Status]:
        """Status of the planned trials that had a row before the start."""
        return {key: self.committed[key] for key in self.source.planned if key in self.committed}

    @property
    def pending(self) -> list[str]:
        """Ids of the pending trials."""
        return [key for key in self.source.planned if self.committed.get(key) not in self.source.done]

    def event(self) -> events.SweepPlanned:
        """How much is planned, as far as the source knows by now."""
        kept = collections.Counter(status for status in self.settled.values() if status in self.source.done)
        return events.SweepPlanned(
            name=self.spec.name,
            trials=len(self.source.planned),
            done=kept["finished"] + kept["stopped"],
            failed=kept["failed"],
            steps=self.source.steps,
        )


def planned_sweep(options: StartOptions, spec: SweepSpec, store: Store, output: Output) -> PlannedSweep:
    """The plan of a start, made from the committed rows and their fingerprints.

    Raises:
        OtherCodeError: code was edited after this process had loaded it.
        SearchSpaceError: a panel names what no trial of the space will have.
        SettingsError: a setting of JAX that decides numbers has another value than in all trials.
        StoreError: the store cannot be read.
    """
    jax_settings.require()
    origin = provenance.capture(options.argv)
    assert origin.code is not None
    earlier = [record for record in store.sweeps() if record.name == spec.name]
    if not any(_same_panels(record, spec, origin.code) for record in earlier):
        search_space.check_panels(spec)
    store.files.remove_leftovers()
    seals = store.seals()
    committed: dict[str, Status] = {key: seal.status for key, seal in seals.items()}
    done = plan.done_statuses(spec.search.stops_trials, options.retry_failed)

    def values(trials: Iterable[TrialSpec]) -> list[float]:
        return finite_values(store, trials, spec.search.metric)

    def planned() -> tuple[plan.WorkSource, str]:
        return work_source(spec, store, committed, done, values, origin.fingerprint)

    source, sentence = planned()
    LoadedCode(source.planned.values()).require_unchanged()
    output.say(f"{spec.name}: {sentence}")
    counting = {key: seal for key, seal in seals.items() if seal.status in done}
    others = other_code.computed_by_other_code(source.planned, counting, origin.code)
    if others:
        output.say(f"  {other_code.sentence(store, others, seals, options.recompute_other_code)}")
    if others and options.recompute_other_code:
        if not options.dry_run:
            store.supersede(others)
        for key in others:
            del committed[key]
        source, _ = planned()
    return PlannedSweep(options, spec, store, origin, earlier, committed, source, output)


def _same_panels(record: SweepRecord, spec: SweepSpec, code: Code) -> bool:
    """Whether an earlier start has checked these panels; a check is slow, as it traces an evaluation."""
    return (record.text, record.overrides, record.provenance.code) == (spec.text, spec.overrides, code)


def cost_of(sweep: PlannedSweep) -> str:
    """The estimated cost of the pending trials. Timing steps on this machine's cores says nothing about a GPU."""

    def timed(trial: TrialSpec) -> trial_timing.Timing:
        sweep.output.say(f"  timing some steps of {trial.task.name} {trial.baseline} m={trial.objective.m}")
        return trial_timing.timed(trial)

    pending = sweep.source.expected(sweep.pending)
    try:
        return cost.estimate(sweep.store, pending, None if sweep.spec.resources.gpus else timed)
    except Exception as error:  # any exception of a task or a model; a start would make failed rows of it
        return f"unknown, as a trial cannot be timed: {type(error).__name__}: {one_line(str(error))}"
