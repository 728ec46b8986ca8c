"""What a start of a sweep would do: made from the space, the committed rows and their fingerprints."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sweeper import events
from sweeper.analysis import cost
from sweeper.analysis.results import finite_values
from sweeper.messages import one_line
from sweeper.packs import conformance, other_code, plan, trial_timing
from sweeper.packs.work_sources import work_source
from sweeper.space import search_space
from sweeper.space.sweep_spec import SweepSpec, remarks
from sweeper.space.trial_names import TrialNames
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.trial import jax_settings, plugins, provenance
from sweeper.trial.fingerprint import Code, LoadedCode
from sweeper.trial.trial_spec import TrialSpec


class Changes(NamedTuple):
    """How many trials a start plans that the latest one did not, as that one did, and no longer."""

    added: int
    kept: int
    dropped: int


@dataclasses.dataclass(eq=False, repr=False)
class SweepPlan:
    """What a start of a sweep would do; printed, it is a few lines for people.

    Attributes:
        spec: The search space.
        store: The results store.
        origin: The provenance in the rows of this start.
        earlier: The sweep's earlier starts, in order.
        committed: Status of every trial in the store, by id, but for those in `superseded`.
        source: Hands out the packs to run, once.
        sentence: What is planned, in a sentence.
        other_code: A sentence about rows that other code has computed; None if there are none.
        superseded: Ids of rows of other code that training moves to `superseded/`, to compute them again.
        results: Folder or URL of the store, as it was typed.
        retry_failed: Whether failed trials are run again.
        recompute_other_code: Whether rows of other code are computed again.
        seen: The files of trials in the store, when it was read; None in a command, which trains at once.
        trained: Whether the packs of the source were handed out.
    """

    spec: SweepSpec
    store: Store
    origin: provenance.Provenance
    earlier: Sequence[SweepRecord]
    committed: Mapping[str, Status]
    source: plan.WorkSource
    sentence: str
    other_code: str | None
    superseded: Sequence[str]
    results: str
    retry_failed: bool
    recompute_other_code: bool
    seen: Mapping[str, object] | None
    trained: bool = False

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def trials(self) -> Mapping[str, TrialSpec]:
        """Every planned trial by its id. Of an adaptive search only the first are known."""
        return self.source.planned

    @property
    def settled(self) -> dict[str, Status]:
        """Status of the planned trials that have a row, by id."""
        return {key: self.committed[key] for key in self.trials if key in self.committed}

    @property
    def pending(self) -> list[str]:
        """Ids of the trials that training would run."""
        return [key for key in self.trials if self.committed.get(key) not in self.source.done]

    @property
    def changes(self) -> Changes | None:
        """What differs from the latest start; None if nothing does, or there was none."""
        before, now = set(self.earlier[-1].trial_ids) if self.earlier else None, set(self.trials)
        if before is None or before == now:
            return None
        return Changes(len(now - before), len(now & before), len(before - now))

    @property
    def remarks(self) -> list[str]:
        """A line for each kind of doubtful value, with its path; none of them refuses the sweep."""
        return remarks(self.trials.values(), self.spec.search)

    def lines(self) -> list[str]:
        """The plan in lines for people."""
        lines = [f"{self.spec.name}: {self.sentence}"]
        if self.other_code is not None:
            lines.append(f"  {self.other_code}")
        if (changes := self.changes) is not None:
            counts = f"{changes.added:,} added, {changes.kept:,} kept, {changes.dropped:,} no longer planned"
            lines.append(f"  since the last start: {counts}")
        return [*lines, *self.remarks, state(self.settled, len(self.pending))]

    def cost(self, tell: Callable[[str], None] = lambda line: None) -> str:
        """The estimated cost of the pending trials.

        Args:
            tell: Hears a line before each trial that is timed here. Timing on this machine's cores says nothing about a
                GPU.
        """

        def timed(trial: TrialSpec) -> trial_timing.Timing:
            tell(f"  timing some steps of {trial.task.name} {trial.baseline} m={trial.objective.m}")
            return trial_timing.timed(trial)

        pending = self.source.expected(self.pending)
        try:
            return cost.estimate(self.store, pending, None if self.spec.resources.gpus else timed)
        except Exception as error:  # any exception of a task or a model; a start would make failed rows of it
            return f"unknown, as a trial cannot be timed: {type(error).__name__}: {one_line(str(error))}"

    def event(self) -> events.SweepPlanned:
        """How much is planned, as far as the source knows by now."""
        kept = collections.Counter(status for status in self.settled.values() if status in self.source.done)
        return events.SweepPlanned(
            name=self.spec.name,
            trials=len(self.trials),
            done=kept["finished"] + kept["stopped"],
            failed=kept["failed"],
            steps=self.source.steps,
        )


def plan_sweep(
    space: str | Path | SweepSpec,
    results: str | Path,
    *,
    retry_failed: bool = False,
    recompute_other_code: bool = False,
    command: str | None = None,
) -> SweepPlan:
    """The plan of a sweep; `sweeper.plan` is this function.

    Args:
        space: A search space, or its file.
        results: Folder or URL of the store, which need not exist.
        retry_failed: Run failed trials again.
        recompute_other_code: Compute rows again that other code has computed.
        command: The command line in the provenance of rows, if there is one.

    Raises:
        ContractError: a task, a model or an objective breaks its contract.
        OtherCodeError: code was edited after this process had loaded it.
        PluginError: a plug-in cannot be loaded.
        SearchSpaceError: the space cannot be run.
        SettingsError: a setting of JAX that decides numbers has another value than in all trials.
        StoreError: the store cannot be read.
    """
    with plugins.contained():
        spec = space if isinstance(space, SweepSpec) else search_space.read(space)
        store = Store.open(results)
        jax_settings.require()
        origin = provenance.capture(command or provenance.command_line(["sweeper.train", str(spec.path)]))
        assert origin.code is not None
        earlier = [record for record in store.sweeps() if record.name == spec.name]
        if not any(_checked_by(record, spec, origin.code) for record in earlier):
            conformance.check_shapes(TrialNames(spec.variants).trials)
            search_space.check_panels(spec)
        store.files.remove_leftovers()
        seen = store.files.listing("trials") if command is None else None
        seals = store.seals()
        committed: dict[str, Status] = {key: seal.status for key, seal in seals.items()}
        done = plan.done_statuses(spec.search.stops_trials, retry_failed)

        def values(trials: Iterable[TrialSpec]) -> list[float]:
            return finite_values(store, trials, spec.search.metric)

        def planned() -> tuple[plan.WorkSource, str]:
            return work_source(spec, store, committed, done, values, origin.fingerprint)

        source, sentence = planned()
        LoadedCode(source.planned.values()).require_unchanged()
        counting = {key: seal for key, seal in seals.items() if seal.status in done}
        others = other_code.computed_by_other_code(source.planned, counting, origin.code)
        told = other_code.sentence(store, others, seals, recompute_other_code) if others else None
        superseded = others if recompute_other_code else []
        if superseded:
            for key in superseded:
                del committed[key]
            source, _ = planned()
    return SweepPlan(
        spec=spec,
        store=store,
        origin=origin,
        earlier=earlier,
        committed=committed,
        source=source,
        sentence=sentence,
        other_code=told,
        superseded=superseded,
        results=str(results),
        retry_failed=retry_failed,
        recompute_other_code=recompute_other_code,
        seen=seen,
    )


def state(settled: Mapping[str, Status], pending: int) -> str:
    """How many planned trials are done, and how many are to run."""
    counts = collections.Counter(settled.values())
    parts = [
        f"{counts['finished']:,} done",
        *(f"{counts[key]:,} {key}" for key in ("stopped", "failed") if counts[key]),
    ]
    return "  " + " · ".join([*parts, f"{pending:,} to run"])


def _checked_by(record: SweepRecord, spec: SweepSpec, code: Code) -> bool:
    """Whether an earlier start has checked these plug-ins and panels; a check is slow, as it traces an evaluation."""
    return (record.text, record.overrides, record.provenance.code) == (spec.text, spec.overrides, code)
