"""Committed trials that other code than the start's has computed, or whose code cannot be compared with it."""

from collections.abc import Collection, Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Store
from sweeper.trial.fingerprint import Code, whose
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


def sentences(store: Store, others: Iterable[str], again: Collection[str], seals: Mapping[str, TrialSeal]) -> list[str]:
    """How many rows are of other code, or of an older scheme, from which commits, and which are computed `again`."""
    said, chosen = [], set(again)
    kept = [key for key in others if key not in chosen]
    for happens, keys in (
        ("moved to superseded/ and computed again", again),
        ("kept; --recompute-other-code computes them again", kept),
    ):
        for words, of_code in by_words({key: seals[key].fingerprint for key in keys}).items():
            verb = inflected(len(of_code), "is", "are")
            rows = "failed row" if all(seals[key].status == "failed" for key in of_code) else "row"
            said.append(f"{counted(len(of_code), rows)} {verb} {words} ({commits(store, of_code, seals)}): {happens}")
    return said


def by_words(fingerprints: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Ids by the words that say whose code the fingerprint of each is, which is none of this process."""
    found: dict[str, list[str]] = {}
    for key, fingerprint in fingerprints.items():
        found.setdefault(whose(fingerprint), []).append(key)
    return found


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
