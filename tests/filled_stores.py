"""A store with two sweeps, and everything that a store says."""

import dataclasses

from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.results import PROVENANCE, failure, outcomes, record, result

IDS = [trial_id(result({"seed": seed}).trial) for seed in range(6)]


def evaluate(store, seed=0, seeds=50, provenance=PROVENANCE):
    seal = store.seals([IDS[seed]])[IDS[seed]]
    trial = result({"seed": seed}).trial
    timings = {"evaluation_seconds": 1.0, "cpu_seconds": 1.0, "peak_memory_bytes": 10}
    made = result({"seed": seed}, provenance=provenance, metrics={"success": 0.5}, timings=timings, network=None)
    store.commit(dataclasses.replace(made, trial=trial.with_protocol({"seeds": seeds}), of=seal))


def filled(path):
    """A store with two sweeps, which share a trial, a failed trial, and one without outcomes, network and sweep."""
    store = Store.open(path)
    for seed in range(4):
        store.commit(result({"seed": seed}, outcomes=outcomes(5, extra=range(5))))
    store.commit(failure({"seed": 4}))
    store.commit(result({"seed": 5}, outcomes=None, network=None))
    store.record_sweep(record("quick", IDS[:1]))
    store.record_sweep(record("quick", [*IDS[:2], IDS[4], "f" * 20], captured="2027-01-01T00:00:00+00:00"))
    store.record_sweep(record("other", IDS[1:4]))
    evaluate(store)
    return store


def contents(store, ids=None):
    """Everything that a store says of some trials."""
    seals = store.seals(ids)
    return (
        store.trials(ids).to_pylist(),
        store.curves(ids).sort_by([("trial_id", "ascending"), ("step", "ascending")]).to_pylist(),
        store.outcomes(ids).sort_by([("trial_id", "ascending"), ("input", "ascending")]).to_pylist(),
        {
            key: {name: values.tolist() for name, values in store.weights(seal).items()}
            for key, seal in seals.items()
            if seal.network is not None
        },
        [store.read_bytes(seal.name) for seal, _ in store.evaluations(seals)],
    )


def swept(store, *results, name="ours", missing=(), **planned):
    """Commit results, and record a sweep that planned them, beside the ids in `missing`; the ids of all."""
    for one in results:
        store.commit(one)
    ids = (*(trial_id(one.trial) for one in results), *missing)
    store.record_sweep(record(name, ids, **planned))
    return ids


def plan(store, trial_ids, name="ours", text="trial: {}\n"):
    """Record a start of a sweep that plans these trials."""
    store.record_sweep(record(name, trial_ids, text))


def commit(store, trial, made=None, **changes):
    """Commit a result of this very trial, finished unless `made` is another."""
    store.commit(dataclasses.replace(result() if made is None else made, trial=trial, **changes))


def sound(store):
    return store.verify() == []
