"""What trials of experiments declare; see `sweeper.trial.kinds`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweeper.trial.kinds import Declared, Goal, KindTables, Traits


class ExperimentTables(KindTables):
    """Traits of an experiment are its `metrics`."""

    def goals(self, traits: Traits | None, measured: Collection[str]) -> Sequence[Goal]:
        metrics: Mapping[str, Any] = {"loss": "min"} if traits is None else traits["metrics"]
        return [Goal(*each) for each in metrics.items()]


DECLARED = Declared(
    module="sweeper.training.experiments",
    tables=ExperimentTables(),
    parts={"experiment": "experiment"},
    carried={"experiment.name": "task"},
    leading=("experiment.name",),
    label=("experiment.name",),
    protocol="experiment",
)
