"""The names that the trials of a space will have, and the message about any other name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from sweeper.messages import instead
from sweeper.training.kind import Names, kind_of, trainer_of
from sweeper.training.trainer import curve_names
from sweeper.trial.columns import COLUMNS, METRICS
from sweeper.trial.entry_names import CARRIED, column_name, meant
from sweeper.trial.metrics import Metric, metric_named
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, leaf_values

_OF_SOME_TRIALS = {*METRICS, "extra_metrics", *(name for name in COLUMNS if name.startswith("error_"))} - {"train_loss"}

_ROW_COLUMNS = tuple(name for name in COLUMNS if name not in _OF_SOME_TRIALS)
"""Columns that every finished row of a store has, beside the metrics of the evaluation."""

_ENTRIES = (*CARRIED.items(), ("batch_size", "batch_size"))
"""Entries of which a row has a column, with the column; the trials of a kind have some of them."""


class TrialNames:
    """The names that trials will have, of which one of each combination of plug-ins is asked.

    An evaluation is traced when its names are first needed, which may take seconds; it is a `ContractError` if a
    plug-in breaks its contract then.
    """

    def __init__(self, trials: Iterable[Trial]):
        first_of_kind: dict[tuple[str | None, ...], Trial] = {}
        paths: dict[str, None] = {}
        for trial in (trial.with_every_name() for trial in trials):
            paths |= dict.fromkeys(path for path, _ in leaf_values(canonical(trial)))
            first_of_kind.setdefault(tuple(getattr(trial, part).name for part in trial.DECLARED.parts), trial)
        self.trials = list(first_of_kind.values())  # one of every combination of plug-ins and optimiser
        self.tasks = list(dict.fromkeys(trial.folder.task for trial in self.trials))
        self.paths = list(paths)  # of entries, such as `optimizer.learning_rate`

    @property
    def lanes_together(self) -> bool:
        """Whether the trials run together on a CPU."""
        return any(trial.lanes_together for trial in self.trials[:1])

    @property
    def metrics(self) -> list[str]:
        """Metrics of the evaluation."""
        return list(dict.fromkeys(name for names in self._evaluated for name in names.metrics))

    @property
    def outcomes(self) -> list[str]:
        """Outcomes of the evaluation."""
        return list(dict.fromkeys(name for names in self._evaluated for name in names.outcomes))

    @cached_property
    def _evaluated(self) -> list[Names]:
        # A network is evaluated on a task: objective and optimiser have no part in the names.
        first_of_network: dict[tuple[str, ...], Trial] = {}
        for trial in self.trials:
            first_of_network.setdefault(trial.plugin_names[:2], trial)
        return [kind_of(trial).names(trial) for trial in first_of_network.values()]

    def metric(self, name: str) -> Metric:
        """What the kind of the trials knows of a metric or a curve."""
        return self.trials[0].DECLARED.tables.metric(name) if self.trials else metric_named(name)

    @property
    def curves(self) -> list[str]:
        """Training curves, and metrics that are evaluated while a trial trains."""
        evaluated = self.metrics if any(trial.evaluate_every is not None for trial in self.trials) else []
        return list(dict.fromkeys([*self.training_curves, *evaluated]))

    @property
    def training_curves(self) -> list[str]:
        """Training curves alone."""
        return list(dict.fromkeys(name for trial in self.trials for name in curve_names(trainer_of(trial), trial)))


def unknown(what: str, name: str, known: Sequence[str]) -> str | None:
    """A message about a name that is not among those that are known; None if it is."""
    return None if name in known else f"unknown {what} '{name}'{instead(name, known)}"


def curve_mistake(names: TrialNames, name: str) -> str | None:
    """As `unknown`, of a training curve."""
    if name not in names.curves and name in names.metrics:
        return f"'{name}' is measured at the end of a training; with trial.evaluate_every it is a curve too"
    return unknown("training curve", name, names.curves)


def column_mistake(names: TrialNames, name: str) -> str | None:
    """As `unknown`, of a column of the trials, or of what is made of the outcomes of all trainings together."""
    of_entries = [path for path, column in _ENTRIES if column == column_name(name)]
    columns = list(map(column_name, names.paths))
    if of_entries and not set(of_entries) & set(names.paths):
        return f"no trial has a value in the column '{name}'{meant(name, columns)}"
    known = [*_ROW_COLUMNS, *names.metrics, *columns]
    metric = metric_named(name)
    of_inputs = metric.statistic == "pooled" and metric._replace(statistic="mean").name in names.outcomes
    return None if of_inputs or column_name(name) in known else f"unknown column '{name}'{meant(name, known)}"


def outcome_mistake(names: TrialNames, name: str) -> str | None:
    """As `unknown`, of an outcome of inputs."""
    return unknown("outcome", name, names.outcomes)


def task_mistake(names: TrialNames, name: str) -> str | None:
    """As `unknown`, of a task."""
    return None if name in names.tasks else f"no trial has the task '{name}'{instead(name, names.tasks)}"


MISTAKES: Mapping[str, Callable[[TrialNames, str], str | None]] = {
    "column": column_mistake,
    "curve": curve_mistake,
    "outcome": outcome_mistake,
}
"""What is said of the name of a metric, by where metrics come from."""
