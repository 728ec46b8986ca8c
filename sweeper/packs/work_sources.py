"""Which source of work a search has: the one place that knows them all."""

from collections.abc import Callable, Iterable, Mapping

from sweeper.messages import counted
from sweeper.packs.continued_checkpoint import holders
from sweeper.packs.halving import halving_work
from sweeper.packs.packing import cells
from sweeper.packs.plan import AdaptiveWork, ListedWork, WorkSource, plan
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status, Store
from sweeper.trial.trial_spec import TrialSpec


def work_source(
    spec: SweepSpec,
    store: Store,
    committed: Mapping[str, Status],
    done: frozenset[Status],
    values: Callable[[Iterable[TrialSpec]], list[float]],
    fingerprint: Callable[[TrialSpec], str | None],
) -> tuple[WorkSource, str]:
    """The source of the work of a sweep, and the plan in a sentence.

    Args:
        spec: The search space.
        store: Where rows and checkpoints are; nothing is written.
        committed: Status of every committed trial at the start.
        done: See `plan.done_statuses`.
        values: See `plan.AdaptiveWork`.
        fingerprint: See `halving.halving_work`.

    Raises:
        SearchSpaceError: values that are legal by themselves exclude each other.
        StoreError: the store cannot be read.
    """
    search = spec.search
    if search.ADAPTS:
        study = AdaptiveWork(spec, committed, done, values, holders(store, (), None))
        return study, search.title(len(study.planned))
    if search.halving is not None:
        halving = halving_work(spec, search.halving, store, committed, done, fingerprint)
        structures = cells(halving.planned.values())
        return halving, f"{search.title(len(halving.planned))} · {counted(len(structures), 'cell')}"
    expansion = spec.expand()
    trials = tuple(expansion.trials)
    planned = plan(trials, spec.pack_lanes, committed, done, holders(store, trials, spec.pack_lanes))
    counts = f"{counted(planned.cells, 'cell')} · {counted(planned.packs, 'pack')}"
    return ListedWork(planned), f"{expansion.summary} · {counts}"
