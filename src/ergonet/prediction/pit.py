"""The probability integral transform of held-out targets: uniform if the predictive distributions are right.

It is P(target <= y) under the predictive mixture of a row. For whole numbers it is drawn uniformly between P(target <
y) and P(target <= y), which makes it uniform, too (CzadoGneitingHeld2009), and so it is for real targets that were
rounded, between the ends of the step that y stands for.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import Array, Float
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.likelihoods.distribution import AbstractDistribution
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.calibration import rounding_steps
from ergonet.prediction.chunks import Rows, draw_chunks, readable
from ergonet.prediction.units import is_reversed, on_network_scale

Steps = Float[np.ndarray, "2 rows targets"]


def probability_transform(
    samples: Samples, x: Any, y: Any, *, model: BayesianNetwork, seed: int = 0, steps: Steps | None = None
) -> Float[np.ndarray, "rows targets"]:
    """The probability integral transform of each target, in [0, 1].

    Args:
        samples: draws from the posterior of a network for real targets or counts.
        x: inputs `[rows, ...]`, in the units the network was conditioned on.
        y: targets, in the same units.
        model: the network.
        seed: of the uniform numbers for counts and rounded targets.
        steps: both ends of what each real target stands for, from `steps_of`; None: they are exact.

    Raises:
        DataError: `x` has no rows or is not finite, or `y` does not match it.
    """
    return between(cumulative(samples, x, y, model=model, steps=steps), seed=seed).T


def between(ends: Float[np.ndarray, "2 *shape"], *, seed: int = 0) -> Float[np.ndarray, "*shape"]:
    """Drawn uniformly between both ends of the transform, in [0, 1]."""
    below, reached = ends
    uniform = np.random.default_rng(seed).uniform(size=below.shape)
    return np.clip(below + uniform * (reached - below), 0.0, 1.0)


def steps_of(
    likelihood: AbstractLikelihood | None, y: Any, *, known: Any = None, scaling: Preprocessing | None = None
) -> Steps | None:
    """Both ends of the steps that rounded targets stand for, as the network takes targets; None: they are exact.

    Those of a NumPyro distribution count as exact, since half a step off may be beyond its support.

    Args:
        likelihood: of the targets; None: a normal distribution.
        y: targets `[rows]` or `[rows, targets]`, as the network takes them.
        known: the targets whose smallest distances are the steps, likewise; None: `y`.
        scaling: how values in units of the table, which were rounded, became those of the network; None: they are.

    Returns:
        The ends `[end, rows, targets]`, not finite where they are no possible targets.
    """
    if likelihood is not None and (likelihood.is_discrete or isinstance(likelihood, AbstractDistribution)):
        return None
    values, others = (np.asarray(one).reshape(len(one), -1) for one in (y, y if known is None else known))
    if scaling is not None:
        values, others = scaling.inverse_target(values), scaling.inverse_target(others)
    steps = rounding_steps(others)
    if not steps.any():
        return None
    found = np.stack([values - steps / 2, values + steps / 2])
    if scaling is None:
        return found
    found = on_network_scale(found, scaling)
    return found[::-1] if is_reversed(scaling) else found


def cumulative(
    samples: Samples, x: Any, y: Any, *, model: BayesianNetwork, steps: Steps | None = None
) -> Float[np.ndarray, "2 targets rows"]:
    """The probabilities of less than what `y` stands for, and of at most that: equal for exact real targets.

    Arguments as above.
    """
    rows, positions, weights = Rows(model, x, y), readable(samples.positions), draw_weights(samples)
    parts, size = [], rows.chunk_size()
    for number, (inputs, targets) in enumerate(rows.chunks(size)):
        both = None if steps is None else _chunk(steps, number * size, size).astype(inputs.dtype)
        total = np.zeros((2, *np.shape(targets)))
        for draws, of_draws in draw_chunks(positions, weights):
            total += np.asarray(_summed(model, draws, jnp.asarray(of_draws, inputs.dtype), inputs, targets, steps=both))
        parts.append(total / weights.sum(dtype=np.float64))
    return np.concatenate(parts, axis=2)[:, :, : rows.count]


def _chunk(steps: Steps, start: int, size: int) -> Float[np.ndarray, "2 targets chunk"]:
    """The ends of the steps of `size` rows from row `start` on, the last one repeated."""
    index = np.minimum(np.arange(start, start + size), steps.shape[1] - 1)
    return np.moveaxis(steps[:, index], 1, 2)


@eqx.filter_jit
def _summed(
    model: BayesianNetwork, positions: Array, weights: Array, inputs: Array, targets: Any, *, steps: Any
) -> Array:
    """Weighted sums over draws of both ends of the transform, `[end, targets, rows]`."""

    def add(total: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        own, outputs = model.split(draw[0])[1], model.outputs(draw[0], inputs)
        return total + draw[1] * ends(model.likelihood, own, outputs, targets, steps), None

    return lax.scan(add, jnp.zeros((2, *targets.shape), inputs.dtype), (positions, weights))[0]


def ends(likelihood: AbstractLikelihood, own: Any, outputs: Array, targets: Array, steps: Array | None) -> Array:
    """P(target < y) and P(target <= y), `[end, targets, rows]`; of rounded real targets, those of the ends of a step.

    `steps` are these ends, `[end, targets, rows]`; None: the targets are exact, or whole numbers.
    """
    if likelihood.is_discrete:
        both = jnp.stack([targets - 1, targets])  # one place in the program, since that of counts takes long to compile
        return jax.vmap(lambda values: likelihood.cdf(own, outputs, values))(both)
    if steps is None:
        return jnp.stack([likelihood.cdf(own, outputs, targets)] * 2)
    reached = [
        jnp.where(jnp.isfinite(end), likelihood.cdf(own, outputs, end), beyond)
        for end, beyond in zip(steps, (0.0, 1.0), strict=True)
    ]
    return jnp.stack(reached)
