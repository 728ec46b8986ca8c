"""A setting becomes a trial, and what is wrong with it a problem with its place in the author's file.

A setting is a tree of variables and trial without holes. Its formulas get their values, conditions may leave it out,
and pydantic validates its trial.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from sweeper.space import formulas, validation_messages
from sweeper.space.problems import Problem, Refused
from sweeper.space.yaml_tree import Node, descendant, plain
from sweeper.trial.record import MAX_INTEGER
from sweeper.trial.start_from import StartError
from sweeper.trial.trial import Trial, record_of, trial_of

MAX_FAILURES = 1000
"""After this number of problems the rest of the settings is not checked."""


class Settings:
    """Makes the trials of the settings of a tree one after the other.

    `found` completes a trial that needs the network of another, or raises a `StartError`.
    """

    def __init__(
        self,
        tree: Node,
        exclusions: Sequence[Node] = (),
        found: Callable[[Trial], Trial] = lambda trial: trial,
    ):
        self.problems: list[Problem] = []
        self.count = 0  # of settings
        self.left_out: Counter[str] = Counter()  # settings, by the first condition that leaves them out
        self._exclusions, self._found = exclusions, found
        self._has_formulas = bool(formulas.formulas_in(tree))
        self._made: dict[str, Trial] = {}  # a trial of each setting that was validated, by the text of the setting

    def trials(self, drawn: Iterable[Iterable[Node]], failures: float = MAX_FAILURES) -> Iterator[tuple[Node, Trial]]:
        """Each setting with its trial, but for those left out and those with mistakes.

        After more problems than `failures` no more settings are taken.
        """
        for tree in itertools.chain.from_iterable(drawn):
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
                made = self._found(self._trial(plain(trial)))
            except Refused as refused:
                self.problems.append(refused.problem)
            except StartError as error:
                at = descendant(trial, error.path.split("."))
                self.problems.append(at.problem(str(error)))
            except ValidationError as error:
                self.problems += validation_messages.problems_of(error, trial, record_of(trial.value))
            else:
                yield setting, made

    def _trial(self, data: dict[str, Any]) -> Trial:
        """The trial of plain data; the training seeds of a setting differ in a number, and are validated once."""
        seed = data.get("seed")
        if type(seed) is not int or not 0 <= seed <= MAX_INTEGER:
            return trial_of(data)
        setting = repr({**data, "seed": 0})
        if setting not in self._made:
            self._made[setting] = trial_of(data)
        return self._made[setting].model_copy(update={"seed": seed})
