"""What the walks of `random_walk` declare."""

from sweeper.trial.kinds import Declared, Goal, KindTables


class WalkTables(KindTables):
    def goals(self, traits, measured):
        return [Goal("distance", "max")]


DECLARED = Declared(
    module="tests.training.random_walk",
    tables=WalkTables(),
    parts={},
    carried={"walk.size": "step_size"},
    leading=("walk.size",),
    columns={"step_size": "double"},
    metrics=("distance",),
)
