"""A network without attention: a token reads the mean of the messages of the tokens in its mask.

Each block is a DeepSets layer (Zaheer et al., arXiv 1703.06114) for every token. A dense layer with GELU makes one
message of each token, the messages of the tokens that are read are averaged, and an MLP of the token and the average is
added to the token. All tokens that are read count the same, so nothing is looked up by content as in attention.

A mean does not depend on an order. So the network can also read sequences step by step: its memory of a token is the
token's messages.
"""

import math
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from pydantic import Field

from models.transformer import Dense, sinusoidal
from sweeper.learned_algorithms import contracts

Size = Annotated[int, Field(ge=1)]


class Model(contracts.Model):
    """Sizes of the network.

    Attributes:
        blocks: Number of residual blocks.
        width: Features of a token inside the network.
        hidden: Features of a message, and of the hidden layer of the MLPs.
        positions: What is added to the embedded tokens: nothing or sinusoids.
    """

    name: Literal["deep_sets"] = "deep_sets"
    blocks: Size = 2
    width: Size = 16
    hidden: Size = 32
    positions: Literal["none", "sinusoidal"] = "none"

    def build(self, task: contracts.Task, key: PRNGKeyArray) -> "DeepSets":
        """The network for the sizes of `task`."""
        return DeepSets(self, task.token_size(), task.output_size(), key)


class Block(nnx.Module):
    """h_i += MLP([h_i | mean over the tokens j that i reads of GELU(dense(h_j))])."""

    def __init__(self, sizes: Model, key: PRNGKeyArray):
        message, first, second = jax.random.split(key, 3)
        self.message = Dense(message, sizes.width, sizes.hidden)
        self.mlp_in = Dense(first, sizes.width + sizes.hidden, sizes.hidden)
        self.mlp_out = Dense(second, sizes.hidden, sizes.width, factor=1 / math.sqrt(sizes.blocks))

    def messages(self, h: Float[Array, "*token width"]) -> Float[Array, "*token hidden"]:
        """The messages of the tokens."""
        return jax.nn.gelu(self.message(h))

    def updated(
        self, h: Float[Array, "*token width"], total: Float[Array, "*token hidden"], count: Int[Array, "*token"]
    ) -> Float[Array, "*token width"]:
        """The tokens after they have read `count` messages each, whose sum is `total`."""
        mean = total / jnp.maximum(count, 1)[..., None]
        return h + self.mlp_out(jax.nn.gelu(self.mlp_in(jnp.concatenate([h, mean], axis=-1))))


class DeepSets(nnx.Module, contracts.StepwiseNetwork):
    """Embedding, blocks, read-out. A memory holds messages, with the axes block, token, feature."""

    def __init__(self, sizes: Model, token_size: int, output_size: int, key: PRNGKeyArray):
        self.sizes = sizes
        embedding, blocks, readout = jax.random.split(key, 3)
        self.embedding = Dense(embedding, token_size, sizes.width)
        self.blocks = nnx.List(Block(sizes, k) for k in jax.random.split(blocks, sizes.blocks))
        self.readout = Dense(readout, sizes.width, output_size)

    @property
    def depth(self) -> int:
        return self.sizes.blocks

    def content(self, tokens: Float[Array, "token feature"]) -> Float[Array, "token width"]:
        return self.embedding(tokens)

    def placed(self, positions: Int[Array, " token"]) -> Float[Array, "token width"]:
        if self.sizes.positions == "none":
            return jnp.zeros((len(positions), self.sizes.width))
        return sinusoidal(positions, self.sizes.width)

    def __call__(
        self,
        tokens: Float[Array, "token feature"],
        mask: Bool[Array, "token token"],
        positions: Int[Array, " token"] | None = None,
    ) -> Float[Array, "token output"]:
        h = self.embed(tokens, positions)
        for block in self.blocks:
            h = block.updated(h, mask @ block.messages(h), mask.sum(axis=1))
        return self.readout(h)

    def empty_memory(self, tokens: int) -> Float[Array, "block token hidden"]:
        return jnp.zeros((self.sizes.blocks, tokens, self.sizes.hidden))

    def step(
        self, h: Float[Array, " width"], past: contracts.Past
    ) -> tuple[Float[Array, " output"], Float[Array, "block 1 hidden"]]:
        count = 1 + sum(mask.sum() for _, mask in past)
        sent = []
        for index, block in enumerate(self.blocks):
            own = block.messages(h)
            sent.append(own[None])
            h = block.updated(h, own + sum(mask @ memory[index] for memory, mask in past), jnp.asarray(count))
        return self.readout(h), jnp.stack(sent)
