"""A network that tests fill in where they need it."""

import jax
import numpy as np

from sweeper.trial.contracts import Network, Task


class PartialNetwork(Network):
    """Offers nothing; a test overrides what its task asks for."""

    @property
    def depth(self):
        raise NotImplementedError

    def content(self, tokens):
        raise NotImplementedError

    def placed(self, positions):
        raise NotImplementedError

    def embed(self, tokens, positions=None):
        raise NotImplementedError

    def __call__(self, tokens, mask, positions=None):
        raise NotImplementedError

    def empty_memory(self, tokens):
        raise NotImplementedError

    def step(self, h, past):
        raise NotImplementedError


def assert_losses_and_gradients_are_plain(task, network, inputs, seeds, atol):
    """A weighted sum of the losses, and its gradient by the weights, are those of the definition."""
    weights = jax.random.normal(jax.random.key(3), (5, 3))

    def value(losses):
        return jax.jit(jax.value_and_grad(lambda network: (weights * losses(network, inputs, seeds)).sum()))(network)

    shared, plain = value(task.losses), value(lambda *arguments: Task.losses(task, *arguments))
    np.testing.assert_allclose(shared[0], plain[0], rtol=1e-5, atol=atol / 10)
    for one, other in zip(jax.tree.leaves(shared[1]), jax.tree.leaves(plain[1]), strict=True):
        # A small entry may be the difference of sums as large as the largest, which another CPU rounds otherwise.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=atol * max(1.0, np.abs(other).max()))
