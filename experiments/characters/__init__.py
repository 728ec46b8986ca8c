"""A transformer (Vaswani et al., 2017) that foretells the next character of a text, by flax nnx.

The text is the prose of this repository's own documents as they were on one day, so that later changes of these change
no result. It lies in the folder of this experiment, so it is part of this experiment's fingerprint and of no other's.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Int
from pydantic import Field

from sweeper.trial import experiment_contract, plugins
from sweeper.trial.experiment_contract import Step
from sweeper.trial.field_types import Count
from sweeper.trial.optimizer_contract import AnyOptimizer, GradientOptimizer

TEXT = Path(__file__).with_name("text.txt")
HELD_OUT = 0.1
"""Share of the text, at its end, that no training sees."""


class Block(nnx.Module):
    """Attention to this character and those before it, then a layer of 4 × width units; each added to what is there."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs):
        self.heads = heads
        self.norms = nnx.List(nnx.LayerNorm(width, rngs=rngs) for _ in range(2))
        self.project = nnx.Linear(width, 3 * width, use_bias=False, rngs=rngs)  # to queries, keys and values
        self.join = nnx.Linear(width, width, use_bias=False, rngs=rngs)
        self.widen = nnx.Linear(width, 4 * width, rngs=rngs)
        self.narrow = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: Float[Array, "window place width"]) -> Float[Array, "window place width"]:
        parts = self.project(self.norms[0](x)).reshape(*x.shape[:2], 3 * self.heads, -1)
        queries, keys, values = jnp.split(parts, 3, axis=2)
        attended = jax.nn.dot_product_attention(_turned(queries), _turned(keys), values, is_causal=True)
        x = x + self.join(attended.reshape(x.shape))
        return x + self.narrow(nnx.gelu(self.widen(self.norms[1](x))))


def _turned(x: Float[Array, "window place head feature"]) -> Float[Array, "window place head feature"]:
    """Pairs of features turned by angles that grow with the place, so that products of queries and keys know how far
    apart they are (Su et al., 2021)."""
    places, half = x.shape[1], x.shape[3] // 2
    angles = (jnp.arange(places)[:, None] * 10_000.0 ** (-jnp.arange(half) / half))[:, None]
    first, second = jnp.split(x, 2, axis=3)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=3)


class Network(nnx.Module):
    """Embedded characters, blocks, and the logits of the next character at every place."""

    def __init__(self, symbols: int, width: int, blocks: int, heads: int, rngs: nnx.Rngs):
        self.symbols = nnx.Embed(symbols, width, rngs=rngs)
        self.blocks = nnx.List(Block(width, heads, rngs) for _ in range(blocks))
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.last = nnx.Linear(width, symbols, rngs=rngs)

    def __call__(self, codes: Int[Array, "window place"]) -> Float[Array, "window place symbol"]:
        x = self.symbols(codes)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


class Experiment(experiment_contract.Experiment):
    """Windows of the text, at each place of which the next character is foretold.

    Attributes:
        context: Characters of a window. At its first place the network sees one character, at its last all.
        width: Numbers that stand for a character inside of the network, a multiple of 2 × `heads`.
        batch_characters: Characters of a training step, which has as many windows as fit in.
        optimizer: Any optimiser by gradients.
    """

    metrics: ClassVar = {"bits_per_character": "min"}

    name: Literal["characters"] = "characters"
    context: Annotated[int, Field(ge=1, le=1024)] = 64
    width: Count = 64
    blocks: Count = 2
    heads: Count = 4
    batch_characters: Count = 512
    optimizer: AnyOptimizer = Field(default_factory=lambda: plugins.load("optimizer", "adam")())

    def data(self) -> dict[str, Int[np.ndarray, " place"]]:
        """The text as codes, the end of it apart, and the characters by code."""
        text = np.array([ord(character) for character in TEXT.read_text(encoding="utf-8")], np.int32)
        symbols, codes = np.unique(text, return_inverse=True)
        end = round(len(codes) * (1 - HELD_OUT))
        codes = codes.astype(np.int32)
        return {"training": codes[:end], "held_out": codes[end:], "symbols": symbols}

    def init(self, at: Step) -> dict[str, Any]:
        """Weights, and the state of the optimiser."""
        return self.start_from(nnx.state(self._network(at.key, len(at.data["symbols"]))), at)

    def start_from(self, network: nnx.State, at: Step) -> dict[str, Any]:
        """Weights that were kept, with a fresh optimiser."""
        return {"weights": network, "optimizer": self._transformation(at.steps).init(network)}

    def step(self, state: Any, at: Step) -> tuple[dict[str, Any], dict[str, Float[Array, ""]]]:
        """One step along the gradient of the mean loss of windows that begin anywhere in the training text."""
        codes = at.data["training"]
        count = max(1, self.batch_characters // self.context)
        begins = jax.random.randint(at.key, (count, 1), 0, len(codes) - self.context)
        windows = codes[begins + jnp.arange(self.context + 1)]

        def loss(weights: nnx.State) -> Float[Array, ""]:
            return _bits(self._merged(weights, at), windows)

        bits, gradient = jax.value_and_grad(loss)(state["weights"])
        updates, optimizer = self._transformation(at.steps).update(gradient, state["optimizer"], state["weights"])
        return {"weights": optax.apply_updates(state["weights"], updates), "optimizer": optimizer}, {"train_bits": bits}

    def evaluate(self, state: Any, at: Step) -> dict[str, Float[Array, ""]]:
        """The mean over the text held out, cut into windows side by side."""
        codes = at.data["held_out"]
        count = (len(codes) - 1) // self.context
        windows = codes[self.context * jnp.arange(count)[:, None] + jnp.arange(self.context + 1)]
        return {"bits_per_character": _bits(self._merged(state["weights"], at), windows)}

    def network(self, state: Any) -> nnx.State:
        """The weights alone."""
        return state["weights"]

    def _network(self, key: Any, symbols: int) -> Network:
        return Network(symbols, self.width, self.blocks, self.heads, nnx.Rngs(key))

    def _merged(self, weights: nnx.State, at: Step) -> Network:
        # The structure of the network is that of a fresh one, whose weights nobody computes.
        fresh = nnx.eval_shape(lambda: self._network(jax.random.key(0), len(at.data["symbols"])))
        return nnx.merge(nnx.graphdef(fresh), weights, copy=True)

    def _transformation(self, steps: int) -> optax.GradientTransformation:
        return cast(GradientOptimizer, self.optimizer).transformation(steps)


def _bits(network: Network, windows: Int[Array, "window place"]) -> Float[Array, ""]:
    """Mean bits that the next character costs, in windows one longer than the network's."""
    logits = network(windows[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]).mean() / np.log(2)
