"""A setting becomes a trial, and what is wrong with it a problem with its place in the author's file.

A setting is a tree of variables and trial without holes. Its formulas get their values, conditions may leave it out,
and pydantic validates its trial. The numbers of the trial are also those that a compiled program can hold.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from pydantic import ValidationError

from sweeper.space import formulas, holes, validation_messages
from sweeper.space.problems import Problem, Refused, shown
from sweeper.space.yaml_tree import Node, descendant, entry_at, plain
from sweeper.trial.kinds import declared_with
from sweeper.trial.record import Spec
from sweeper.trial.start_from import StartError
from sweeper.trial.trial import Trial, record_of, trial_of

MAX_FAILURES = 1000
"""After this number of problems the rest of the settings is not checked."""

_UNPROBED = ("normal[0]", ".formula")
"""Ends of the paths of values that no probe holds."""

_MAX_INTEGER = int(np.iinfo(np.int32).max)
_MAX_FLOAT, _MIN_FLOAT = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


class Settings:
    """Makes the trials of the settings of a tree one after the other.

    `probed` says that the probes of the tree had no problems, so that only other values are held against the numbers of
    a compiled program. `found` completes a trial that starts from another, or raises a `StartError`.
    """

    def __init__(
        self,
        tree: Node,
        exclusions: Sequence[Node] = (),
        probed: bool = False,
        found: Callable[[Trial], Trial] = lambda trial: trial,
    ):
        self.problems: list[Problem] = []
        self.count = 0  # of settings
        self.left_out: Counter[str] = Counter()  # settings, by the first condition that leaves them out
        self._exclusions, self._found = exclusions, found
        self._has_formulas = bool(formulas.formulas_in(tree))
        self._ends = _UNPROBED if probed else ("",)
        bounded = not self._has_formulas and all(hole.value.BOUNDED for hole in holes.holes_in(tree))
        self._all_probed = probed and bounded
        self._records: dict[tuple[str, str], Spec] = {}
        self._checked: set[tuple[Any, ...]] = set()

    def trials(
        self, drawn: Iterable[Iterable[Node]], failures: float = MAX_FAILURES
    ) -> Iterator[tuple[int, Node, Trial]]:
        """Each setting with its trial and the number of its draw, but for those left out and those with mistakes.

        After more problems than `failures` no more settings are taken.
        """
        for number, tree in ((number, tree) for number, trees in enumerate(drawn) for tree in trees):
            if len(self.problems) > failures:
                return
            self.count += 1
            trial = tree.value["trial"]
            try:
                setting = formulas.resolved(tree) if self._has_formulas else tree
                trial = setting.value["trial"]
                if self._exclusions and (condition := formulas.exclusion_in(setting, self._exclusions)):
                    self.left_out[condition] += 1
                    continue
                made = self._found(self._validated(trial))
            except Refused as refused:
                self.problems.append(refused.problem)
            except StartError as error:
                at = descendant(trial, ("start_from",))
                self.problems.append(at.problem(str(error)))
            except ValidationError as error:
                self.problems += validation_messages.problems_of(error, trial, record_of(trial.value))
            else:
                if not self._all_probed:
                    self.problems += self._unrepresentable(made, trial)
                yield number, setting, made

    def _validated(self, tree: Node) -> Trial:
        """The trial of a tree; plug-ins of earlier trees are kept by their text, because loading them is slow."""
        data = plain(tree)
        declared = declared_with(data)
        own = [part for part in declared.parts if part in data and part not in declared.completed]
        keys = [(part, repr(data[part])) for part in own]
        known = {key[0]: self._records[key] for key in keys if key in self._records}
        trial = trial_of(data | known)
        self._records |= {key: getattr(trial, key[0]) for key in keys}
        return trial

    def _unrepresentable(self, trial: Trial, tree: Node) -> Iterator[Problem]:
        """The values written in `tree` that the float32 and int32 of a compiled program cannot hold.

        `Traced` values are inputs of the program. In float32 a learning rate of 1e-50 is 0, which trains nothing, and
        in int32 3e9 steps of warm-up are no number at all. `trial.steps` is no input, but the program counts steps in
        int32. Values of earlier trees are skipped.
        """
        records = tuple(type(getattr(trial, part)) for part in trial.DECLARED.parts)
        leaves = [(tuple(key.name for key in path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(trial)]
        for location, leaf in [(("steps",), trial.steps), *leaves]:
            # The value as written: its trial may replace it, but another trial of the space uses it.
            at = entry_at(tree, location)
            if at is None or not isinstance(at.value, int | float) or not at.path.endswith(self._ends):
                continue
            key = (records, location, at.value)
            if key not in self._checked and (message := _mistake(trial, location, type(leaf)(at.value))):
                yield at.problem(message)
            self._checked.add(key)


def _mistake(trial: Trial, location: tuple[str, ...], value: int | float) -> str | None:
    if isinstance(value, int):
        return f"must be at most {_MAX_INTEGER:,}, got {shown(value)}" if value > _MAX_INTEGER else None
    if math.isinf(value):
        return None
    if abs(value) > _MAX_FLOAT:
        return f"must be at most {_MAX_FLOAT:.3g} in single precision, got {shown(value)}"
    # Processors may round numbers below the smallest normal number to 0.
    if 0 < abs(value) < _MIN_FLOAT:
        return f"is 0 in single precision, got {shown(value)}; the smallest number above 0 is {_MIN_FLOAT:.3g}"
    rounded = float(np.float32(value))
    data = trial.model_dump()
    functools.reduce(dict.__getitem__, location[:-1], data)[location[-1]] = rounded
    try:
        trial_of(data)
    except ValidationError:
        return f"is {rounded:g} in single precision, which is out of bounds, got {shown(value)}"
    return None
