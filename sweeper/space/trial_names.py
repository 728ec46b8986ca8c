"""The names that the trials of a space will have, of which one trial of each combination of plug-ins is asked."""

from collections.abc import Iterable
from functools import cached_property

from sweeper.training.kind import Names, kind_of, trainer_of
from sweeper.training.trainer import curve_names
from sweeper.trial.start_from import starts_in
from sweeper.trial.trial import Trial


def _whole(trial: Trial) -> bool:
    return all(start.found or path == "start_from" for path, start in starts_in(trial))


class TrialNames:
    """The names that trials will have.

    An evaluation is traced when its names are first needed, which may take seconds; it is a `ContractError` if a
    plug-in breaks its contract then.
    """

    def __init__(self, trials: Iterable[Trial]):
        first_of_kind: dict[tuple[str | None, ...], Trial] = {}
        # The first whose networks a plan has found: shapes of an experiment may depend on them.
        every = sorted((trial.with_every_name() for trial in trials), key=lambda trial: not _whole(trial))
        for trial in every:
            first_of_kind.setdefault(tuple(getattr(trial, part).name for part in trial.DECLARED.parts), trial)
        self.trials = list(first_of_kind.values())  # one of every combination of plug-ins and optimiser

    @property
    def curves_known(self) -> bool:
        """Whether training curves can be asked for: not while a space is read, if they need networks of a store."""
        return all(map(_whole, self.trials))

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
        """Outcomes of the inputs of an evaluation."""
        return list(dict.fromkeys(name for names in self._evaluated for name in names.outcomes))

    @cached_property
    def _evaluated(self) -> list[Names]:
        # A network is evaluated on a task: objective and optimiser have no part in the names.
        first_of_network: dict[tuple[str, ...], Trial] = {}
        for trial in self.trials:
            first_of_network.setdefault(trial.plugin_names[:2], trial)
        return [kind_of(trial).names(trial) for trial in first_of_network.values()]

    @property
    def curves(self) -> list[str]:
        """Training curves, and metrics that are evaluated while a trial trains."""
        evaluated = self.metrics if any(trial.evaluate_every is not None for trial in self.trials) else []
        return list(dict.fromkeys([*self.training_curves, *evaluated]))

    @property
    def training_curves(self) -> list[str]:
        """Training curves alone."""
        return list(dict.fromkeys(name for trial in self.trials for name in curve_names(trainer_of(trial), trial)))
