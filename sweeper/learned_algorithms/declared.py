"""What trials of learned algorithms declare; see `sweeper.trial.kinds`."""

from sweeper.learned_algorithms.tables import LearnedAlgorithmTables
from sweeper.trial.kinds import Declared

DECLARED = Declared(
    module="sweeper.learned_algorithms.kind",
    tables=LearnedAlgorithmTables(),
    parts={"task": "task", "model": "model", "objective": "objective", "optimizer": "optimizer"},
    completed=("objective", "optimizer"),
    carried={
        "task.name": "task", "model.name": "model", "objective.name": "objective", "objective.q": "q",
        "objective.m": "m", "optimizer.name": "optimizer", "optimizer.learning_rate": "learning_rate",
    },
    leading=("task.name", "model.name", "baseline", "objective.name", "objective.q", "objective.m"),
    label=("task.name", "baseline"),
    unnamed=("model.name",),
    protocol="evaluation",
    columns={
        "model": "string", "q": "double", "m": "int64", "batch_size": "int64", "optimizer": "string",
        "learning_rate": "double", "objective": "string",
        **dict.fromkeys(("task_version", "model_version", "objective_version"), "int64"),
    },
    metrics=(
        "success", "success_p5", "success_worst5", "failed_inputs", "sampled", "sampled_p5", "majority_5",
        "majority_5_p5", "majority_30", "majority_30_p5", "any_seed", "any_seed_p5", "loss", "loss_p95", "variance",
        "train_loss",
    ),
)  # fmt: skip
