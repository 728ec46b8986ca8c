"""What a start of a sweep would do: made from the space, the committed rows and their fingerprints."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sweeper import events
from sweeper.analysis import cost
from sweeper.messages import counted
from sweeper.packs import conformance, other_code, plan, start_from
from sweeper.packs.work_sources import work_source
from sweeper.progress import doing
from sweeper.space import search_space
from sweeper.space.panel_names import wrong_names
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec, remarks
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.trial import jax_settings, provenance
from sweeper.trial.loaded_code import LoadedCode
from sweeper.trial.trial import Trial, used_plug_ins


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
        other_code: What holds of rows that other code has computed, a sentence a line; None if there are none.
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
    def trials(self) -> Mapping[str, Trial]:
        """Every planned trial by its id. Of an adaptive search only the first are known."""
        return self.source.planned

    @property
    def settled(self) -> dict[str, Status]:
        """Status of the planned trials that have a row, by id."""
        return {key: self.committed[key] for key in self.trials if key in self.committed}

    @property
    def pending(self) -> list[str]:
        """Ids of the trials that training would run."""
        return self.lacking(self.committed)

    def lacking(self, committed: Mapping[str, Status]) -> list[str]:
        """Ids of the trials that training would run if these had rows, of these statuses."""
        return [key for key in self.trials if committed.get(key) not in self.source.done]

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

    @property
    def same_as_before(self) -> bool:
        """Whether the latest start was of the same space, with the same overrides and code."""
        this = (self.spec.text, self.spec.overrides, self.origin.code)
        return bool(self.earlier) and this == (
            self.earlier[-1].text,
            self.earlier[-1].overrides,
            self.earlier[-1].provenance.code,
        )

    def check(self) -> None:
        """Refuse plug-ins whose methods break their contracts, by shapes, and panels of names that no trial has.

        Nothing is checked if the latest start was of the same space and code, as it has done so.
        """
        if self.same_as_before:
            return
        with doing("tracing the methods of plug-ins"):
            conformance.check_shapes(self.spec.names.trials, self.spec.resources.networks)
            if problems := list(wrong_names(self.spec, traced=True)):
                raise SearchSpaceError(str(self.spec.path), problems)

    def lines(self) -> list[str]:
        lines = [f"{self.spec.name}: {self.sentence}"]
        lines += [f"  {sentence}" for sentence in (self.other_code or "").splitlines()]
        if (changes := self.changes) is not None:
            counts = f"{changes.added:,} added, {changes.kept:,} kept, {changes.dropped:,} no longer planned"
            lines.append(f"  since the last start: {counts}")
        return [*lines, *self.left_out, *self.remarks, state(self.settled, len(self.pending))]

    @property
    def left_out(self) -> list[str]:
        """A line for each condition of the space, with the number of settings that it leaves out, which may be 0."""
        of = f" of {counted(self.source.settings, 'setting')} left out: "
        conditions = dict.fromkeys(node.value.text for node in self.spec.exclusions)
        return [f"  {self.source.left_out[condition]:,}{of}{condition}" for condition in conditions]

    def cost(self) -> str:
        """The estimated cost of the pending trials."""
        return cost.estimate(self.store, self.source.expected(self.pending))

    def event(self) -> events.SweepPlanned:
        """How much is planned, as far as the source knows by now."""
        kept = collections.Counter(status for status in self.settled.values() if status in self.source.done)
        return events.SweepPlanned(
            name=self.spec.name,
            trials=len(self.trials),
            done=kept["finished"] + kept["stopped"],
            failed=kept["failed"],
            steps=self.source.steps(self.pending),
            programs=self.source.programs,
        )


def plan_sweep(space: str | Path | SweepSpec, results: str | Path, **options: Any) -> SweepPlan:
    """The plan of a sweep; see `sweeper.plan`, and `unchecked_plan` for the options."""
    plan = unchecked_plan(space, results, **options)
    plan.check()
    return plan


def unchecked_plan(
    space: str | Path | SweepSpec,
    results: str | Path,
    *,
    retry_failed: bool = False,
    recompute_other_code: bool = False,
    command: str | None = None,
) -> SweepPlan:
    """The plan of a sweep before `SweepPlan.check`. `command` is the command line in the provenance of rows."""
    with doing("planning"):
        spec = space if isinstance(space, SweepSpec) else search_space.read(space)
        store = Store.open(results)
        jax_settings.require()
        origin = provenance.capture(command or provenance.command_line(["sweeper.train", str(spec.path)]))
        earlier = [record for record in store.sweeps() if record.name == spec.name]
        store.files.remove_leftovers()
        seen = store.files.listing("trials") if command is None else None
        seals = store.seals()
        committed: dict[str, Status] = {key: seal.status for key, seal in seals.items()}
        done = plan.done_statuses(spec.search.stops_trials, retry_failed)
        spec = start_from.of_store(spec, store, origin.code, lambda key: committed.get(key) in done)

        def values(trials: Iterable[Trial], metric: str) -> list[float] | None:
            from sweeper.analysis.results import finite_values  # imports pandas, which only a search that adapts needs

            return finite_values(store, trials, metric)

        planned = functools.partial(work_source, spec, store, committed, done, values, origin.fingerprint)
        source, sentence = planned()
        LoadedCode(used_plug_ins(source.planned.values())).require_unchanged()
        counting = {key: seal for key, seal in seals.items() if seal.status in done}
        others = other_code.computed_by_other_code(source.planned, counting, origin.code)
        superseded = other_code.superseded(others, seals, recompute_other_code)
        differs = other_code.differences(store, {key: source.planned[key] for key in others}, seals, origin.code)
        sentences = other_code.sentences(others, superseded, differs)
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
        other_code="\n".join(sentences) or None,
        superseded=superseded,
        results=str(results),
        retry_failed=retry_failed,
        recompute_other_code=recompute_other_code,
        seen=seen,
    )


def state(settled: Mapping[str, Status], pending: int) -> str:
    counts = collections.Counter(settled.values())
    parts = [
        f"{counts['finished']:,} done",
        *(f"{counts[key]:,} {key}" for key in ("stopped", "failed") if counts[key]),
    ]
    return "  " + " · ".join([*parts, f"{pending:,} to run"])
