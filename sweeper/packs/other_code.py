"""Committed trials that other code than the start's has computed."""

from collections.abc import Collection, Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.store.seal import TrialSeal
from sweeper.trial.fingerprint import Code
from sweeper.trial.trial import Trial


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


def sentences(others: Collection[str], again: Collection[str]) -> list[str]:
    """How many rows are of other code, of which some are computed `again`."""
    counts = {
        "moved to superseded/ and computed again": len(again),
        "kept; --recompute-other-code computes them again": len(others) - len(again),
    }
    return [
        f"{counted(count, 'row')} {inflected(count, 'is', 'are')} of other code: {happens}"
        for happens, count in counts.items()
        if count
    ]
