"""The names that the trials of a space will have: of tasks, entries, metrics, outcomes and training curves.

Which names there are depends on the plug-ins of a trial. A space may choose among several plug-ins of a kind, so that a
trial of every combination is asked.
"""

import itertools
import math
from functools import cached_property

from sweeper.space import holes
from sweeper.space.problems import Problem, SearchSpaceError
from sweeper.space.settings import Settings
from sweeper.space.yaml_tree import Node
from sweeper.training.kind import Names, kind_of, trainer_of
from sweeper.training.trainer import curve_names
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.metrics import Metric, metric_named
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, leaf_values


class TrialNames:
    """The names that the trials of a space will have; an evaluation is traced when its names are first needed."""

    def __init__(self, tree: Node):
        first_of_kind: dict[tuple[str | None, ...], Trial] = {}
        paths: dict[str, None] = {}
        # A probe with a mistake is a combination that the space leaves out; there may be any number of them.
        for _, _, probe in Settings(tree).trials([holes.probes(tree)], failures=math.inf):
            trial = probe.with_every_name()
            paths |= dict.fromkeys(path for path, _ in leaf_values(canonical(trial)))
            first_of_kind.setdefault(tuple(getattr(trial, part).name for part in trial.DECLARED.parts), trial)
        self.trials = list(first_of_kind.values())  # one of every combination of plug-ins and optimiser
        self.tasks = list(dict.fromkeys(trial.folder.task for trial in self.trials))
        self.paths = list(paths)  # of entries, such as `optimizer.learning_rate`

    @property
    def lanes_together(self) -> bool:
        """Whether trials of the space run together on a CPU."""
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
        return list(map(_names, first_of_network.values()))

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
        names = [curve_names(trainer_of(trial), trial) for trial in self.trials]
        return list(dict.fromkeys(itertools.chain(*names)))


def _names(trial: Trial) -> Names:
    """The names in the results of a trial's evaluation; a `SearchSpaceError` if its task breaks a contract."""
    try:
        return kind_of(trial).names(trial)
    except ContractError as error:
        raise SearchSpaceError(trial.folder.task, [Problem("", str(error))]) from None
