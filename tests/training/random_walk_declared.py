"""What the walks of `random_walk` declare."""

from sweeper.trial.kinds import Declared

DECLARED = Declared(
    module="tests.training.random_walk",
    parts={},
    carried={"walk.size": "step_size"},
    leading=("walk.size",),
    columns={"step_size": "double"},
    metrics=("distance",),
)
