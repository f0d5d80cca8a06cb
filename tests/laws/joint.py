"""The joint test in one step: a position and data drawn together, and one whole transition given the data.

Draw a position from the prior and data given the position; move the position by one transition given these data. Each
pair (position, data), before and after, then has the same distribution if, and only if, the transition leaves every
posterior where it is; a reversible one moreover leaves (before, after) exchangeable. Everything that a transition draws
is drawn by its own `begin` and decided by its own `conclude`. Starts are independent and statistics are differences of
pairs, so their standard errors are exact, and a bias shows against the moves alone: as many transitions tell as much as
in chains. Sources: Geweke 2004; Grosse and Duvenaud 2014.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet.samplers.base import run_transition
from tests.sampling import with_targets

COMPILER = {"xla_backend_optimization_level": 0}  # compiling takes longer than running


class Bananas(eqx.Module):
    """Pairs (x, y): x ~ N(0, 1), y ~ N(bend (x^2 - 1), 1)."""

    bend: Any

    def __call__(self, q):
        x, y = q[0::2], q[1::2]
        return -0.5 * jnp.sum(x**2 + (y - self.bend * (x**2 - 1)) ** 2)


@dataclass(frozen=True)
class Problem:
    """A target, and how a position and data are drawn together.

    Attributes:
        target: with any data.
        draw: position and the target with its data, from a key.
        statistics: what is compared, of a target with its data and a position.
    """

    target: Any
    draw: Callable[[Any], tuple[Any, Any]]
    statistics: Callable[[Any, Any], Any]


def bananas() -> Problem:
    """No data: the density itself can be drawn from."""
    bend = 0.7
    target = Target.from_logdensity(Bananas(jnp.asarray(bend)), jnp.zeros(2))

    def draw(key):
        x, z = jax.random.normal(key, (2,))
        return jnp.stack([x, z + bend * (x**2 - 1)]), target

    def statistics(target, position):
        x, y = position
        potential = target.potential(position)
        return jnp.stack([x, x**2, y, y**2, x * y, x**2 * y, potential, jnp.exp(-potential), potential**2])

    return Problem(target, draw, statistics)


def regression(parametrization: str) -> Problem:
    """A network with learned precisions of weights and noise."""
    prior = priors.NormalGamma(0.8, 6.0, "leaf", parametrization)
    noise = likelihoods.GammaPrecision(0.5, 8.0)
    model = BayesianNetwork(MLP((1, 2, 1)), prior, likelihoods.Gaussian(noise))
    inputs = np.linspace(-1.2, 1.5, 4, dtype=np.float32)[:, None]
    target = model.condition(inputs, np.zeros((4, 1), np.float32))

    likelihood = model.likelihood
    assert isinstance(likelihood, likelihoods.Gaussian)

    def draw(key):
        first, second = jax.random.split(key)
        position = model.sample_prior(first)
        weights, own = model.split(position)
        drawn = model.likelihood.sample(second, own, model.network.apply(weights, target.inputs))
        return position, with_targets(target, drawn)

    def statistics(target, position):
        weights, own = model.split(position)
        residuals = target.targets - model.network.apply(weights, target.inputs)
        potential = target.potential(position)
        met = [potential, jnp.tanh(potential / 10), jnp.sum((residuals / likelihood.scale(own)) ** 2)]
        values = jnp.concatenate([position, jnp.stack(met)])
        return jnp.concatenate([values, position**2])

    return Problem(target, draw, statistics)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "bananas": bananas,
    "centered": partial(regression, "centered"),
    "non-centered": partial(regression, "non-centered"),
}


@dataclass(frozen=True)
class Result:
    """What one step from the joint distribution shows.

    Attributes:
        drift: z of the mean change of every statistic.
        flow: z of the mean of f(before) g(after) - g(before) f(after), for statistics f and g.
        acceptance: mean statistic.
        calibration: z of accepted transitions minus the sum of their acceptance probabilities, by tenths of that
            probability; 0 where a tenth has too few.
    """

    drift: np.ndarray
    flow: np.ndarray
    acceptance: float
    calibration: np.ndarray


class Step:
    """One compiled transition of a kernel from joint draws; step sizes are arguments."""

    def __init__(self, problem: str, kernel: Any, *, num_starts: int):
        self.kernel, self.num_starts = kernel, num_starts
        made = PROBLEMS[problem]()
        position, _ = made.draw(jax.random.key(0))
        tuning = kernel.tuning(made.target, position)

        def one(key, step_size):
            first, second = jax.random.split(key)
            position, target = made.draw(first)
            scaled = eqx.tree_at(lambda one: one.step_size, tuning, step_size.astype(tuning.step_size.dtype))
            info: Any
            state, info = run_transition(kernel, second, target, kernel.init(target, position), scaled)
            pair = made.statistics(target, position), made.statistics(target, state.position)
            return pair, info.acceptance, info.moved

        def all_(keys, step_size):
            return jax.lax.map(lambda key: one(key, step_size), keys, batch_size=1000)

        self._run = jax.jit(all_, compiler_options=COMPILER)

    def __call__(self, step_size: float, *, seed: int = 0, longer: int = 1) -> Result:
        keys = jax.random.split(jax.random.key(seed), longer * self.num_starts)
        (before, after), acceptance, moved = self._run(keys, jnp.asarray(step_size))
        before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
        acceptance, moved = np.asarray(acceptance, np.float64), np.asarray(moved)
        middle, spread = before.mean(axis=0), before.std(axis=0)
        one, other = np.tanh((before - middle) / spread), np.tanh((after - middle) / spread)
        flows = [one[:, i] * other[:, i - 1] - one[:, i - 1] * other[:, i] for i in range(one.shape[1])]
        return Result(
            drift=_z(
                np.concatenate([other - one, _bounded(after, middle, spread) - _bounded(before, middle, spread)], 1)
            ),
            flow=_z(np.stack(flows, axis=1)),
            acceptance=float(acceptance.mean()),
            calibration=_calibration(acceptance, moved),
        )


def _bounded(values: np.ndarray, middle: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Another shape than tanh: even and bounded."""
    scaled = ((values - middle) / spread) ** 2
    return scaled / (1 + scaled)


def _z(differences: np.ndarray) -> np.ndarray:
    """Mean over its standard error, by column; 0 for a column that never changes."""
    error = differences.std(axis=0) / np.sqrt(len(differences))
    return np.divide(differences.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)


def _calibration(acceptance: np.ndarray, moved: np.ndarray) -> np.ndarray:
    tenth = np.minimum((acceptance * 10).astype(int), 9)
    found = np.zeros(10)
    for number in range(10):
        inside = tenth == number
        variance = np.sum(acceptance[inside] * (1 - acceptance[inside]))
        if variance > 5:
            found[number] = (moved[inside].sum() - acceptance[inside].sum()) / np.sqrt(variance)
    return found
