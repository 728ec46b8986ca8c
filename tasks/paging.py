"""Paging: which page leaves a cache that is full, without knowing which pages will be requested.

There are k + 1 pages, and a cache that holds k of them. A request for the page that is missing is a fault: the page
enters the cache, and another one leaves. A model reads a seed r of normal noise and the requests so far, and the argmax
of its logits over the other pages is the page that leaves. An input is a sequence of requests, which begins with a
fault and requests no page twice in a row (that would cost nobody anything). The loss is the number of faults divided by
the fewest that anybody could have who knew the sequence. So the mean over the seeds is the expected ratio on a
sequence, and its maximum over all sequences is the competitive ratio, which q = inf trains.

Who knows the sequence evicts the page whose next request is furthest (Belady, A study of replacement algorithms for a
virtual-storage computer, IBM Systems Journal 5, 1966). With k + 1 pages this page is requested when all others were: so
the fewest faults are the phases of the sequence, where a phase ends before the request that would be its (k + 1)th
page.

The ratio k is the best without randomness (Sleator and Tarjan, Amortized efficiency of list update and paging rules,
Communications of the ACM 28, 1985), and the harmonic number H_k = 1 + 1/2 + ... + 1/k the best with it (Fiat, Karp,
Luby, McGeoch, Sleator and Young, Competitive paging algorithms, Journal of Algorithms 12, 1991). With k + 1 pages both
hold for every length from k + 1 requests on, not in the limit alone. Evicting any page that the phase has not requested
yet costs k faults a phase at most, and one of them at random H_k; and no rule is better on the first phase.
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray
from pydantic import Field, model_validator

from sweeper.learned_algorithms import contracts

MOST_SEQUENCES = 2**16
"""All sequences are evaluated, so there must not be more."""


class Task(contracts.Task):
    """Paging with one page more than the cache holds.

    Attributes:
        cache: The number k of pages that the cache holds.
        requests: Requests of a sequence, the first fault included; at least k + 1, a whole phase and a request.
        noise: Features of a seed.
    """

    name: Literal["paging"] = "paging"
    cache: Annotated[int, Field(ge=1)] = 2
    requests: Annotated[int, Field(ge=1)] = 6
    noise: Annotated[int, Field(ge=1)] = 8

    @model_validator(mode="after")
    def _long_enough(self) -> "Task":
        if self.requests < self.pages:
            raise ValueError(f"requests: must be at least cache + 1 = {self.pages}, got {self.requests}")
        if self.sequences > MOST_SEQUENCES:
            raise ValueError(f"requests: cache ** (requests - 1) sequences are more than {MOST_SEQUENCES}")
        return self

    @property
    def pages(self) -> int:
        """Number of pages; the last is missing at the beginning."""
        return self.cache + 1

    @property
    def sequences(self) -> int:
        """Number of sequences."""
        return self.cache ** (self.requests - 1)

    def token_size(self) -> int:
        return self.noise + self.pages

    def output_size(self) -> int:
        return self.pages

    def context_size(self) -> int:
        return self.requests

    def sample_inputs(self, key: PRNGKeyArray, count: int) -> Int[Array, "input request"]:
        """`count` sequences in random order, each as often as the next, give or take one."""
        names, order = jax.random.split(key)
        numbers = jax.random.permutation(order, jnp.arange(count, dtype=jnp.int32) % self.sequences)
        return self._sequences(jax.random.permutation(names, self.sequences)[numbers])

    def sample_seeds(self, key: PRNGKeyArray, count: int) -> Float[Array, "seed noise"]:
        """`count` vectors of independent normal numbers."""
        return jax.random.normal(key, (count, self.noise))

    def loss(
        self, network: contracts.Network, x: Int[Array, " request"], r: Float[Array, " noise"]
    ) -> Float[Array, ""]:
        """The faults on a sequence, divided by the fewest of somebody who knew it."""
        return self._faults(x, self._evicted(network, x, r)) / self._fewest_faults(x)

    def losses(
        self, network: contracts.Network, inputs: Int[Array, "input request"], seeds: Float[Array, "seed noise"]
    ) -> Float[Array, "input seed"]:
        """The same for all pairs; the last request decides nothing, so sequences that differ in it are read once."""
        read = self.sequences // self.cache
        ends = self._sequences(jnp.arange(read, dtype=jnp.int32))[:, :-1]
        over_seeds = jax.vmap(self._evicted, in_axes=(None, None, 0))
        evicted = jax.vmap(over_seeds, in_axes=(None, 0, None))(network, ends, seeds)
        evicted = jnp.pad(evicted, ((0, 0), (0, 0), (0, 1)))[self._numbers(inputs) % read]
        faults = jax.vmap(jax.vmap(self._faults, in_axes=(None, 0)))(inputs, evicted)
        return faults / jax.vmap(self._fewest_faults)(inputs)[:, None]

    def evaluation_inputs(self) -> Int[Array, "input request"]:
        """Every sequence, in the order of their pages' steps."""
        return self._sequences(jnp.arange(self.sequences, dtype=jnp.int32))

    def outcomes(
        self, network: contracts.Network, inputs: Int[Array, "input request"], seeds: Float[Array, "seed noise"]
    ) -> contracts.Outcomes:
        """Success is to have no more faults than somebody who knew the sequence."""
        ratios = self.losses(network, inputs, seeds)
        return contracts.Outcomes(correct=ratios == 1, loss=ratios, measures={"ratio": ratios})

    def abilities(self) -> contracts.Abilities:
        """No gradient, as faults are whole numbers; the ratio decides, and its best values are known."""
        return contracts.Abilities(
            differentiable=False,
            measures=(contracts.Metric("ratio", high_is_good=False),),
            tail="ratio",
            groups=contracts.Groups(self.sequences, self._numbers),
            exact_values=lambda: {
                "best_deterministic": float(self.cache),
                "best_randomised": sum(1 / pages for pages in range(1, self.pages)),
            },
        )

    def _sequences(self, numbers: Int[Array, " input"]) -> Int[Array, "input request"]:
        """The sequences with these numbers, whose digits to the base k, lowest first, are the steps between pages."""
        steps = 1 + numbers[:, None] // self._powers() % self.cache
        return (self.cache + jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0)))) % self.pages

    def _numbers(self, inputs: Int[Array, "input request"]) -> Int[Array, " input"]:
        """The numbers of sequences, from 0."""
        return ((jnp.diff(inputs, axis=1) % self.pages - 1) * self._powers()).sum(axis=1)

    def _powers(self) -> Int[Array, " step"]:
        return self.cache ** jnp.arange(self.requests - 1)

    def _evicted(
        self, network: contracts.Network, x: Int[Array, " request"], r: Float[Array, " noise"]
    ) -> Int[Array, " request"]:
        """The page that leaves at each request, if that is a fault."""
        requested = jax.nn.one_hot(x, self.pages)
        tokens = jnp.concatenate([jnp.broadcast_to(r, (len(x), self.noise)), requested], axis=1)
        logits = network(tokens, jnp.tril(jnp.ones((len(x), len(x)), bool)))
        return jnp.where(requested > 0, -jnp.inf, logits).argmax(axis=1)

    def _faults(self, x: Int[Array, " request"], evicted: Int[Array, " request"]) -> Int[Array, ""]:
        missing, faults = x[0], jnp.int32(0)
        for page, leaves in zip(x, evicted, strict=True):
            fault = page == missing
            missing, faults = jnp.where(fault, leaves, missing), faults + fault
        return faults

    def _fewest_faults(self, x: Int[Array, " request"]) -> Int[Array, ""]:
        """The number of phases."""
        seen, phases = jnp.zeros(self.pages, bool), jnp.int32(1)
        for requested in jax.nn.one_hot(x, self.pages, dtype=bool):
            seen = seen | requested
            phases = phases + seen.all()
            seen = jnp.where(seen.all(), requested, seen)
        return phases
