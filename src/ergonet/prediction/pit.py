"""The probability integral transform of held-out targets: uniform if the predictive distributions are right.

It is P(target <= y) under the predictive mixture of a row. For whole numbers it is drawn uniformly between P(target <
y) and P(target <= y), which makes it uniform, too (CzadoGneitingHeld2009), and so it is for real targets that were
rounded, between the ends of the step that y stands for.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import Array, Float
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.likelihoods.distribution import AbstractDistribution
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.calibration import rounding_steps
from ergonet.prediction.chunks import Rows, draw_chunks, readable


def probability_transform(
    samples: Samples, x: Any, y: Any, *, model: BayesianNetwork, seed: int = 0, steps: Any = 0.0
) -> Float[np.ndarray, "rows targets"]:
    """The probability integral transform of each target, in [0, 1].

    Args:
        samples: draws from the posterior of a network for real targets or counts.
        x: inputs `[rows, ...]`, in the units the network was conditioned on.
        y: targets, in the same units.
        model: the network.
        seed: of the uniform numbers for counts and rounded targets.
        steps: to which real targets were rounded, in their unit: a number, or one for each `[targets]`; 0: they were
            not.

    Raises:
        DataError: `x` has no rows or is not finite, or `y` does not match it.
    """
    return between(cumulative(samples, x, y, model=model, steps=steps), seed=seed).T


def between(ends: Float[np.ndarray, "2 *shape"], *, seed: int = 0) -> Float[np.ndarray, "*shape"]:
    """Drawn uniformly between both ends of the transform, in [0, 1]."""
    below, reached = ends
    uniform = np.random.default_rng(seed).uniform(size=below.shape)
    return np.clip(below + uniform * (reached - below), 0.0, 1.0)


def steps_of(likelihood: AbstractLikelihood, y: Any) -> Float[np.ndarray, "targets"]:
    """The steps to which targets `[rows]` or `[rows, targets]` of a likelihood were rounded; 0 if they were not.

    Those of a NumPyro distribution count as exact, since half a step off may be beyond its support.
    """
    steps = rounding_steps(np.asarray(y))
    return np.zeros_like(steps) if likelihood.is_discrete or isinstance(likelihood, AbstractDistribution) else steps


def cumulative(
    samples: Samples, x: Any, y: Any, *, model: BayesianNetwork, steps: Any = 0.0
) -> Float[np.ndarray, "2 targets rows"]:
    """The probabilities of less than what `y` stands for, and of at most that: equal for exact real targets.

    Arguments as above.
    """
    rows, positions, weights = Rows(model, x, y), readable(samples.positions), draw_weights(samples)
    parts = []
    for inputs, targets in rows.chunks(rows.chunk_size()):
        width = jnp.broadcast_to(jnp.asarray(steps, inputs.dtype), np.shape(targets)[:-1]) if np.any(steps) else None
        total = np.zeros((2, *np.shape(targets)))
        for draws, of_draws in draw_chunks(positions, weights):
            total += np.asarray(
                _summed(model, draws, jnp.asarray(of_draws, inputs.dtype), inputs, targets, steps=width)
            )
        parts.append(total / weights.sum(dtype=np.float64))
    return np.concatenate(parts, axis=2)[:, :, : rows.count]


@eqx.filter_jit
def _summed(
    model: BayesianNetwork, positions: Array, weights: Array, inputs: Array, targets: Any, *, steps: Array | None
) -> Array:
    """Weighted sums over draws of both ends of the transform, `[end, targets, rows]`."""

    def add(total: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        own, outputs = model.split(draw[0])[1], model.outputs(draw[0], inputs)
        return total + draw[1] * ends(model.likelihood, own, outputs, targets, steps), None

    return lax.scan(add, jnp.zeros((2, *targets.shape), inputs.dtype), (positions, weights))[0]


def ends(likelihood: AbstractLikelihood, own: Any, outputs: Array, targets: Array, steps: Array | None) -> Array:
    """P(target < y) and P(target <= y), `[end, targets, rows]`; of rounded real targets, half a step below and above y.

    `steps` are those of the targets, `[targets]`; None: they are exact, or whole numbers.
    """
    if likelihood.is_discrete:
        return jnp.stack([likelihood.cdf(own, outputs, targets - 1), likelihood.cdf(own, outputs, targets)])
    if steps is None:
        return jnp.stack([likelihood.cdf(own, outputs, targets)] * 2)
    half = steps[:, None] / 2
    return jnp.stack([likelihood.cdf(own, outputs, targets - half), likelihood.cdf(own, outputs, targets + half)])
