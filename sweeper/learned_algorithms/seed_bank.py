"""Banks of seeds: a network with the few seeds r that it may be given, each with a probability.

Seeds r are drawn anew in every step, or they are a bank: K seeds r, which are trained together with the weights, and so
are their probabilities. The loss of an input is then the expectation over the bank, with a gradient by the seeds and
by the probabilities. A trained bank is an exact distribution: an evaluation has no error, the worst input is known, and
the algorithm needs log2 K random bits at most.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.voting import Share


class Seeds(NamedTuple):
    """The seeds r of a step or of an evaluation.

    Attributes:
        values: What the task gets; every leaf has leading axis seed.
        probabilities: Of each seed; None for drawn seeds, which count alike.
    """

    values: PyTree
    probabilities: Float[Array, " seed"] | None = None

    def mean(self, of_pairs: Shaped[Array, "input seed"]) -> Float[Array, " input"]:
        """The expectation over the seeds."""
        if self.probabilities is None:
            return of_pairs.mean(axis=1)
        return (of_pairs * self.probabilities).sum(axis=1)

    def mean_of_all(self, of_pairs: Float[Array, "input seed"]) -> Float[Array, ""]:
        """The mean over the inputs of the expectation over the seeds."""
        return of_pairs.mean() if self.probabilities is None else self.mean(of_pairs).mean()

    def share(self, right: Bool[Array, "input seed"]) -> Share | Float[Array, " input"]:
        """The probability of the seeds that are right, exactly 1 if all are."""
        if self.probabilities is None:
            return Share.of_seeds(right)
        return jnp.where(right.all(axis=1), 1.0, self.mean(right))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SeedBank(Network):
    """A network and its bank.

    Attributes:
        network: Reads the seeds.
        seeds: The seeds r; every leaf has leading axis seed.
        logits: Of the probabilities of the seeds.
    """

    network: Network
    seeds: PyTree
    logits: Float[Array, "*lane seed"]

    def __call__(
        self, tokens: Float[Array, "token feature"], mask: Bool[Array, "token token"]
    ) -> Float[Array, "token output"]:
        return self.network(tokens, mask)


def with_seeds(network: Network, drawn: PyTree) -> tuple[Network, Seeds]:
    """A network as a task gets it, and the seeds r: those of its bank, else the drawn ones."""
    if isinstance(network, SeedBank):
        return network.network, Seeds(network.seeds, jax.nn.softmax(network.logits))
    return network, Seeds(drawn)
