"""Proximal policy optimisation (Schulman et al., 2017) of an actor and a critic on the cart with a pole.

The cart is that of Barto, Sutton & Anderson (1983) with the usual constants: pushed to the left or to the right every
0.02 seconds. Each step gives a reward of 1. An episode ends when the pole leans more than 12 degrees, when the cart is
more than 2.4 metres from the middle, or after 500 steps, where the critic says what would have followed. A step of the
experiment is a rollout of all carts, and several passes over it in minibatches, whose advantages are normalised.
"""

from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from sweeper.trial import experiment_contract
from sweeper.trial.experiment_contract import Evaluated, Step
from sweeper.trial.field_types import BelowOne, Count, NotNegative, Positive
from sweeper.trial.record import Traced

LIMIT = 500


class Seen(NamedTuple):
    """What a rollout has seen, `[horizon, cart]`; in a minibatch the axis is `[step]`."""

    cart: jax.Array  # before the push, `[…, 4]`: place, speed, angle and its speed, in metres, radians and seconds
    after: jax.Array  # after it, before a new episode begins
    push: jax.Array  # 0 to the left, 1 to the right
    log_probabilities: jax.Array  # of both, `[…, 2]`
    fell: jax.Array  # whether the episode ended by a failure
    ended: jax.Array  # whether it ended at all


class Experiment(experiment_contract.Experiment):
    """Actor and critic are networks of their own, of two hidden layers with `width` units each."""

    # Of episodes of the likelier push: their mean and lowest return, and the share that lasts 500 steps
    metrics: ClassVar = {"mean_return": "max", "worst_return": "max", "balanced": "max"}

    name: Literal["cartpole_ppo"] = "cartpole_ppo"
    carts: Count = 16
    horizon: Count = 64  # steps of each cart in a rollout
    epochs: Count = 4  # passes over a rollout
    minibatches: Count = 4  # of a pass; they divide carts * horizon
    width: Count = 64
    episodes: Count = 64  # of an evaluation
    learning_rate: Traced[Positive] = 1e-3  # at first; it falls linearly with the iterations, to 0
    discount: Traced[BelowOne] = 0.99
    trace_decay: Traced[NotNegative] = 0.95  # the lambda of generalised advantages
    clip: Traced[Positive] = 0.2
    entropy_weight: Traced[NotNegative] = 0.01

    def init(self, at: Step):
        actor, critic, _ = jax.random.split(at.key, 3)
        return self.start_from((_layers(actor, self.width, 2, 0.01), _layers(critic, self.width, 1, 1.0)), at)

    def start_from(self, network, at: Step):
        _, _, carts = jax.random.split(at.key, 3)
        carts = _fresh(carts, self.carts), jnp.zeros(self.carts, jnp.int32)
        return {"learned": (network, optax.adam(0.0).init(network)), "carts": carts}

    def step(self, state, at: Step):
        actor, critic = self.network(state)
        size, rate = self.carts * self.horizon, self.learning_rate * (1 - at.index / at.steps)
        rolling, *orders = jax.random.split(at.key, 1 + self.epochs)
        keys = jax.random.split(rolling, self.horizon)
        carts, seen = jax.lax.scan(lambda carts, key: _rolled(actor, carts, key), state["carts"], keys)
        rows = jax.tree.map(lambda array: array.reshape(size, *array.shape[2:]), (seen, *self._judged(critic, seen)))
        batches = jnp.stack([jax.random.permutation(key, size) for key in orders]).reshape(-1, size // self.minibatches)

        def moved(learned, batch):
            weights, adam = learned
            gradient, numbers = jax.grad(self._loss, has_aux=True)(weights, *jax.tree.map(lambda row: row[batch], rows))
            moves, adam = optax.adam(rate, eps=1e-5).update(gradient, adam)
            return (optax.apply_updates(weights, moves), adam), numbers

        learned, numbers = jax.lax.scan(moved, state["learned"], batches)
        return {"learned": learned, "carts": carts}, jax.tree.map(jnp.mean, numbers) | {"falls": seen.fell.mean()}

    def evaluate(self, state, at: Step):
        def go(now, _):
            cart, upright = now
            after, fell = _pushed(cart, _applied(self.network(state)[0], cart).argmax(axis=-1))
            return (after, upright & ~fell), upright

        start = _fresh(at.key, self.episodes), jnp.ones(self.episodes, bool)
        returns = jax.lax.scan(go, start, length=LIMIT)[1].sum(axis=0)
        metrics = {"mean_return": returns.mean(), "worst_return": returns.min(), "balanced": (returns == LIMIT).mean()}
        return Evaluated(metrics, {"episode_return": returns})

    def network(self, state):
        return state["learned"][0]

    def _judged(self, critic, seen: Seen):
        """Generalised advantages (Schulman et al., 2016) and the returns that they imply, `[horizon, cart]`."""
        value, decay = _applied(critic, seen.cart)[..., 0], self.discount * self.trace_decay
        surprise = 1 + self.discount * jnp.where(seen.fell, 0, _applied(critic, seen.after)[..., 0]) - value

        def back(later, now):
            return (now[0] + now[1] * later,) * 2  # what is carried, and what is stacked

        _, advantage = jax.lax.scan(back, jnp.zeros(self.carts), (surprise, decay * ~seen.ended), reverse=True)
        return advantage, advantage + value

    def _loss(self, weights, seen: Seen, advantage, returns):
        log_probabilities = jax.nn.log_softmax(_applied(weights[0], seen.cart))
        left, right = (log_probabilities - seen.log_probabilities).T
        ratio = jnp.exp(jnp.where(seen.push == 1, right, left))
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        actor = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        critic = ((_applied(weights[1], seen.cart)[:, 0] - returns) ** 2).mean()
        entropy = -(jnp.exp(log_probabilities) * log_probabilities).sum(axis=1).mean()
        numbers = {"critic_loss": critic, "entropy": entropy, "clipped": (ratio != clipped).mean()}
        return actor + 0.25 * critic - self.entropy_weight * entropy, numbers


def _rolled(actor, carts, key):
    """A push of every cart, drawn from the actor, and a new episode where one ended; each cart has its age in steps."""
    (cart, age), (drawing, starting) = carts, jax.random.split(key)
    log_probabilities = jax.nn.log_softmax(_applied(actor, cart))
    push = jax.random.categorical(drawing, log_probabilities)
    after, fell = _pushed(cart, push)
    ended = fell | (age + 1 == LIMIT)
    carts = jnp.where(ended[:, None], _fresh(starting, len(cart)), after), jnp.where(ended, 0, age + 1)
    return carts, Seen(cart, after, push, log_probabilities, fell, ended)


def _fresh(key, carts: int):
    return jax.random.uniform(key, (carts, 4), minval=-0.05, maxval=0.05)


def _pushed(cart, push):
    """Carts a step later, by Euler's method, and whether they fell (Barto, Sutton & Anderson, 1983, appendix)."""
    gravity, mass, pole, half_length, seconds = 9.8, 1.1, 0.1, 0.5, 0.02  # 1.1 kg are the cart and the pole of 0.1 kg
    _, speed, angle, turn = jnp.moveaxis(cart, -1, 0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pushed = (jnp.where(push == 1, 10.0, -10.0) + pole * half_length * turn**2 * sine) / mass
    turning = (gravity * sine - cosine * pushed) / (half_length * (4 / 3 - pole * cosine**2 / mass))
    speeding = pushed - pole * half_length * turning * cosine / mass
    after = cart + seconds * jnp.stack([speed, speeding, turn, turning], axis=-1)
    return after, (jnp.abs(after[..., 0]) > 2.4) | (jnp.abs(after[..., 2]) > jnp.deg2rad(12))


def _layers(key, width: int, outputs: int, scale: float):
    shapes = (4, width), (width, width), (width, outputs)
    draws = [jax.random.normal(jax.random.fold_in(key, n), shape) / shape[0] ** 0.5 for n, shape in enumerate(shapes)]
    return draws[0], jnp.zeros(width), draws[1], jnp.zeros(width), scale * draws[2], jnp.zeros(outputs)


def _applied(layers, x):
    first, first_bias, second, second_bias, last, last_bias = layers
    return jnp.tanh(jnp.tanh(x @ first + first_bias) @ second + second_bias) @ last + last_bias
