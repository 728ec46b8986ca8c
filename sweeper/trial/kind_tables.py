"""What tables and axes show of the trials of a kind, and what they are ranked by, without code that computes.

Tables know of a trial what its first part, such as its experiment, says of itself: its *traits*, plain data that
`Trial.traits` makes of the record and that are remembered for later processes. Traits are None if this checkout does
not have the part, or not with these fields.
"""

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sweeper.trial.metrics import Metric, metric_named

if TYPE_CHECKING:
    import pandas as pd

Traits = Mapping[str, Any]


class Goal(NamedTuple):
    """The goal by which settings are ranked: a large or a small mean of a metric over the training seeds."""

    metric: str
    mode: Literal["min", "max"]

    def text(self) -> str:
        """Such as "highest accuracy"."""
        return f"{'highest' if self.mode == 'max' else 'lowest'} {self.metric}"


class KindTables(abc.ABC):
    """What tables and axes show of the trials of a kind."""

    @abc.abstractmethod
    def goals(self, traits: Traits | None, measured: Collection[str]) -> Sequence[Goal]:
        """What trials are ranked by unless a space says it, and then what decides between equals; `measured` are names
        of metrics that some of the trials have."""

    def of_settings(self, traits: Traits | None, trials: "pd.DataFrame", asked: Sequence[str]) -> list[str]:
        """The metrics of a table of settings, the most important first, with those that a space has `asked` for.

        It may name metrics that no trial has; `trials` have a column for each that one has.
        """
        return self.of_trials(traits, asked)

    def of_trials(self, traits: Traits | None, asked: Sequence[str]) -> list[str]:
        """The metrics of a list of trials, as `of_settings`."""
        return [*(goal.metric for goal in self.goals(traits, ())), *asked]

    def meaningless(self, traits: Traits | None) -> Collection[str]:
        """Dotted paths of entries that mean nothing beside such a first part; tables leave them out."""
        return ()

    def is_share(self, metric: str) -> bool:
        """Whether a metric of this name is a number between 0 and 1 that is shown as per cent."""
        return False

    def metric(self, name: str) -> Metric:
        """What the name of a metric, or of a training curve, stands for."""
        return metric_named(name)

    def outcome_label(self, name: str) -> str:
        """The words for an outcome of inputs on an axis."""
        words = name.replace("_", " ")
        return words[0].upper() + words[1:]
