"""Cells and packs: which trials share one compiled program, and which of them run at once.

A cell is all trials of equal structure, as programs see them; it costs one compilation. A pack is some trials of one
cell, stacked into the lanes of one program; all of them start from networks of other trials, or none does. The whole
space decides how trials are packed, whatever is still to do, so that an interrupted sweep has the same packs when it
goes on. Where the space has changed meanwhile, the trials of a checkpoint stay together. The pack of a trial is no part
of its identity.
"""

import dataclasses
import functools
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from sweeper.trial.start_from import replaced, starts_in
from sweeper.trial.trial import Trial, trial_id

Tree = TypeVar("Tree")
AnyTrial = TypeVar("AnyTrial", bound=Trial)


@dataclasses.dataclass(frozen=True)
class Pack:
    """Trials of equal structure, one lane each."""

    trials: tuple[Trial, ...]
    known_ids: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)  # of the trials, if known

    def __post_init__(self) -> None:
        if len(set(map(structure, self.trials))) != 1:
            raise ValueError("the trials of a pack must have one structure")

    @functools.cached_property
    def trial_ids(self) -> tuple[str, ...]:
        """Ids of the trials in lane order."""
        return self.known_ids or tuple(map(trial_id, self.trials))

    @functools.cached_property
    def pack_id(self) -> str:
        """Hash of the trial ids in lane order; names the checkpoint of the pack."""
        return hashlib.sha256(" ".join(self.trial_ids).encode()).hexdigest()[:20]

    def part(self, trial_ids: Collection[str]) -> "Pack":
        """A pack of the trials with these ids alone, in the order of this pack."""
        return Pack(tuple(t for t, name in zip(self.trials, self.trial_ids, strict=True) if name in trial_ids))


def structure(trial: Trial) -> Any:
    """What decides which program trains a trial: all that is no traced value, as programs see it."""
    return jax.tree.structure(trial.for_programs())


def shape(trial: Trial) -> Any:
    """Equal for trials that cost the same for every step and every evaluation, as they have the same programs."""
    return structure(trial.model_copy(update={"steps": 1}))


def cells(trials: Iterable[Trial]) -> list[list[Trial]]:
    """The trials grouped by structure, in order of first appearance."""
    groups: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[structure(trial)].append(trial)
    return list(groups.values())


def packs(
    trials: Collection[Trial],
    lanes: int | None,
    holders: Mapping[str, str] | None = None,
    trial_ids: Sequence[str] | None = None,
) -> list[Pack]:
    """The distinct trials, whose ids may be known, cut into packs, in order of first appearance.

    A pack has at most `lanes` trials, and may then mix settings of one structure; None packs the training seeds of one
    setting. All trials of a pack have one holder (by trial id), or none.
    """
    groups: dict[Any, list[tuple[Trial, str]]] = defaultdict(list)
    for trial, key in zip(trials, trial_ids or map(trial_id, trials), strict=True):
        kind = structure(trial) if lanes else _setting(trial)
        groups[kind, trial.start_from is None, (holders or {}).get(key)].append((trial, key))
    cut = [
        group[start : start + (lanes or len(group))]
        for group in groups.values()
        for start in range(0, len(group), lanes or len(group))
    ]
    return [Pack(tuple(trial for trial, _ in part), tuple(key for _, key in part)) for part in cut]


def _setting(trial: Trial) -> Trial:
    """Equal for the training seeds of one setting."""
    shared = replaced(trial, "seed", 0)
    for path, _ in starts_in(trial):
        shared = replaced(shared, f"{path}.trial", None)
    return shared


def stack(trials: Sequence[AnyTrial]) -> AnyTrial:
    """Trials of one structure in one record, as programs see them: leaves are stacked along a leading lane axis."""

    def stacked(*leaves: Any) -> np.ndarray:
        if isinstance(leaves[0], np.ndarray):  # of a network
            return np.stack(leaves)
        return np.array(leaves, np.int32 if isinstance(leaves[0], int) else np.float32)

    return jax.tree.map(stacked, *(trial.for_programs() for trial in trials))


def lane(tree: Tree, index: int) -> Tree:
    """The slice of one lane, on the host: slicing on the device would compile a program for every shape."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)
