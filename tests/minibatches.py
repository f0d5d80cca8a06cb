"""Small targets with rows, and runs of minibatch kernels, that several tests share."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet.inference import epochs


class Quadratic(eqx.Module):
    """log prior -q P q / 2; data are leaves."""

    precision: Any

    def __call__(self, q):
        return -0.5 * jnp.sum(self.precision * q**2)


def pushed(q, rows):
    """Row i adds (z_i . q) / N to the potential, so that a gradient of one row is off by z_i."""
    return -(rows["push"] @ q) * rows["share"]


def noisy_gaussian(precision, push):
    """U = sum precision q^2 / 2 with minibatch gradients that are off by the mean of rows of `push` `[rows, dim]`."""
    push = np.asarray(push, np.float32)
    push = push - push.mean(axis=0)  # the full gradient knows nothing of it
    precision = jnp.asarray(precision, jnp.float32)
    data = {"push": push, "share": np.full(len(push), 1 / len(push), np.float32)}
    return Target.from_terms(Quadratic(precision), pushed, data, jnp.zeros(push.shape[1]))


def exact_gaussian(precision, rows=8):
    """U = sum precision q^2 / 2 whose minibatches all say the same."""
    precision = np.atleast_1d(np.asarray(precision, np.float32))
    return noisy_gaussian(precision, np.zeros((rows, precision.size)))


def linear_rows(w, rows):
    return -0.5 * (rows["y"] - rows["x"] @ w) ** 2 / 0.5**2


def linear_regression(rows=24, dim=3, seed=0):
    """A linear regression with known noise 0.5 and N(0, 1) weights; its exact posterior mean and covariance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim)).astype(np.float32)
    y = (x @ rng.normal(size=dim) + 0.5 * rng.normal(size=rows)).astype(np.float32)
    precision = x.T.astype(float) @ x / 0.25 + np.eye(dim)
    covariance = np.linalg.inv(precision)
    target = Target.from_terms(Quadratic(jnp.ones(dim)), linear_rows, {"x": x, "y": y}, jnp.zeros(dim))
    return target, covariance @ (x.T.astype(float) @ y) / 0.25, covariance


def classification(rows=40, seed=0, hidden=4):
    """A small network, its model, inputs and classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    model = BayesianNetwork(MLP((3, hidden, 3)), priors.Normal(1.0), likelihoods.Categorical())
    return model, x, y


def network(**settings):
    model, x, y = classification(**settings)
    return model.condition(x, y)


def run(target, kernel, **settings):
    """A short silent run."""
    chosen: dict[str, Any] = {"num_chains": 1, "num_warmup": 0, "num_draws": 20, "seed": 3, "progress": False}
    return ergonet.sample(target, kernel, **(chosen | settings))


def steps(kernel, target, position, minibatches, *, seed=0, step_size=None, state=None):
    """Positions `[step, dim]` after each of so many steps, with the keys that a run would use; and the last state."""
    key = jax.random.key(seed)
    first = jnp.asarray(kernel.learning_rate if step_size is None else step_size)
    state = kernel.init(jax.random.fold_in(key, epochs.INIT_KEY), target, position, first) if state is None else state

    @eqx.filter_jit
    def all_(state, target, minibatches):
        def one(state, numbered):
            number, rows = numbered
            pace = epochs.Pace(step_size=first * kernel.schedule.factor(number), number=number)
            state, info = kernel.step(jax.random.fold_in(key, number), target, state, rows, pace)
            return state, (state.position, info)

        count = jax.tree.leaves(minibatches)[0].shape[0]
        return jax.lax.scan(one, state, (jnp.arange(count), minibatches))

    state, (positions, info) = all_(state, target, minibatches)
    return np.asarray(positions), info, state


def random_minibatches(target, count, batch_size, seed=0):
    """Rows `[step, row, ...]` drawn without replacement within each minibatch."""
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.choice(target.num_rows, batch_size, replace=False) for _ in range(count)])
    return jax.tree.map(lambda leaf: leaf[chosen], target.rows())
