"""A network with batch normalisation and dropout, by flax nnx, tells the arms of a noisy spiral apart.

The optimiser is a part of the experiment, so that a space sweeps optimisers and their settings.
"""

from typing import Annotated, Any, ClassVar, Literal, cast

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int
from pydantic import Field

from sweeper.trial import experiment_contract, plugins
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import BelowOne, Count, NotNegative
from sweeper.trial.optimizer_contract import AnyOptimizer, GradientOptimizer

Labelled = tuple[Float[Array, "point 2"], Int[Array, " point"]]


class Network(nnx.Module):
    """Hidden layers of a dense map, batch normalisation (Ioffe & Szegedy, 2015), rectification and dropout each.

    Batch normalisation keeps running statistics and dropout (Srivastava et al., 2014) a key, both beside the weights.
    Without `training` the statistics are used and stay as they are, and nothing is dropped.
    """

    def __init__(self, inputs: int, width: int, depth: int, outputs: int, dropout: float, rngs: nnx.Rngs):
        sizes = [inputs, *[width] * depth]
        # The normalisation has an offset, so a bias before it would do nothing.
        self.dense = nnx.List(nnx.Linear(a, width, use_bias=False, rngs=rngs) for a in sizes[:-1])
        self.norms = nnx.List(nnx.BatchNorm(width, momentum=0.9, rngs=rngs) for _ in range(depth))
        self.dropouts = nnx.List(nnx.Dropout(dropout, rngs=rngs) for _ in range(depth))
        self.last = nnx.Linear(width, outputs, rngs=rngs)

    def __call__(self, x: Float[Array, "point input"], training: bool = False) -> Float[Array, "point output"]:
        """The logits of every class."""
        for dense, norm, dropout in zip(self.dense, self.norms, self.dropouts, strict=True):
            x = nnx.relu(norm(dense(x), use_running_average=not training))
            x = dropout(x, deterministic=not training)
        return self.last(x)


class Experiment(experiment_contract.Experiment):
    """The arms of a spiral are the classes of points in the plane; half of the points are held out.

    Attributes:
        arms: Number of arms.
        turns: How often an arm goes around the centre, before it ends at distance 1.
        noise: Standard deviation of points around their arm, along each axis.
        width: Units of a hidden layer.
        depth: Number of hidden layers.
        dropout: Share of hidden units that a training step leaves out.
        optimizer: Any optimiser by gradients.
    """

    metrics: ClassVar = {"accuracy": "max", "loss": "min"}

    name: Literal["classification"] = "classification"
    arms: Count = 3
    turns: NotNegative = 1.5
    noise: NotNegative = 0.05
    points: Annotated[int, Field(ge=2, multiple_of=2)] = 4000
    width: Count = 32
    depth: Count = 2
    dropout: BelowOne = 0.1
    batch_size: Count = 64
    optimizer: AnyOptimizer = Field(default_factory=lambda: plugins.load("optimizer", "adam")())

    def data(self) -> dict[str, Labelled]:
        """Points and their arms, `[point, 2]` and `[point]`: those for training and those held out."""
        arm_key, distance_key, noise_key = jax.random.split(jax.random.key(0), 3)
        arm = jax.random.randint(arm_key, (self.points,), 0, self.arms)
        distance = jax.random.uniform(distance_key, (self.points,))
        angle = 2 * jnp.pi * (arm / self.arms + self.turns * distance)
        points = distance[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        points += self.noise * jax.random.normal(noise_key, points.shape)
        half = self.points // 2
        return {"training": (points[:half], arm[:half]), "held_out": (points[half:], arm[half:])}

    def init(self, at: Step) -> dict[str, Any]:
        """Weights; what the network keeps beside them (statistics, keys); and the state of the optimiser."""
        return self.start_from(self._network(at.key), at)

    def start_from(self, network: Network, at: Step) -> dict[str, Any]:
        """The weights of a network and what it keeps, with a fresh optimiser."""
        _, weights, kept = nnx.split(network, nnx.Param, ...)
        return {"weights": weights, "kept": kept, "optimizer": self._transformation(at.steps).init(weights)}

    def step(self, state: Any, at: Step) -> tuple[dict[str, Any], dict[str, Float[Array, ""]]]:
        """One step along the gradient of the mean loss of a batch, drawn with replacement."""
        points, arms = at.data["training"]
        batch = jax.random.randint(at.key, (self.batch_size,), 0, len(points))

        def loss(weights: nnx.State) -> tuple[Float[Array, ""], nnx.State]:
            network = self._merged({**state, "weights": weights})
            logits = network(points[batch], training=True)
            return _loss(logits, arms[batch]), nnx.state(network, nnx.Not(nnx.Param))

        (value, kept), gradient = jax.value_and_grad(loss, has_aux=True)(state["weights"])
        updates, optimizer = self._transformation(at.steps).update(gradient, state["optimizer"], state["weights"])
        weights = optax.apply_updates(state["weights"], updates)
        return {"weights": weights, "kept": kept, "optimizer": optimizer}, {"train_loss": value}

    def evaluate(self, state: Any, at: Step) -> dict[str, Float[Array, ""]]:
        """Share of the points held out that get their arm, and their mean loss in nats."""
        points, arms = at.data["held_out"]
        logits = self._merged(state)(points)
        return {"accuracy": (logits.argmax(axis=1) == arms).mean(), "loss": _loss(logits, arms)}

    def network(self, state: Any) -> Network:
        """The trained network, to be called with points."""
        return self._merged(state)

    def _network(self, key: Any) -> Network:
        return Network(2, self.width, self.depth, self.arms, self.dropout, nnx.Rngs(key))

    def _merged(self, state: Any) -> Network:
        # The structure of the network is that of a fresh one, whose weights nobody computes.
        structure = nnx.graphdef(nnx.eval_shape(lambda: self._network(jax.random.key(0))))
        return nnx.merge(structure, state["weights"], state["kept"], copy=True)

    def _transformation(self, steps: int) -> optax.GradientTransformation:
        return cast(GradientOptimizer, self.optimizer).transformation(steps)


def _loss(logits: Float[Array, "point arm"], arms: Int[Array, " point"]) -> Float[Array, ""]:
    return optax.softmax_cross_entropy_with_integer_labels(logits, arms).mean()
