"""Programs for a GPU, on a machine without one: XLA compiles them, with few kernels and with exact products."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.compiled_program import COMPILER, Compiled, Request, compiled, program_names, traced
from sweeper.learned_algorithms import evaluation, evolution, gradient
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.space import search_space
from sweeper.training import compilation
from sweeper.training.kind import trainer_of
from sweeper.trial import vectorisation
from sweeper.trial.record import canonical
from tests import shipped
from tests.trials import coloring_trial

needs_compiler = pytest.mark.skipif(
    not COMPILER.exists(),
    reason="NOTHING WAS COMPILED FOR A GPU: XLA's CUDA compiler is missing (make .venv/cuda-compiler)",
)


def _compiled(requests: list[Request]) -> list[Compiled]:
    """The programs, compiled for a GPU."""
    results = compiled(requests)
    for request, result in zip(requests, results, strict=True):
        assert isinstance(result, Compiled), (request, result)
        assert result.run.kernels > 0
    return [result for result in results if isinstance(result, Compiled)]


def _last(space: str) -> TrialSpec:
    """The last trial of a shipped space that trains with new seeds r."""
    trials = search_space.read(Path(f"search_spaces/{space}.yaml"), ()).expand().trials
    return [trial for trial in trials if not trial.single_seed][-1]


MEASURED = {
    ("coloring", "stride"): (6_655, 30.0),
    ("recall", "stride"): (9_265, 1_244.8),
    ("gridworld_small", "generation"): (399, 674.2),
    ("gridworld_imitation", "stride"): (14_177, 610.7),
    ("ski_rental", "generation"): (61, 12.0),
}
"""Kernels, and memory in MB, of a program of each task; a fifth more or less of either is an error."""


@needs_compiler
@pytest.mark.parametrize(
    ("space", "program"),
    [
        pytest.param(*names, marks=pytest.mark.slow if names[0] == "ski_rental" else pytest.mark.long)
        for names in MEASURED
    ],
)
def test_training_of_each_task_compiles_for_a_gpu(space, program):
    (result,) = _compiled([Request(canonical(_last(space)), program)])
    kernels, memory = MEASURED[space, program]
    assert 0.8 * kernels <= result.run.kernels <= 1.2 * kernels, result
    assert 0.8e6 * memory <= result.memory <= 1.2e6 * memory, result


EXPERIMENTS = {"classification": 135, "cartpole_ppo": 1_888, "characters": 157}
"""Kernels of a step of the last trial of a shipped experiment with 64 lanes; a fifth more or less is an error."""


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_steps_of_an_experiment_compile_for_a_gpu(name):
    trial = shipped.expansion(Path(f"search_spaces/{name}.yaml")).trials[-1]
    (result,) = _compiled([Request(canonical(trial), "stride", lanes=64)])
    step = (result.run.kernels - result.run.outside) / trainer_of(trial).stride_steps
    assert 0.8 * EXPERIMENTS[name] <= step <= 1.2 * EXPERIMENTS[name], result


# Products


def _products(trial: TrialSpec, program: str) -> list[str]:
    """The text of every matrix product of single precision in a program, with its precision."""
    with vectorisation.built_for("cuda"):
        text = traced(trial, program, 2).lower(lowering_platforms=("cuda",)).as_text()
    return [line for line in text.splitlines() if re.search(r"dot_general|convolution", line) and "f32" in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    "space", ["quickstart", *(pytest.param(name, marks=pytest.mark.long) for name in ("recall", "gridworld_small"))]
)
def test_products_are_exact(space):
    trial = _last(space)
    for program in program_names(trial):
        rounded = [text for text in _products(trial, program) if "[HIGHEST, HIGHEST]" not in text]
        assert not rounded, (program, rounded[0])


@pytest.mark.slow
def test_a_trial_may_ask_for_rounded_products():
    assert any("[HIGH, HIGH]" in text for text in _products(coloring_trial(precision="tensorfloat32"), "stride"))


# Both forms compute the same

SMALL = {
    "coloring": {"task": {"name": "coloring", "vertices": 6}, "model": {"name": "transformer"}},
    "recall": {
        "task": {"name": "recall", "keys": 4, "value_bits": 2, "seed_bits": 3},
        "model": {"name": "transformer", "width": 6, "key_size": 3, "embedding_layers": 2, "embedding_scale": 1.0},
    },
    "gridworld": {
        "task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 3},
        "model": {"name": "transformer", "width": 6, "key_size": 3, "attention": "softmax", "embedding_scale": 3.0},
        "optimizer": {"name": "policy_gradient", "entropy_bonus": 0.1, "marginal_entropy_bonus": 0.1},
        "batch_size": 5,
    },
}


@pytest.mark.long
@pytest.mark.parametrize(
    "task",
    [
        # The conformance suite holds the losses of both forms against the definition; CI tests whole steps of one task.
        pytest.param("coloring", marks=pytest.mark.exhaustive),
        pytest.param("recall", marks=pytest.mark.exhaustive),
        "gridworld",
    ],
)
def test_steps_and_evaluation_for_a_gpu_give_the_numbers_of_those_for_a_cpu(task):
    """Two lanes, on this CPU; sums may be taken in another order, and ten steps do not amplify that much."""
    trials = [coloring_trial(**SMALL[task], steps=300, seed=seed) for seed in range(2)]
    stacked, results = stack(trials), {}
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            state = gradient.start(stacked)
            state, _ = gradient.stride(stacked, state, 4)
            state, curve = gradient.stride(stacked, state, 6)
            network = jax.tree.map(lambda leaf: np.asarray(leaf)[1], state.network)
            metrics, columns = evaluation.evaluate(trials[1], network)
        results[platform] = jax.tree.map(np.asarray, (state.network, curve, metrics, columns["loss"]))
    jax.tree.map(
        lambda cpu, cuda: np.testing.assert_allclose(cpu, cuda, rtol=1e-3, atol=1e-5 * (1 + np.abs(cpu).max())),
        *results.values(),
    )


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["pgpe", "snes"])  # with and without pairs of mirrored individuals
def test_a_generation_for_a_gpu_gives_the_numbers_of_one_for_a_cpu(strategy):
    """Losses of the grid world are whole numbers, so that they are equal exactly where no argmax is close."""
    fields = SMALL["gridworld"] | {"optimizer": {"name": strategy, "population": 20, "initial_std": 0.3}}
    trials = [coloring_trial(**fields, seed=seed) for seed in range(2)]
    stacked, objectives, generations = stack(trials), [], []
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            state = evolution.start(stacked)
            objectives.append(evolution.in_process(stacked, state.distribution(), np.asarray(state.step)))
            told, curve = evolution.stride(stacked, state, evolution.STRIDE)
            generations.append(jax.tree.map(np.asarray, (told.distribution(), curve)))
    np.testing.assert_allclose(*objectives, rtol=1e-5)
    jax.tree.map(lambda cpu, cuda: np.testing.assert_allclose(cpu, cuda, rtol=1e-4, atol=1e-6), *generations)
    moved = jax.tree.map(lambda leaf: not np.array_equal(leaf[0], leaf[1]), generations[0][0])
    assert all(jax.tree.leaves(moved)), "lanes with other seeds"


@pytest.mark.slow
def test_a_program_of_each_form_is_kept_apart():
    trial = coloring_trial(task={"name": "coloring", "vertices": 4}, batch_size=3, steps=10)
    stacked = stack([trial])
    made = []
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            assert vectorisation.in_turns() == (platform == "cpu")
            made.append(compilation.kept(gradient.init, stacked))
    assert made[0] is not made[1]
