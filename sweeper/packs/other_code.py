"""Committed trials that other code than the start's has computed."""

from collections.abc import Collection, Iterable, Mapping

from sweeper.messages import counted, inflected
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Store
from sweeper.trial.fingerprint import Code, listed
from sweeper.trial.trial import Trial


def computed_by_other_code(planned: Mapping[str, Trial], seals: Mapping[str, TrialSeal], code: Code) -> list[str]:
    """Ids of the planned trials whose row has another fingerprint than `code` gives the trial."""
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


def differences(store: Store, others: Mapping[str, Trial], seals: Mapping[str, TrialSeal], code: Code) -> str:
    """What differs between the code of rows and `code`, as far as starts of the store have recorded theirs."""
    recorded = [record.provenance.code for record in store.sweeps()]
    kinds = {(seals[key].fingerprint, trial.plugin_names): trial for key, trial in others.items()}
    found: dict[str, None] = {}
    for (fingerprint, _), trial in kinds.items():
        before = next((each for each in recorded if each.fingerprint(trial) == fingerprint), None)
        if before is not None:
            found |= dict.fromkeys(code.differences(before, trial))
    return f" (what differs: {listed(list(found))})" if found else ""


def sentences(others: Collection[str], again: Collection[str], differs: str) -> list[str]:
    """How many rows are of other code, what differs, and how many of them are computed `again`."""
    counts = {
        "moved to superseded/ and computed again": len(again),
        "kept; --recompute-other-code computes them again": len(others) - len(again),
    }
    return [
        f"{counted(count, 'row')} {inflected(count, 'is', 'are')} of other code{differs}: {happens}"
        for happens, count in counts.items()
        if count
    ]
