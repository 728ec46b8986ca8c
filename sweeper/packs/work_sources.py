"""Which source of work a search has: the one place that knows them all."""

from collections.abc import Callable, Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.packs.continued_checkpoint import holders
from sweeper.packs.halving import halving_work
from sweeper.packs.packing import cells
from sweeper.packs.plan import AdaptiveWork, ListedWork, WorkSource, plan
from sweeper.space.halving_search import HalvingSearch
from sweeper.space.search import AdaptiveSearch
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
    if isinstance(spec.search, AdaptiveSearch):
        study = AdaptiveWork(spec, committed, done, values, holders(store, (), None))
        searched = f"{spec.search.TITLE} of {counted(spec.search.trials or 0, 'setting')}"
        return study, f"{searched}, {counted(len(study.planned), 'trial')} so far"
    if isinstance(spec.search, HalvingSearch):
        halving = halving_work(spec, store, committed, done, fingerprint)
        searches = f"{len(halving.searches):,} {inflected(len(halving.searches), 'search', 'searches')}"
        structures = counted(len(cells(halving.planned.values())), "cell")
        return halving, f"{searches} of {spec.search.starts:,} trials · {structures}"
    expansion = spec.expand()
    trials = tuple(expansion.trials)
    planned = plan(trials, spec.pack_lanes, committed, done, holders(store, trials, spec.pack_lanes))
    counts = f"{counted(planned.cells, 'cell')} · {counted(planned.packs, 'pack')}"
    return ListedWork(planned), f"{expansion.summary} · {counts}"
