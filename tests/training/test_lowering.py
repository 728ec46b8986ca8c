"""Programs for a GPU, on a machine without one: they lower, with few kernels and with exact products."""

import functools
from collections import defaultdict
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.lowered_program import kernels, products, programs
from sweeper.packs.packing import cells, stack
from sweeper.space import search_space
from sweeper.training import compilation, evaluation, evolution, gradient
from sweeper.trial import vectorisation
from sweeper.trial.trial_spec import TrialSpec, canonical, leaf_values
from tests.trials import coloring_trial

SPACES = sorted(Path("search_spaces").glob("*.yaml"))

COUNTED = {
    "coloring": {"init": 13, "step": 252, "evaluation": 10_975},
    "recall": {"init": 12, "step": 232, "evaluation": 1_433},
    "gridworld": {"init": 15, "step": 2_844, "population": 3_149, "tell": 3_143, "evaluation": 6_285},
    "gridworld_imitation": {"init": 10, "step": 185, "evaluation": 5_123},
    "ski_rental": {"init": 6, "population": 28, "tell": 46, "evaluation": 27},
}
"""The most kernels of one run of a program, or of one step of a stride, in any shipped space, for all lanes together; a
fifth more is an error."""


def _form(trial: TrialSpec) -> tuple:
    """What decides which operations the programs of a trial have; sizes, which are numbers, do not.

    The code of a model branches on some of its numbers, such as that of its blocks.
    """
    entries = dict(leaf_values(canonical(trial))) | {"baseline": trial.single_seed}
    return tuple(
        (name, value if name.startswith("model.") or not _is_size(value) else "a number")
        for name, value in entries.items()
    )


def _is_size(value: object) -> bool:
    return value == "inf" or (isinstance(value, int | float | list) and not isinstance(value, bool))


@functools.cache
def _forms(space: Path) -> dict[tuple, TrialSpec]:
    """One trial for each form of a space, the last that it names."""
    return {_form(cell[0]): cell[-1] for cell in cells(search_space.read(space, ()).expand().trials)}


def _check(trial: TrialSpec) -> None:
    for name, lowered in programs(trial).items():
        runs, counted = (gradient.STRIDE, "step") if name == "stride" else (1, name)
        assert 0 < kernels(lowered) <= 1.2 * runs * COUNTED[trial.task.name][counted], name
        rounded = [text for text in products(lowered) if "f32" in text and "[HIGHEST, HIGHEST]" not in text]
        assert not rounded, (name, rounded[0])


@pytest.mark.slow
@pytest.mark.parametrize("space", ["quickstart", "recall", "gridworld_policy_gradient"])
def test_training_and_evaluation_by_gradient_lower_for_cuda(space):
    trial = next(trial for trial in _forms(Path(f"search_spaces/{space}.yaml")).values() if not trial.single_seed)
    _check(trial)


@pytest.mark.slow
def test_training_and_evaluation_by_pgpe_lower_for_cuda():
    (trial,) = _forms(Path("search_spaces/gridworld_small.yaml")).values()
    _check(trial)


@pytest.mark.slow
@pytest.mark.parametrize("space", ["quickstart", "recall", "gridworld_small"])
def test_more_lanes_need_no_more_kernels(space):
    trial = next(trial for trial in _forms(Path(f"search_spaces/{space}.yaml")).values() if not trial.single_seed)
    few, many = (
        {name: kernels(lowered) for name, lowered in programs(trial, lanes).items() if name != "evaluation"}
        for lanes in (2, 16)
    )
    assert few == many


@pytest.mark.long
def test_every_program_of_every_shipped_space_lowers_for_cuda():
    """Spaces whose programs differ in nothing but sizes share a form, and a form is lowered once."""
    forms: dict[tuple, TrialSpec] = {}
    names = defaultdict(list)
    for space in SPACES:
        for form, trial in _forms(space).items():
            forms[form] = trial
            names[form].append(space.stem)
    assert {name for shared in names.values() for name in shared} == {space.stem for space in SPACES}
    assert {trial.model.blocks for trial in forms.values() if trial.model.name == "transformer"} == {1, 2}
    for trial in forms.values():
        _check(trial)


@pytest.mark.slow
def test_a_trial_may_ask_for_rounded_products():
    trial = coloring_trial(precision="tensorfloat32")
    texts = [text for lowered in programs(trial).values() for text in products(lowered) if "f32" in text]
    assert any("[HIGH, HIGH]" in text for text in texts)


# --------------------------------------------------------------------------------------------------------------------
# How kernels are counted
# --------------------------------------------------------------------------------------------------------------------


def _kernels(function, *arguments) -> int:
    return kernels(jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)))


def test_arithmetic_is_one_kernel_and_joins_what_reads_it():
    x = jnp.ones((4, 4))
    assert _kernels(lambda x: jnp.tanh(2 * x) + 1, x) == 1
    assert _kernels(lambda x: (2 * x).sum(), x) == 1
    assert _kernels(lambda x: (2 * x) @ x, x) == 2  # a product reads its factors from memory


def test_the_body_of_a_loop_counts_as_often_as_it_runs():
    x = jnp.ones((4, 4))
    once = _kernels(lambda x: x @ x, x)
    assert once == 1
    loop = _kernels(lambda x: jax.lax.fori_loop(0, 7, lambda _, y: y @ y, x), x)
    # The product, the counter and the condition of each turn.
    assert loop == 7 * 3
    nested = _kernels(
        lambda x: jax.lax.fori_loop(0, 5, lambda _, z: jax.lax.fori_loop(0, 7, lambda _, y: y @ y, z), x), x
    )
    assert nested >= 5 * loop


def test_a_loop_that_ends_by_what_it_computes_cannot_be_counted():
    with pytest.raises(ValueError, match="without a known number of turns"):
        _kernels(lambda x: jax.lax.while_loop(lambda y: (y > 1e-6).any(), lambda y: y / 2, x), jnp.ones(3))


# --------------------------------------------------------------------------------------------------------------------
# Both forms compute the same
# --------------------------------------------------------------------------------------------------------------------

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
@pytest.mark.parametrize("task", SMALL)
def test_steps_and_evaluation_for_a_gpu_give_the_numbers_of_those_for_a_cpu(task):
    """Two lanes, on this CPU; sums may be taken in another order, and ten steps do not amplify that much."""
    trials = [coloring_trial(**SMALL[task], steps=300, seed=seed) for seed in range(2)]
    stacked, results = stack(trials), {}
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            state = gradient.start(stacked)
            state, curve = gradient.stride(stacked, state, 10)
            network = jax.tree.map(lambda leaf: np.asarray(leaf)[1], state.network)
            metrics, columns = evaluation.evaluate(trials[1], network)
        results[platform] = jax.tree.map(np.asarray, (state.network, curve, metrics, columns["loss"]))
    jax.tree.map(
        lambda cpu, cuda: np.testing.assert_allclose(cpu, cuda, rtol=1e-3, atol=1e-5 * (1 + np.abs(cpu).max())),
        *results.values(),
    )


@pytest.mark.long
def test_a_generation_for_a_gpu_gives_the_numbers_of_one_for_a_cpu():
    """Losses of the grid world are whole numbers, so that they are equal exactly where no argmax is close."""
    fields = {
        "task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 3},
        "model": {"name": "transformer", "width": 6, "key_size": 3, "attention": "softmax", "embedding_scale": 3.0},
        "optimizer": {"name": "pgpe", "population": 20, "initial_std": 0.3},
        "batch_size": 5,
    }
    trials = [coloring_trial(**fields, seed=seed) for seed in range(2)]
    stacked, objectives, distributions = stack(trials), [], []
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            state = evolution.start(stacked)
            objectives.append(evolution.in_process(stacked, state.distribution(), np.asarray(state.step)))
            told, _ = evolution.stride(stacked, state, evolution.STRIDE)
            distributions.append(jax.tree.map(np.asarray, told.distribution()))
    np.testing.assert_allclose(*objectives, rtol=1e-5)
    jax.tree.map(lambda cpu, cuda: np.testing.assert_allclose(cpu, cuda, rtol=1e-4, atol=1e-6), *distributions)
    moved = jax.tree.map(lambda leaf: not np.array_equal(leaf[0], leaf[1]), distributions[0])
    assert all(jax.tree.leaves(moved)), "lanes with other seeds"


def test_a_program_of_each_form_is_kept_apart():
    trial = coloring_trial(task={"name": "coloring", "vertices": 4}, batch_size=3, steps=10)
    stacked = stack([trial])
    made = []
    for platform in ("cpu", "cuda"):
        with vectorisation.built_for(platform):
            assert vectorisation.in_turns() == (platform == "cpu")
            made.append(compilation.kept(gradient.init, stacked))
    assert made[0] is not made[1]
