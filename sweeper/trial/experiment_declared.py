"""What trials of experiments declare; see `sweeper.trial.kinds`."""

from sweeper.trial.kinds import Declared

DECLARED = Declared(
    module="sweeper.training.experiments",
    parts={"experiment": "experiment"},
    carried={"experiment.name": "task"},
    leading=("experiment.name",),
    label=("experiment.name",),
    protocol="experiment",
)
