"""The grid world against an obvious simulator, walks worked out by hand, and the plain rollout of every pair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.transformer import Model
from sweeper.learned_algorithms.contracts import StepwiseNetwork
from sweeper.learned_algorithms.contracts import Task as BaseTask
from sweeper.learned_algorithms.evaluation import evaluate
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.trial import vectorisation
from tasks.gridworld import Task, environment, minmax, rollout
from tasks.gridworld.environment import Grid

LEFT, UP, RIGHT, DOWN = range(4)


def simulated(grid: Grid, treasure: int, actions: list[int]) -> list[tuple[int, int, float, int]]:
    """Row, column and reward after every step that counts, and its episode; plain Python, one step at a time."""
    events = []
    actions = list(actions)
    for episode in range(2):
        row = column = 0
        for _ in range(grid.horizon):
            match environment.ACTIONS[actions.pop(0)]:
                case "left":
                    column = column - 1 if column > 0 else column
                case "right":
                    column = column + 1 if column < grid.width - 1 else column
                case "up":
                    row = row + 1 if row < grid.height - 1 else row
                case "down":
                    row = row - 1 if row > 0 else row
            here = row * grid.width + column == treasure
            events.append((row, column, 1.0 if here else -0.1, episode))
            if here:
                break
    return events


@functools.partial(jax.jit, static_argnums=0)
def _walked(grid: Grid, treasure, actions):
    def one_step(state, action):
        after, event = environment.step(grid, treasure, state, action)
        return after, (event, environment.reward(event.found), state.episode)

    return jax.lax.scan(one_step, environment.initial(), actions)


def walked(grid: Grid, treasure: int, actions: list[int]) -> list[tuple[int, int, float, int]]:
    _, (event, reward, episode) = _walked(grid, jnp.int32(treasure), jnp.asarray(actions, jnp.int32))
    columns = (event.cell // grid.width, event.cell % grid.width, reward, episode)
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    return [
        (row, column, round(reward, 6), episode)
        for (row, column, reward, episode), counted in zip(rows, np.asarray(event.counted), strict=True)
        if counted
    ]


GRIDS = [Grid(3, 3, 5), Grid(2, 4, 7), Grid(5, 5, 25), Grid(1, 3, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@given(data=st.data())
@settings(max_examples=30)
def test_the_environment_equals_the_simulator(grid, data):
    treasure = data.draw(st.integers(1, grid.cells - 1))
    actions = data.draw(st.lists(st.integers(0, 3), min_size=2 * grid.horizon, max_size=2 * grid.horizon))
    assert walked(grid, treasure, actions) == simulated(grid, treasure, actions)


PAPER = Model(
    heads=2, width=8, key_size=3, attention="softmax", mlp=True, layer_norm=True, positions="sinusoidal",
    embedding_scale=3.0, residual_init="halved",
)  # fmt: skip
VARIANTS = {
    "paper": PAPER,
    "linear": Model(width=8, key_size=4, heads=2, embedding_scale=3.0),
    "learnt positions": Model(width=8, attention="softmax", positions="learnt", embedding_layers=2),
}
SMALL = Task(height=3, width=4, horizon=9, noise=3)


platform_cases = pytest.mark.parametrize("platform", ["cpu", "cuda"])


@functools.cache
def _losses_both_ways(task: Task, model: Model):
    @jax.jit
    def both_ways(weights, noise, scale):
        network = jax.tree.map(lambda weight: scale * weight, model.build(task, jax.random.key(weights)))
        inputs, seeds = task.evaluation_inputs(), task.sample_seeds(jax.random.key(noise), 5)
        return task.losses(network, inputs, seeds), BaseTask.losses(task, network, inputs, seeds)

    return both_ways


CHOSEN = {"paper": "cpu"}
"""The variant that `make test` has, and its form; all are in CI."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "platform"),
    [
        pytest.param(variant, platform, marks=() if CHOSEN.get(variant) == platform else pytest.mark.long)
        for variant in VARIANTS
        for platform in ("cpu", "cuda")
    ],
)
@given(weights=st.integers(0, 10_000), noise=st.integers(0, 10_000), scale=st.sampled_from([0.5, 2.0, 6.0]))
@settings(max_examples=25)
def test_shared_rollouts_equal_the_plain_ones(platform, variant, weights, noise, scale):
    with vectorisation.built_for(platform):
        np.testing.assert_array_equal(*_losses_both_ways(SMALL, VARIANTS[variant])(weights, noise, scale))


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["softmax", pytest.param("linear", marks=pytest.mark.long)])
def test_a_step_by_parts_of_the_past_equals_one_over_their_tokens_put_together(attention):
    """Against the form that joins all keys, and all values, of a token and of two memories."""
    network = Model(attention=attention, heads=2, width=8, key_size=5).build(SMALL, jax.random.key(0))
    layer, h = network.blocks[0].attention, jax.random.normal(jax.random.key(1), (8,))
    keys, values = jax.random.normal(jax.random.key(2), (2, 2, 4, 5))
    past = [((3 * keys, values), [1, 0, 1, 1]), ((keys[:, :3], values[:, 1:]), [0, 0, 0])]
    past = [(memory, jnp.asarray(mask, bool)) for memory, mask in past]

    def joined(h):
        query, key, value = ((h @ weight[...]).reshape(2, 5) for weight in (layer.query, layer.key, layer.value))
        memories = [*(memory for memory, _ in past), (key[:, None], value[:, None])]
        keys, values = (jnp.concatenate(parts, axis=1) for parts in zip(*memories, strict=True))
        scores = jnp.einsum("htf,hf->ht", keys, query)
        mask = jnp.concatenate([*(mask for _, mask in past), jnp.ones(1, bool)])
        linear = attention == "linear"
        shares = jnp.where(mask, scores, 0) if linear else jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
        return jnp.einsum("ht,htf->hf", shares, values).reshape(-1) @ layer.output[...]

    np.testing.assert_allclose(layer.step(h, past)[0], joined(h), rtol=1e-5, atol=1e-6)
    by_parts, together = (jax.jacobian(form)(h) for form in (lambda h: layer.step(h, past)[0], joined))
    np.testing.assert_allclose(by_parts, together, rtol=1e-4, atol=1e-5)


class Scripted(StepwiseNetwork):
    """A model that reads the position out of its token and acts by a script, one for each way an episode can begin.

    It knows nothing but its position and whether the last reward was 1, so it shows that tokens, positions and resets
    are those of the contract: actions of the second episode restart when the treasure is found.
    """

    def __init__(self, first, second):
        self.first, self.second = first, second

    @property
    def depth(self):
        return 1

    def __call__(self, tokens, mask, positions=None):
        raise NotImplementedError

    def placed(self, positions):
        return jnp.stack([positions, jnp.zeros_like(positions)], axis=1).astype(jnp.float32)

    def content(self, tokens):
        return jnp.stack([jnp.zeros(len(tokens)), tokens[:, -1]], axis=1)

    def empty_memory(self, tokens):
        return jnp.zeros((1, tokens, 2))  # what was read at each position

    def step(self, h, past):
        # The steps since the treasure was found, this token included; a branch may lie in two memories.
        history = jnp.concatenate([memory[0] for memory, _ in past] + [h[None]])
        shown = jnp.concatenate([mask for _, mask in past] + [jnp.ones(1, bool)])
        found = shown & (history[:, 1] == 1)
        since = jnp.where(found, h[0] - history[:, 0], -1).max().astype(jnp.int32)
        clock = h[0].astype(jnp.int32)
        horizon = len(self.first)
        action = jnp.where(
            since >= 0, self.second[since], jnp.where(clock < horizon, self.first[clock], self.second[clock - horizon])
        )
        return (jnp.arange(4) == action).astype(jnp.float32), h[None, None]


@functools.partial(jax.jit, static_argnums=0)
def _scripted_durations(grid: Grid, first, second):
    return rollout.durations(grid, Scripted(first, second), jnp.zeros((1, 1)))


@pytest.mark.slow
@platform_cases
@given(
    first=st.lists(st.integers(0, 3), min_size=6, max_size=6),
    second=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
@settings(max_examples=15)
def test_durations_equal_the_simulator_for_scripted_agents(platform, first, second):
    grid = Grid(2, 3, 6)
    with vectorisation.built_for(platform):
        both = jax.tree.map(np.asarray, _scripted_durations(grid, jnp.asarray(first), jnp.asarray(second)))
    for treasure in range(1, grid.cells):
        walk = simulated(grid, treasure, _script(grid, treasure, first, second))
        for episode in range(2):
            rewards = [reward for _, _, reward, of in walk if of == episode]
            assert int(both.steps[episode, treasure - 1, 0]) == len(rewards)
            assert bool(both.found[episode, treasure - 1, 0]) == (rewards[-1] == 1)


def _script(grid: Grid, treasure: int, first: list[int], second: list[int]) -> list[int]:
    """The actions that a scripted agent takes: the first script until it finds the treasure, then the second."""
    once = [event for event in simulated(grid, treasure, first * 2) if event[3] == 0]
    return first[: len(once)] + second + first


@functools.partial(jax.jit, static_argnums=0)
def _plain_walk(task: Task, treasure, noise):
    """A plain rollout of an initial network."""
    return rollout.trajectory(task.grid, PAPER.build(task, jax.random.key(3)), treasure, noise)


@pytest.mark.slow
def test_tokens_are_noise_row_column_and_reward():
    task = SMALL
    walk = jax.tree.map(np.asarray, _plain_walk(task, jnp.int32(1), jnp.array([1.0, -2.0, 0.5])))
    np.testing.assert_array_equal(walk.token[0], [1, -2, 0.5, *[0] * 8])
    for before, token in zip(range(2 * task.horizon - 1), np.asarray(walk.token[1:]), strict=True):
        row, column = divmod(int(walk.cell[before]), task.width)
        expected = [0, 0, 0, *np.eye(3)[row], *np.eye(4)[column], 1.0 if walk.found[before] else -0.1]
        np.testing.assert_allclose(token, expected, rtol=1e-6)


@pytest.mark.slow
def test_a_batch_of_all_cells_holds_every_treasure_once():
    task = Task()
    draw = jax.jit(task.sample_inputs, static_argnums=1)
    assert sorted(np.asarray(draw(jax.random.key(0), 24)).tolist()) == list(range(1, 25))
    counts = np.bincount(np.asarray(draw(jax.random.key(1), 60)), minlength=25)[1:]
    assert set(counts) == {2, 3}
    few = np.asarray(jax.jit(jax.vmap(lambda k: task.sample_inputs(jax.random.key(k), 2)))(np.arange(300)))
    assert set(few.ravel()) == set(range(1, 25))


@pytest.mark.slow
def test_outcomes_agree_with_the_paths_kept_of_the_first_seeds():
    task = SMALL
    network = jax.jit(lambda key: jax.tree.map(lambda w: 3 * w, PAPER.build(task, key)))(jax.random.key(5))
    inputs, seeds = task.evaluation_inputs(), task.sample_seeds(jax.random.key(6), 4)
    outcomes = jax.tree.map(np.asarray, jax.jit(task.outcomes)(network, inputs, seeds))
    steps = 2 * task.horizon
    for index, treasure in enumerate(np.asarray(inputs)):
        for seed in range(3):
            path = [int(outcomes.kept[f"path_{seed}_{step}"][index]) for step in range(steps)]
            cost = sum(cell >= 0 for cell in path)
            first = path.index(treasure) + 1 if treasure in path[: task.horizon] else task.horizon
            finds = sum(cell == treasure for cell in path)
            failed = 2 - finds
            assert outcomes.loss[index, seed] == cost == -outcomes.measures["reward"][index, seed]
            assert outcomes.measures["first_visit"][index, seed] == first
            assert outcomes.measures["second_episode"][index, seed] == cost - first
            assert bool(outcomes.correct[index, seed]) == (finds == 2)
            np.testing.assert_allclose(
                outcomes.measures["text_reward"][index, seed], 2.2 - 0.1 * cost - 1.1 * failed, rtol=1e-5, atol=1e-5
            )


@pytest.mark.slow
def test_the_reward_scale_punishes_a_failed_episode_by_eleven_steps():
    # An agent that always goes right finds the treasures of the lowest row, and no other.
    right = Scripted(jnp.full(6, RIGHT), jnp.full(6, RIGHT))
    for scale, expected in (("steps", [2, 4, 12, 12, 12]), ("reward", [2, 4, 34, 34, 34])):
        task = Task(height=2, width=3, horizon=6, noise=1, scale=scale)
        losses = jax.jit(functools.partial(task.losses, right))(task.evaluation_inputs(), jnp.zeros((1, 1)))
        np.testing.assert_allclose(losses[:, 0], expected, rtol=1e-5)


def test_sizes_that_leave_no_room_and_a_gradient_optimiser_are_refused():
    with pytest.raises(ValueError, match="no room for a treasure"):
        Task(height=1, width=1)
    fields = {"task": {"name": "gridworld"}, "model": {"name": "transformer"}, "baseline": "Aq_R", "steps": 1}
    with pytest.raises(ValueError, match="no gradient"):
        TrialSpec.model_validate(fields)


@pytest.mark.slow
def test_a_trial_is_evaluated_by_rewards_visits_and_exploitability():
    trial = TrialSpec.model_validate(
        {
            "task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 6, "noise": 1},
            "model": {"name": "transformer", "width": 4, "key_size": 2, "blocks": 1}, "baseline": "Aq_R",
            "optimizer": {"name": "pgpe"}, "steps": 1, "evaluation": {"seeds": 4, "votes": []},
        }
    )  # fmt: skip
    model = jax.jit(trial.model.build)(trial.task, jax.random.key(0))
    metrics, columns = evaluate(trial, model)
    assert metrics["reward_worst"] == columns["reward"].min() == -metrics["loss_worst"]
    assert metrics["exploitability"] == pytest.approx(metrics["loss_worst"] - minmax.randomised(trial.task.grid).value)
    assert metrics["first_visit_worst"] == columns["first_visit"].max()
    assert metrics["text_reward_p5"] <= metrics["text_reward"]
    assert columns["path_2_11"].shape == (5,)
    assert not {"sampled", "variance", "margin", "path_2_11"} & set(metrics)
