"""Committed trials that other code than the start's has computed."""

from collections.abc import Collection, Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Store
from sweeper.trial.fingerprint import Code, listed
from sweeper.trial.trial import Trial

READ = 20
"""At most so many rows of each fingerprint are read for their commits."""


def computed_by_other_code(planned: Mapping[str, Trial], seals: Mapping[str, TrialSeal], code: Code) -> list[str]:
    """Ids of the planned trials whose row has no fingerprint, or another than `code` gives the trial."""
    fingerprints: dict[tuple[str, ...], str] = {}
    others = []
    for key, trial in planned.items():
        if key in seals:
            plugins = trial.plugin_names
            if plugins not in fingerprints:
                fingerprints[plugins] = code.fingerprint(trial)
            if seals[key].fingerprint != fingerprints[plugins]:
                others.append(key)
    return others


def superseded(others: Iterable[str], seals: Mapping[str, TrialSeal], recompute: bool) -> list[str]:
    """Those of the rows of other code that are computed again: all, or the failed ones."""
    # A failure says something about the code that failed, and nothing about this code.
    return [key for key in others if recompute or seals[key].status == "failed"]


def sentences(
    store: Store, others: Mapping[str, Trial], again: Collection[str], seals: Mapping[str, TrialSeal], code: Code
) -> list[str]:
    """How many rows are of other code, from which commits, what differs, and which are computed `again`."""
    said, chosen = [], set(again)
    kept = [key for key in others if key not in chosen]
    for happens, keys in (
        ("moved to superseded/ and computed again", again),
        ("kept; --recompute-other-code computes them again", kept),
    ):
        if keys:
            verb = inflected(len(keys), "is", "are")
            rows = "failed row" if all(seals[key].status == "failed" for key in keys) else "row"
            about = commits(store, keys, seals) + differences(store, {key: others[key] for key in keys}, seals, code)
            said.append(f"{counted(len(keys), rows)} {verb} of other code ({about}): {happens}")
    return said


def differences(store: Store, others: Mapping[str, Trial], seals: Mapping[str, TrialSeal], code: Code) -> str:
    """What differs between the code of rows and `code`, as far as starts of the store have recorded theirs."""
    recorded = [record.provenance.code for record in store.sweeps() if record.provenance.code is not None]
    kinds = {(seals[key].fingerprint, trial.plugin_names): trial for key, trial in others.items()}
    found: dict[str, None] = {}
    for (fingerprint, _), trial in kinds.items():
        before = next((each for each in recorded if each.fingerprint(trial) == fingerprint), None)
        if before is not None:
            found |= dict.fromkeys(code.differences(before, trial))
    return f"; what differs: {listed(list(found))}" if found else ""


def commits(store: Store, others: Iterable[str], seals: Mapping[str, TrialSeal]) -> str:
    """The commits of rows, as far as few rows tell."""
    by_fingerprint: dict[str | None, list[str]] = {}
    for key in others:
        by_fingerprint.setdefault(seals[key].fingerprint, []).append(key)
    rows = store.trials([key for keys in by_fingerprint.values() for key in keys[:READ]]).to_pylist()
    return ", ".join(sorted({_commit(row["commit"], row["dirty"]) for row in rows}))


def _commit(commit: str | None, dirty: bool | None) -> str:
    if commit is None:
        return "no commit"
    return f"commit {commit[:7]}" + " with changes" * bool(dirty)
