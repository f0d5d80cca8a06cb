"""Annealed importance sampling from prior to posterior: an estimate of the evidence that needs no chain."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet.target.contract import AbstractTarget

NUM_LEAPFROGS, STEP_SIZES = 6, (0.05, 0.4)  # step sizes are drawn from this range


def annealed_evidence(
    target: AbstractTarget, *, num_particles: int, num_temperatures: int, seed: int
) -> tuple[float, float]:
    """Log evidence of a network and its standard error."""
    logs = np.asarray(_log_weights(target, jax.random.split(jax.random.key(seed), num_particles), num_temperatures))
    weights = np.exp(logs.astype(np.float64) - logs.max())
    return float(logs.max() + np.log(weights.mean())), float(weights.std() / weights.mean() / np.sqrt(len(weights)))


@eqx.filter_jit
def _log_weights(target, keys, num_temperatures):
    model = target.model
    heats = jnp.linspace(0, 1, num_temperatures + 1) ** 4

    def log_likelihood(q):
        return -target.potential(q) - model.log_prior(q)

    def moved(key, q, heat):
        def potential(q):
            return -model.log_prior(q) - heat * log_likelihood(q)

        at_step, at_momentum, at_test = jax.random.split(key, 3)
        low, high = STEP_SIZES
        step = low * (high / low) ** jax.random.uniform(at_step)
        start = jax.random.normal(at_momentum, q.shape)

        def leapfrog(_, state):
            q, r = state
            r = r - 0.5 * step * jax.grad(potential)(q)
            q = q + step * r
            return q, r - 0.5 * step * jax.grad(potential)(q)

        end, r = jax.lax.fori_loop(0, NUM_LEAPFROGS, leapfrog, (q, start))
        error = potential(end) + 0.5 * r @ r - potential(q) - 0.5 * start @ start
        return jnp.where(jnp.log(jax.random.uniform(at_test)) < -error, end, q)

    def particle(key):
        at_prior, at_moves = jax.random.split(key)

        def cool(state, step):
            q, weight = state
            key, before, after = step
            weight = weight + (after - before) * log_likelihood(q)
            return (moved(key, q, after), weight), None

        steps = jax.random.split(at_moves, num_temperatures), heats[:-1], heats[1:]
        (_, weight), _ = jax.lax.scan(cool, (model.sample_prior(at_prior), jnp.zeros(())), steps)
        return weight

    return jax.vmap(particle)(keys)
