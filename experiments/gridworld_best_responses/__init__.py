"""The randomised min-max of the grid world, learned from nothing: a double oracle on a network's own walks.

One network begins with fresh weights. In the first part of a training it walks first episodes by sampling, and the
cheapest of its walks are kept. A linear programme over these gives the shares of the best mixture, and the adversary's
distribution of treasures against it (McMahan, Gordon and Blum, Planning in the presence of cost functions controlled by
an adversary, ICML 2003). The network imitates the kept walks that cost least against this adversary, and continues them
from a random step on with samples of its own; those that cost less against the adversary than the mixture does join
the programme, and the adversary moves. In the second part it learns to walk the few walks of the mixture by name: each
has a first token. It learns the second episodes at once, by hindsight: any walk of its own that has met a cell is a way
to a treasure there.

The seed r is a number of random bits, all equally likely. The network's first layer compares the number with thresholds
that training has found, which chooses the first token. So a token is played by a whole number of the equally likely
seeds, and an evaluation of all seeds and treasures, by the network's own actions, is exact.

No walk, no value and no distance comes from elsewhere: `MINMAX` is only subtracted from what is measured.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from pydantic import Field

from experiments.gridworld_best_responses import matrix_game
from models import transformer
from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Evaluated, Step
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Traced
from tasks import gridworld
from tasks.gridworld import environment
from tasks.gridworld.environment import START, STEP
from tasks.gridworld.rollout import embedded, noise_token, reached_token, written

MINMAX = {(3, 3): 8.0, (4, 4): 278 / 23, (5, 5): 52 / 3}
"""Steps of both episodes on the worst treasure under the best mixture (docs/gridworld.md), by height and width."""

SOFTNESS = 0.3
"""Steps against the adversary by which a kept walk must cost more to be imitated and continued 1/e times as often."""

HEAT = 3.0
"""Walks are sampled at temperatures from 1 to so much more."""

FOLLOWED = 4
"""Treasures of each token whose second episodes are learned in a step."""

REVIEW = 100
"""Steps from one look at what the network does with its tokens to the next."""


class Walks(NamedTuple):
    """First episodes without a treasure.

    Attributes:
        action: Of each step.
        cell: Reached by it.
        visit: Step of the first visit of each cell, the horizon + 1 if there is none; of the corner 0.
    """

    action: Int[Array, "walk step"]
    cell: Int[Array, "walk step"]
    visit: Int[Array, "walk cell"]


class Experiment(experiment_contract.Experiment):
    """Two episodes in a grid world, both from the lower left corner; see `tasks.gridworld`.

    Attributes:
        height: Rows of the grid.
        width: Columns of the grid.
        horizon: Longest episode, in steps.
        features: Width of the network's residual stream.
        tokens: Number of first tokens, so most walks of the mixture; as many as cells are enough.
        bits: Random bits of a seed r.
        kept: Walks in the linear programme.
        samples: Walks that a step draws.
        batch: Kept walks that a step imitates.
        search: Share of the steps that look for walks; the others learn to play them.
        learning_rate: Of Adam.
    """

    metrics: ClassVar = {
        "loss_worst": "min",  # steps of both episodes, the mean over all seeds r, on the worst treasure
        "loss": "min",  # the mean over treasures
        "exploitability": "min",  # `loss_worst` beyond the exact min-max, where that is known
        "unrounded_worst": "min",  # `loss_worst` if tokens had their best probabilities
        "text_reward_worst": "max",  # the reward of the paper's text
        "success": "max",  # share of pairs of a seed and a treasure that is found in both episodes
        "first_visit_worst": "min",
    }

    name: Literal["gridworld_best_responses"] = "gridworld_best_responses"
    height: Annotated[int, Field(ge=2)] = 5
    width: Annotated[int, Field(ge=2)] = 5
    horizon: Count = 25
    features: Count = 32
    heads: Count = 2
    key_size: Count = 8
    tokens: Count = 25
    bits: Annotated[int, Field(ge=1, le=16)] = 9
    kept: Count = 2048
    samples: Count = 256
    batch: Count = 64
    search: Traced[Annotated[float, Field(gt=0, lt=1)]] = 0.45
    learning_rate: Traced[Positive] = 3e-3

    def init(self, at: Step) -> dict[str, Any]:
        sizes = transformer.Model(
            blocks=2, heads=self.heads, width=self.features, key_size=self.key_size, attention="softmax",
            layer_norm=True, positions="sinusoidal", embedding_scale=self._task.token_size() / 2,
        )  # fmt: skip
        seeds = jnp.zeros(self.tokens, jnp.int32).at[0].set(2**self.bits)
        return self.start_from({"network": sizes.build(self._task, at.key), "seeds": seeds}, at)

    def start_from(self, network: Any, at: Step) -> dict[str, Any]:
        """The state before the first step with weights that are given; no walk is known."""

        def unknown(walks: int) -> Walks:
            """Walks that run into the wall of the corner."""
            nowhere = jnp.zeros((walks, self.horizon), jnp.int32)
            return Walks(nowhere, nowhere, jnp.full((walks, self._grid.cells), self.horizon + 1).at[:, START].set(0))

        return network | {
            "adam": optax.scale_by_adam().init(network["network"]),
            "kept": unknown(self.kept),
            "excess": jnp.zeros(self.kept),  # cost against the adversary beyond that of the mixture
            "ways": unknown(self._grid.cells),  # the shortest walk so far to each cell
            "played": unknown(self.tokens),
            "worst": jnp.float32(2 * self.horizon),
        }

    def network(self, state: Any) -> Any:
        """The transformer, and how many of the seeds r choose each first token."""
        return {name: state[name] for name in ("network", "seeds")}

    def step(self, state: Any, at: Step) -> tuple[Any, dict[str, Float[Array, ""]]]:
        """A step of the search, or, after its end, of learning the mixture."""
        last = jnp.int32(self.search * at.steps)  # step of the search
        searching = at.index <= last
        state = jax.lax.cond(searching, self._searched, lambda state, _: state, state, at.key)
        state = state | {"played": jax.lax.cond(at.index == last, self._mixture, lambda state: state["played"], state)}

        value, gradient = jax.lax.cond(
            searching, jax.value_and_grad(self._loss_of_kept), jax.value_and_grad(self._loss_of_played),
            state["network"], state, at.key,
        )  # fmt: skip
        updates, adam = optax.scale_by_adam(b2=0.98).update(_clipped(gradient), state["adam"])
        rate = self.learning_rate * _warm(at.index, last, at.steps)
        network = jax.tree.map(lambda weight, update: weight - rate * update, state["network"], updates)
        state = state | {"network": network, "adam": adam}
        due = ~searching & ((at.index % REVIEW == REVIEW - 1) | (at.index + 1 == at.steps))
        state = jax.lax.cond(due, self._reviewed, lambda state: state, state)
        return state, {"imitation_loss": value, "worst_treasure": state["worst"]}

    def evaluate(self, state: Any, at: Step) -> Evaluated:
        """Exact values, by the network's own actions with all seeds r and all treasures."""
        found = self._task.outcomes(state["network"], self._task.evaluation_inputs(), jnp.eye(self.tokens))
        bits = jnp.arange(2**self.bits)[:, None] >> jnp.arange(self.bits) & 1
        token = self.token_of(bits, state["seeds"])

        def mean(pairs: Float[Array, "treasure token"]) -> Float[Array, " treasure"]:
            return pairs[:, token].mean(axis=1)

        steps, visit = mean(found.loss), mean(found.measures["first_visit"])
        metrics = {
            "loss_worst": steps.max(),
            "loss": steps.mean(),
            "exploitability": steps.max() - MINMAX.get((self.height, self.width), jnp.nan),
            "unrounded_worst": matrix_game.solved(found.loss.T).value,
            "text_reward_worst": mean(found.measures["text_reward"]).min(),
            "success": mean(found.correct.astype(jnp.float32)).mean(),
            "first_visit_worst": visit.max(),
        }
        return Evaluated(metrics, {"loss": steps, "first_visit": visit})

    def token_of(self, bits: Int[Array, "*seed bit"], seeds: Int[Array, " token"]) -> Int[Array, "*seed"]:
        """The first token that the bits of a seed r choose: so many thresholds are at most the number they write."""
        number = (bits << jnp.arange(self.bits)).sum(axis=-1)
        return (number[..., None] >= jnp.cumsum(seeds)).sum(axis=-1)

    @property
    def _task(self) -> gridworld.Task:
        return gridworld.Task(height=self.height, width=self.width, horizon=self.horizon, noise=self.tokens)

    @property
    def _grid(self) -> environment.Grid:
        return environment.Grid(self.height, self.width, self.horizon)

    # The search

    def _searched(self, state: Any, key: PRNGKeyArray) -> Any:
        """New walks, of which and of those kept the best are kept."""
        which, where, drawing = jax.random.split(key, 3)
        parents = jax.random.categorical(which, -state["excess"] / SOFTNESS, shape=(self.samples,))
        ends = jax.random.randint(where, (self.samples,), 0, self.horizon)
        new = self._continued(state["network"], state["kept"].action[parents], ends, drawing)
        shortest = new.visit.argmin(axis=0)
        shorter = (new.visit.min(axis=0) < jnp.diagonal(state["ways"].visit))[:, None]
        ways = jax.tree.map(lambda values, known: jnp.where(shorter, values[shortest], known), new, state["ways"])
        walks = jax.tree.map(lambda *both: jnp.concatenate(both), state["kept"], new)
        costs = self._costs(walks, ways)
        game = matrix_game.solved(costs)
        excess = jnp.where(_repeated(costs), jnp.inf, costs @ game.columns - game.value)
        order = jnp.argsort(excess)[: self.kept]
        kept = jax.tree.map(lambda values: values[order], walks)
        return state | {"kept": kept, "excess": excess[order], "ways": ways, "worst": game.value}

    def _continued(
        self, network: Any, actions: Int[Array, "walk step"], ends: Int[Array, " walk"], key: PRNGKeyArray
    ) -> Walks:
        """Walks that begin with these actions, until their end, and go on with samples of the network."""
        count, clock = len(actions), jnp.arange(self.horizon)
        tokens, placed = embedded(self._grid, network, jnp.zeros((1, self.tokens))), network.placed(clock)
        luck = jax.random.gumbel(key, (self.horizon, count, len(environment.ACTIONS)))
        luck = luck * (1 + HEAT * jnp.arange(count) / count)[:, None]

        def one_step(now: Any, t: Int[Array, ""]) -> Any:
            h, cell, memory = now
            logits, own = jax.vmap(lambda h, memory: network.step(h, [(memory, clock < t)]))(h + placed[t], memory)
            action = jnp.where(t < ends, actions[:, t], (logits + luck[t]).argmax(axis=-1))
            cell = environment.neighbour(self._grid, cell, action)
            return (tokens.reached[0, cell], cell, written(memory, own, t)), (action, cell)

        memory = jax.tree.map(lambda room: jnp.zeros((count, *room.shape)), network.empty_memory(self.horizon))
        begin = jnp.repeat(tokens.noise, count, axis=0), jnp.full(count, START), memory
        action, cell = (values.T for values in jax.lax.scan(one_step, begin, clock)[1])
        reached = cell[:, :, None] == jnp.arange(self._grid.cells)
        visit = jnp.where(reached, 1 + clock[:, None], self.horizon + 1).min(axis=1).at[:, START].set(0)
        return Walks(action, cell, visit)

    def _costs(self, walks: Walks, ways: Walks) -> Float[Array, "walk treasure"]:
        """Steps of both episodes, if the second takes the way to a treasure that the first has found, or searches for
        those that it has missed on the way to one of them."""
        met = walks.visit <= self.horizon
        missed = jnp.minimum(self._seen_on(ways)[self._tour(walks, ways)], self.horizon)
        known = jnp.minimum(jnp.diagonal(ways.visit), self.horizon)
        return jnp.where(met, walks.visit + known, self.horizon + missed)[:, 1:].astype(jnp.float32)

    def _tour(self, walks: Walks, ways: Walks) -> Int[Array, " walk"]:
        """The cell the way to which soonest sees what each walk has missed."""
        missed = (walks.visit > self.horizon).astype(jnp.float32)
        return (missed @ jnp.minimum(self._seen_on(ways), self.horizon).T.astype(jnp.float32)).argmin(axis=1)

    def _seen_on(self, ways: Walks) -> Int[Array, "way cell"]:
        """First visits on the way to each cell, which ends there."""
        return jnp.where(ways.visit <= jnp.diagonal(ways.visit)[:, None], ways.visit, self.horizon + 1)

    def _loss_of_kept(self, network: Any, state: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean cross-entropy of the actions of kept walks, up to the last cell that they find."""
        chosen = jax.random.categorical(jax.random.fold_in(key, 1), -state["excess"] / SOFTNESS, shape=(self.batch,))
        walks = jax.tree.map(lambda values: values[chosen], state["kept"])
        first = noise_token(self._grid, jnp.zeros(self.tokens))
        causal = jnp.tri(self.horizon, dtype=bool)
        logits = jax.vmap(lambda cell: network(self._read(first, cell), causal))(walks.cell)
        end = jnp.where(walks.visit > self.horizon, 0, walks.visit).max(axis=1)
        return _cross_entropy(logits, walks.action, jnp.arange(self.horizon) < end[:, None])

    def _read(self, first: Float[Array, " feature"], cells: Int[Array, " step"]) -> Float[Array, "step feature"]:
        """What the network reads before each step of a first episode."""
        token = jax.vmap(lambda cell: reached_token(self._grid, self.tokens, cell, STEP))
        return jnp.concatenate([first[None], token(cells[:-1])])

    # Playing the mixture

    def _mixture(self, state: Any) -> Walks:
        """The walks of the best mixture, the most frequent first."""
        shares = matrix_game.solved(self._costs(state["kept"], state["ways"])).rows
        order = jnp.argsort(-shares)[: min(self.tokens, self.kept)]
        return jax.tree.map(lambda values: values[order], state["kept"])

    def _loss_of_played(self, network: Any, state: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean cross-entropy of both episodes of each token, with some of the treasures."""
        cells, followed = self._grid.cells, min(FOLLOWED, self._grid.cells - 1)
        order = 1 + jax.random.permutation(key, cells - 1)
        turns = jnp.arange(self.tokens * followed).reshape(self.tokens, followed) % (cells - 1)
        played, ways = state["played"], state["ways"]
        lessons = jax.vmap(self._lesson, in_axes=(None, 0, 0, 0, 0))
        tokens, mask, positions, actions, counted = lessons(
            ways, jnp.eye(self.tokens), played, self._tour(played, ways), order[turns]
        )
        logits = jax.vmap(network)(tokens, mask, positions)
        return _cross_entropy(logits, actions, counted)

    def _lesson(
        self,
        ways: Walks,
        name: Float[Array, " token"],
        walk: Walks,
        tour: Int[Array, ""],
        treasures: Int[Array, " some"],
    ) -> tuple[Array, Array, Array, Array, Array]:
        """The first episode of a token, and the second ones of some treasures as branches that grow from it.

        Returns:
            What the network reads, what each place of it attends to, positions, actions, and which of these count.
        """
        horizon, longest = self.horizon, min(self.height + self.width, self.horizon)
        met = walk.visit[treasures] <= horizon
        start = jnp.where(met, walk.visit[treasures], horizon)
        way = jnp.where(met, treasures, tour)
        length = ways.visit[way, way]
        before = jnp.where(met, treasures, walk.cell[-1])[:, None]
        reached = jnp.concatenate([before, ways.cell[way, : longest - 1]], axis=1)
        reward = jnp.full(reached.shape, STEP).at[:, 0].set(jnp.where(met, environment.FOUND, STEP))
        token = jax.vmap(lambda cell, reward: reached_token(self._grid, self.tokens, cell, reward))
        tokens = jnp.concatenate(
            [self._read(noise_token(self._grid, name), walk.cell), token(reached.reshape(-1), reward.reshape(-1))]
        )
        clock, steps = jnp.arange(horizon), jnp.arange(longest)
        positions = jnp.concatenate([clock, (start[:, None] + steps).reshape(-1)])
        episode = jnp.concatenate([jnp.zeros(horizon, int), jnp.repeat(1 + jnp.arange(len(way)), longest)])
        step = jnp.concatenate([clock, jnp.tile(steps, len(way))])
        past = jnp.concatenate([jnp.zeros(1, int), start])[episode]  # tokens of the first episode that a branch reads
        reads_first = (episode == 0) & (step < past[:, None])
        reads_own = (episode == episode[:, None]) & (step <= step[:, None])
        end = jnp.where((walk.visit > horizon).any(), horizon, walk.visit.max())
        counted = jnp.concatenate([clock < end, (steps < length[:, None]).reshape(-1)])
        actions = jnp.concatenate([walk.action, ways.action[way, :longest].reshape(-1)])
        return tokens, reads_first | reads_own, positions, actions, counted

    def _reviewed(self, state: Any) -> Any:
        """The seeds of each token anew, by what the network now does."""
        costs = self._task.losses(state["network"], self._task.evaluation_inputs(), jnp.eye(self.tokens)).T
        seeds = matrix_game.parts(costs, matrix_game.solved(costs).rows, 2**self.bits)
        return state | {"seeds": seeds, "worst": (seeds @ costs).max() / 2**self.bits}


def _cross_entropy(
    logits: Float[Array, "*batch action"], actions: Int[Array, "*batch"], counted: Bool[Array, "*batch"]
) -> Float[Array, ""]:
    missed = optax.softmax_cross_entropy_with_integer_labels(logits, actions)
    return jnp.where(counted, missed, 0.0).sum() / counted.sum()


def _repeated(costs: Float[Array, "walk treasure"]) -> Bool[Array, " walk"]:
    """Whether an earlier row has the same costs; rows are compared by a polynomial modulo 2^32."""
    powers = jnp.cumprod(jnp.full(costs.shape[1], 2_654_435_761, jnp.uint32))
    number = (costs.astype(jnp.uint32) * powers).sum(axis=1)
    order = jnp.argsort(number)
    return jnp.zeros(len(costs), bool).at[order[1:]].set(number[order[1:]] == number[order[:-1]])


def _clipped(gradient: Any) -> Any:
    """The gradient with a norm of 1 at most."""
    return jax.tree.map(lambda part: part / jnp.maximum(optax.tree.norm(gradient), 1.0), gradient)


def _warm(index: Int[Array, ""], last: Int[Array, ""], steps: int) -> Float[Array, ""]:
    """Share of the learning rate: full in the search, then along a cosine to a thirtieth; it rises in 50 steps."""
    done = jnp.maximum(index - last, 0) / (steps - last)
    return jnp.minimum(1.0, (index + 1) / 50) * (1 / 30 + (1 - 1 / 30) * (1 + jnp.cos(jnp.pi * done)) / 2)
