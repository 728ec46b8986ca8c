"""The transformer of von Oswald, Kobayashi, Akram and Steger (arXiv 2408.10818), and the variants its figures need.

The paper's table and the networks behind its figures differ (linear or softmax attention, with or without MLP,
LayerNorm, positions and input embedding), so each of these is a field. The defaults are the colouring network that
reproduces the published numbers: one dense embedding, two blocks of linear attention without scaling, one read-out.

A network of linear attention with one head, without LayerNorm and MLP, is a polynomial of the embedded tokens.
`Transformer.polynomial` then gives its matrices, by which tasks share work.

An agent that sees one token at a time uses `Transformer.step`. The step attends to the keys and values of earlier
tokens and returns those of its own token. The caller keeps them, so that several continuations may share one past.
"""

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from pydantic import Field

from sweeper.learned_algorithms import contracts
from sweeper.trial import vectorisation

Size = Annotated[int, Field(ge=1)]


class Model(contracts.Model):
    """Sizes and variants of the transformer.

    Attributes:
        blocks: Number of residual blocks.
        heads: Attention heads of a block.
        width: Features of the residual stream ("token size").
        key_size: Features of a head's queries, keys and values.
        attention: `linear` is (Q K^T ⊙ M) V, `softmax` normalises over the unmasked keys; neither is scaled.
        mlp: Whether a block ends in dense(4 width), GELU, dense(width).
        layer_norm: Whether LayerNorm precedes attention, MLP and read-out.
        positions: What is added to the embedded tokens: nothing, sinusoids, or one learnt vector a position.
        embedding_layers: Dense layers before the first block, GELU between two; 0 pads the token with zeros.
        embedding_scale: Variance of the first embedding layer's weights, as a multiple of 1 / fan-in.
        residual_init: Factor on the initial weights that write into the residual stream: `per_head` is
            1 / sqrt(blocks heads), `halved` is 1 / (2 sqrt(blocks)).
    """

    name: Literal["transformer"] = "transformer"
    blocks: Size = 2
    heads: Size = 1
    width: Size = 16
    key_size: Size = 16
    attention: Literal["linear", "softmax"] = "linear"
    mlp: bool = False
    layer_norm: bool = False
    positions: Literal["none", "sinusoidal", "learnt"] = "none"
    embedding_layers: Literal[0, 1, 2] = 1
    embedding_scale: Annotated[float, Field(gt=0)] = 0.1
    residual_init: Literal["per_head", "halved"] = "per_head"

    def check(self, task: contracts.Task) -> None:
        if self.embedding_layers == 0 and task.token_size() > self.width:
            raise ValueError(
                f"model.embedding_layers: 0 leaves tokens as they are, and {task.token_size()} features do not fit "
                f"into a width of {self.width}"
            )

    def build(self, task: contracts.Task, key: PRNGKeyArray) -> "Transformer":
        """The network for the sizes of `task`."""
        return Transformer(self, task.token_size(), task.output_size(), task.context_size(), key)


def _weights(
    key: PRNGKeyArray, fan_in: int, fan_out: int, scale: float = 1.0, factor: float = 1.0
) -> nnx.Param[Float[Array, "fan_in fan_out"]]:
    initializer = jax.nn.initializers.variance_scaling(scale, "fan_in", "truncated_normal")
    return nnx.Param(factor * initializer(key, (fan_in, fan_out), jnp.float32))


class Dense(nnx.Module):
    """x W + b, with b = 0 at the start."""

    def __init__(self, key: PRNGKeyArray, fan_in: int, fan_out: int, scale: float = 1.0, factor: float = 1.0):
        self.weight = _weights(key, fan_in, fan_out, scale, factor)
        self.bias = nnx.Param(jnp.zeros(fan_out))

    def __call__(self, x: Float[Array, "*batch fan_in"]) -> Float[Array, "*batch fan_out"]:
        return x @ self.weight[...] + self.bias[...]


class LayerNorm(nnx.Module):
    """Normalisation over features with a learned scale and offset (Ba, Kiros and Hinton, arXiv 1607.06450)."""

    def __init__(self, width: int):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))

    def __call__(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * self.scale[...] + self.bias[...]


Memory = tuple[Float[Array, "head token key"], Float[Array, "head token value"]] | Float[Array, "part token feature"]
"""What one block keeps of tokens: their keys, and their values. For an accelerator they are one array, the keys of all
heads before their values, and so are all blocks, so that they are read in one piece and written at once."""


class Attention(nnx.Module):
    """Multi-head attention without biases, linear or softmax."""

    joined: nnx.Variable | None = None
    """The matrices of keys, values and queries side by side, in a network for steps."""

    def __init__(self, sizes: Model, key: PRNGKeyArray, factor: float):
        self.sizes = sizes
        features = sizes.heads * sizes.key_size
        query, key_, value, output = jax.random.split(key, 4)
        self.query = _weights(query, sizes.width, features)
        self.key = _weights(key_, sizes.width, features)
        self.value = _weights(value, sizes.width, features)
        self.output = _weights(output, features, sizes.width, factor=factor)

    def __call__(self, h: Float[Array, "token width"], mask: Bool[Array, "token token"]) -> Float[Array, "token width"]:
        query, key, value = self._projected(h)
        scores = jnp.einsum("thf,shf->hts", query, key)
        mixed = jnp.einsum("hts,shf->thf", self._shares(self._masked(scores, mask)), value)
        return mixed.reshape(h.shape[0], -1) @ self.output[...]

    def step(self, h: Float[Array, " width"], past: contracts.Past) -> tuple[Float[Array, " width"], Memory]:
        """The output for one token that attends to itself and to the tokens of `past` that its masks let through."""
        return (self._step_in_turns if vectorisation.in_turns() else self._step_at_once)(h, past)

    def _step_in_turns(self, h: Float[Array, " width"], past: contracts.Past) -> tuple[Float[Array, " width"], Memory]:
        query, key, value = self._projected(h)
        own = key[:, None], value[:, None]
        seen = [*past, (own, jnp.ones(1, bool))]
        scores = [self._masked(vectorisation.product(keys, query[..., None])[..., 0], mask) for (keys, _), mask in seen]
        shares = _softmax_of_parts(scores) if self.sizes.attention == "softmax" else scores
        mixed = [
            vectorisation.product(share[:, None], values)[:, 0]
            for share, ((_, values), _) in zip(shares, seen, strict=True)
        ]
        return functools.reduce(jnp.add, mixed).reshape(-1) @ self.output[...], own

    def _step_at_once(self, h: Float[Array, " width"], past: contracts.Past) -> tuple[Float[Array, " width"], Memory]:
        """As `_step_in_turns`, with one memory: XLA reads the parts of this one where they are."""
        heads = self.sizes.heads
        projected = h @ (self.side_by_side() if self.joined is None else self.joined[...])
        own, query = jnp.split(projected.reshape(3 * heads, -1), [2 * heads])
        own = own[:, None]
        keys, values = jnp.split(jnp.concatenate([*(memory for memory, _ in past), own], axis=1), 2)
        mask = jnp.concatenate([*(mask for _, mask in past), jnp.ones(1, bool)])
        scores = vectorisation.product(keys, query[..., None])[..., 0]
        mixed = vectorisation.product(self._shares(self._masked(scores, mask))[:, None], values)
        return mixed.reshape(-1) @ self.output[...], own

    def side_by_side(self) -> Float[Array, "width projected"]:
        """The matrices of keys, values and queries as one."""
        return jnp.concatenate([self.key[...], self.value[...], self.query[...]], axis=1)

    def _projected(self, h: Float[Array, "*token width"]) -> list[Float[Array, "*token head feature"]]:
        """Queries, keys and values."""
        weights = [self.query[...], self.key[...], self.value[...]]
        heads = *h.shape[:-1], self.sizes.heads, self.sizes.key_size
        return [part.reshape(heads) for part in vectorisation.products(h, weights)]

    def _masked(
        self, scores: Float[Array, "*shape token"], mask: Bool[Array, "*masked token"]
    ) -> Float[Array, "*shape token"]:
        return jnp.where(mask, scores, -jnp.inf if self.sizes.attention == "softmax" else 0.0)

    def _shares(self, masked: Float[Array, "*shape token"]) -> Float[Array, "*shape token"]:
        return jax.nn.softmax(masked, axis=-1) if self.sizes.attention == "softmax" else masked

    def matrices(self) -> contracts.LinearAttention:
        """The weights of a linear attention with one head."""
        return contracts.LinearAttention(self.query[...], self.key[...], self.value[...], self.output[...])


def _softmax_of_parts(parts: Sequence[Float[Array, "*shape _token"]]) -> list[Float[Array, "*shape _token"]]:
    """The softmax over the tokens of all parts; to put the parts together would take a third of a step."""
    largest = functools.reduce(jnp.maximum, (part.max(axis=-1, keepdims=True) for part in parts))
    powers = [jnp.exp(part - jax.lax.stop_gradient(largest)) for part in parts]
    total = sum(power.sum(axis=-1, keepdims=True) for power in powers)
    return [power / total for power in powers]


class Block(nnx.Module):
    """h += attention(h), then h += MLP(h) where there is one; LayerNorm first where there is one."""

    def __init__(self, sizes: Model, key: PRNGKeyArray, factor: float):
        attention, first, second = jax.random.split(key, 3)
        self.attention = Attention(sizes, attention, factor)
        self.attention_norm = LayerNorm(sizes.width) if sizes.layer_norm else None
        self.mlp_norm = LayerNorm(sizes.width) if sizes.mlp and sizes.layer_norm else None
        self.mlp_in = Dense(first, sizes.width, 4 * sizes.width) if sizes.mlp else None
        self.mlp_out = Dense(second, 4 * sizes.width, sizes.width, factor=factor) if sizes.mlp else None

    def __call__(self, h: Float[Array, "token width"], mask: Bool[Array, "token token"]) -> Float[Array, "token width"]:
        return self._after_mlp(h + self.attention(self._normed(h), mask))

    def step(self, h: Float[Array, " width"], past: contracts.Past) -> tuple[Float[Array, " width"], Memory]:
        """The output for one token after the tokens of `past`, and the memory of this token for later tokens."""
        attended, own = self.attention.step(self._normed(h), past)
        return self._after_mlp(h + attended), own

    def _normed(self, h: Float[Array, "*token width"]) -> Float[Array, "*token width"]:
        return h if self.attention_norm is None else self.attention_norm(h)

    def _after_mlp(self, h: Float[Array, "*token width"]) -> Float[Array, "*token width"]:
        if self.mlp_in is None or self.mlp_out is None:
            return h
        x = h if self.mlp_norm is None else self.mlp_norm(h)
        return h + self.mlp_out(jax.nn.gelu(self.mlp_in(x)))


class Transformer(nnx.Module, contracts.StepwiseNetwork, contracts.PolynomialNetwork):
    """Embedding, blocks, read-out; one sequence at a time, batches come from `vmap`."""

    def __init__(self, sizes: Model, token_size: int, output_size: int, context_size: int, key: PRNGKeyArray):
        self.sizes = sizes
        embedding_key, blocks_key, readout_key = jax.random.split(key, 3)
        fan_ins = [token_size, sizes.width][: sizes.embedding_layers]
        scales = [sizes.embedding_scale, 1.0]
        keys = jax.random.split(embedding_key, 2)
        self.embedding = nnx.List(
            Dense(k, fan_in, sizes.width, scale) for k, fan_in, scale in zip(keys, fan_ins, scales, strict=False)
        )
        factor = _residual_factor(sizes)
        self.blocks = nnx.List(Block(sizes, k, factor) for k in jax.random.split(blocks_key, sizes.blocks))
        self.norm = LayerNorm(sizes.width) if sizes.layer_norm else None
        self.readout = Dense(readout_key, sizes.width, output_size)
        if sizes.positions == "learnt":
            # As large as sinusoids, whose mean square is one half.
            self.position_table = nnx.Param(
                jax.random.normal(jax.random.fold_in(key, 1), (context_size, sizes.width)) / math.sqrt(2)
            )

    @property
    def depth(self) -> int:
        return len(self.blocks)

    def polynomial(self) -> contracts.Polynomial | None:
        if self.sizes.attention != "linear" or self.sizes.heads > 1 or self.sizes.mlp or self.sizes.layer_norm:
            return None
        layers = tuple(block.attention.matrices() for block in self.blocks)
        return contracts.Polynomial(layers, self.readout.weight[...], self.readout.bias[...])

    def embed(
        self, tokens: Float[Array, "token feature"], positions: Int[Array, " token"] | None = None
    ) -> Float[Array, "token width"]:
        h = self.content(tokens)
        if self.sizes.positions == "none":
            return h
        return h + self.placed(jnp.arange(tokens.shape[0]) if positions is None else positions)

    def content(self, tokens: Float[Array, "token feature"]) -> Float[Array, "token width"]:
        if not self.embedding:
            return jnp.pad(tokens, ((0, 0), (0, self.sizes.width - tokens.shape[-1])))
        h = self.embedding[0](tokens)
        for dense in self.embedding[1:]:
            h = dense(jax.nn.gelu(h))
        return h

    def placed(self, positions: Int[Array, " token"]) -> Float[Array, "token width"]:
        match self.sizes.positions:
            case "none":
                return jnp.zeros((len(positions), self.sizes.width))
            case "sinusoidal":
                return sinusoidal(positions, self.sizes.width)
            case "learnt":
                return self.position_table[...][positions]

    def __call__(
        self,
        tokens: Float[Array, "token feature"],
        mask: Bool[Array, "token token"],
        positions: Int[Array, " token"] | None = None,
    ) -> Float[Array, "token output"]:
        h = self.embed(tokens, positions)
        for block in self.blocks:
            h = block(h, mask)
        return self._logits(h)

    def for_steps(self) -> "Transformer":
        if vectorisation.in_turns():
            return self
        network = jax.tree.map(lambda leaf: leaf, self)
        for block in network.blocks:
            block.attention.joined = nnx.Variable(block.attention.side_by_side())
        return network

    def step(self, h: Float[Array, " width"], past: contracts.Past) -> tuple[Float[Array, " output"], contracts.Memory]:
        owns = []
        for index, block in enumerate(self.blocks):
            h, own = block.step(h, [(memory[index], mask) for memory, mask in past])
            owns.append(own)
        if vectorisation.in_turns():
            return self._logits(h), tuple(owns)
        h = h if self.norm is None else self.norm(h)
        # As a sum, which needs no kernel of its own.
        logits = (h[:, None] * self.readout.weight[...]).sum(axis=0) + self.readout.bias[...]
        return logits, jnp.stack(owns)

    def empty_memory(self, tokens: int) -> contracts.Memory:
        blocks, heads, size = len(self.blocks), self.sizes.heads, self.sizes.key_size
        if vectorisation.in_turns():
            return ((jnp.zeros((heads, tokens, size)),) * 2,) * blocks
        return jnp.zeros((blocks, 2 * heads, tokens, size))

    def _logits(self, h: Float[Array, "*token width"]) -> Float[Array, "*token output"]:
        return self.readout(h if self.norm is None else self.norm(h))


def _residual_factor(sizes: Model) -> float:
    if sizes.residual_init == "halved":
        return 1 / (2 * math.sqrt(sizes.blocks))
    return 1 / math.sqrt(sizes.blocks * sizes.heads)


def sinusoidal(positions: Array, width: int) -> Float[Array, "token width"]:
    """Sinusoidal positions of Vaswani et al. (arXiv 1706.03762), sines in even features and cosines in odd ones."""
    feature = jnp.arange(width)
    angle = positions[:, None] / 10_000.0 ** (2 * (feature // 2) / width)
    return jnp.where(feature % 2 == 0, jnp.sin(angle), jnp.cos(angle))
