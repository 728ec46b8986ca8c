"""Trials of the shipped spaces that benchmarks measure, and small trials like them."""

from pathlib import Path
from typing import Any

from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.space import search_space
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.record import canonical

SPACES = {
    "colouring": "coloring",
    "recall": "recall",
    "imitation": "gridworld_imitation",
    "grid world": "gridworld_compact",
    "ski rental": "ski_rental",
    "paging": "paging",
}
EXPERIMENTS = ("classification", "cartpole_ppo", "characters")
"""Experiments of the shipped spaces of these names."""

TOY = {
    "colouring": {"task": {"name": "coloring", "vertices": 5}},
    "recall": {"task": {"name": "recall", "keys": 3, "value_bits": 2, "seed_bits": 3}},
    "imitation": {"task": {"name": "gridworld_imitation", "height": 2, "width": 3, "horizon": 6, "noise": 3}},
    "grid world": {"task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 3}},
    "ski rental": {"task": {"name": "ski_rental", "price": 3, "longest": 6, "noise": 4}},
    "paging": {"task": {"name": "paging", "cache": 2, "requests": 4, "noise": 4}},
}
TOY_SIZES = {"batch_size": 4, "evaluation": {"seeds": 10, "votes": [3]}}
TOY_EXPERIMENTS = {
    "classification": {"width": 8, "batch_size": 8},
    "cartpole_ppo": {"carts": 4, "horizon": 8},
    "characters": {"width": 8, "blocks": 1, "context": 4, "batch_characters": 16},
}


def shipped_experiment(name: str, toy: bool = False) -> ExperimentTrial:
    """The last trial in the shipped space of an experiment, or a small one like it."""
    trial = search_space.read(Path("search_spaces", f"{name}.yaml"), ()).expand().trials[-1]
    assert isinstance(trial, ExperimentTrial)
    if not toy:
        return trial
    fields: dict[str, Any] = canonical(trial)
    return ExperimentTrial.model_validate(fields | {"experiment": fields["experiment"] | TOY_EXPERIMENTS[name]})


def shipped_trial(name: str, toy: bool = False, single_seed: bool = False) -> TrialSpec:
    """The last trial with fresh seeds, or with a single one, in the shipped space of a task, or a small one like it."""
    trials = search_space.read(Path("search_spaces", f"{SPACES[name]}.yaml"), ()).expand().trials
    trial = [each for each in trials if isinstance(each, TrialSpec) and each.single_seed == single_seed][-1]
    if not toy:
        return trial
    fields: dict[str, Any] = canonical(trial) | TOY[name] | TOY_SIZES
    if isinstance(trial.optimizer, EvolutionStrategy):
        fields["optimizer"] |= {"population": 4}
    return TrialSpec.model_validate(fields)
