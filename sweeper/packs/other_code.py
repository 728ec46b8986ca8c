"""Committed trials that other code than the start's has computed."""

from collections.abc import Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Store
from sweeper.trial.fingerprint import Code
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


def sentence(store: Store, others: list[str], seals: Mapping[str, TrialSeal], recompute: bool) -> str:
    """A sentence: how many rows are of other code, from which commits, and what happens to these rows."""
    verb = inflected(len(others), "is", "are")
    happens = (
        "moved to superseded/ and computed again" if recompute else "kept; --recompute-other-code computes them again"
    )
    rows = "failed row" if all(seals[key].status == "failed" for key in others) else "row"
    return f"{counted(len(others), rows)} {verb} of other code ({commits(store, others, seals)}): {happens}"


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
