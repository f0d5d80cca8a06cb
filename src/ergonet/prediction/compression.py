"""A posterior of fewer networks: weighted draws that keep the predictive mean and variance on given inputs.

The predictive mean and variance are averages over draws of the conditional mean m and of (m - M)^2 + v, where M is the
mean over all draws and v the noise variance. Fully corrective conditional gradients (BachEtAl2012), of which kernel
herding is a special case (ChenWellingSmola2010), approximate these averages by few draws: each step adds the draw that
points most in the direction of what is missing, and finds the weights of all chosen draws again by nonnegative least
squares (LawsonHanson1974).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.optimize import nnls

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet._types import Array, Float, Int
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.chunks import Rows, draw_chunks
from ergonet.prediction.loss import PredictiveLoss
from ergonet.prediction.moments import network_outputs
from ergonet.prediction.predictive import Predictor

MOST_ROWS = 256  # on which moments are kept; more rows are represented by as many, evenly spaced
COMPRESSED = "compressed"  # in `Samples.about`


def compress(predictor: Predictor, x: Any, k: int | Any) -> Samples:
    """Choose weighted draws that keep the predictive mean and variance on given inputs.

    Args:
        predictor: the draws, and their network.
        x: inputs `[rows, ...]`, in the units the network was conditioned on; of more than 256 rows, 256 evenly spaced
            ones are used to choose, and all to measure the loss.
        k: number of draws, from 1 to that of all draws.

    Returns:
        One chain of at most k draws with the statistic `weight`. `about["compressed"]` has their origin and the
        measured loss. Quantiles, and predictions for other inputs, are approximated less well.

    Raises:
        DataError: `x` has no rows or is not finite.
        SettingError: `k` is out of its range.
    """
    samples = predictor.samples
    total = samples.num_chains * samples.num_draws
    if not is_integer(k) or not 1 <= k <= total:
        raise SettingError(f"`compress(k)`: k must be an integer from 1 to the number of draws, {total}; got {k!r}.")
    rows = np.asarray(x)
    shown = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int))]
    weights = samples.weights().astype(np.float64).reshape(-1)
    features = _features(predictor.model, samples, shown, weights / weights.sum())
    chosen, new = fewest(features, weights / weights.sum(), k)
    found = _chosen(samples, chosen, new)
    loss = PredictiveLoss.between(
        predictor.predict(rows, levels=()), Predictor(found, predictor.model).predict(rows, levels=())
    )
    origin = {"chains": samples.num_chains, "draws": samples.num_draws}
    return replace(found, about={**found.about, COMPRESSED: origin | loss.record()})


def fewest(
    features: Float[np.ndarray, "draw feature"], weights: Float[np.ndarray, "draw"], k: int
) -> tuple[Int[np.ndarray, "chosen"], Float[np.ndarray, "chosen"]]:
    """At most k draws and their weights, above 0 with sum 1, that approximate the weighted mean of all draws."""
    target = weights @ features
    scale = np.sqrt(np.mean((features - target) ** 2)) * np.sqrt(features.shape[1]) or 1.0
    # the last feature keeps the sum of the weights at 1
    points = np.column_stack([(features - target) / scale, np.ones(len(features))])
    goal = np.append(np.zeros(features.shape[1]), 1.0)
    chosen, found, missing = np.zeros(0, int), np.zeros(0), goal
    norms = np.linalg.norm(points, axis=1)
    for _ in range(2 * k):  # draws whose weight has become 0 are left out again
        gain = points @ missing / norms
        gain[chosen] = -np.inf
        gain[weights <= 0] = -np.inf
        best = int(np.argmax(gain))
        if len(chosen) == k or gain[best] <= 1e-9:  # nothing is missing
            break
        chosen = np.append(chosen, best)
        found = nnls(points[chosen].T, goal)[0]
        chosen, found = chosen[found > 0], found[found > 0]
        missing = goal - found @ points[chosen]
    order = np.argsort(chosen)
    return chosen[order], found[order] / found.sum()


def _features(
    model: BayesianNetwork, samples: Samples, x: np.ndarray, shares: np.ndarray
) -> Float[np.ndarray, "draw feature"]:
    """Conditional means, and squared deviations with noise, of each draw, in units of the predictive deviation."""
    rows = Rows(model, x)
    size, parts = rows.chunk_size(), list[tuple[np.ndarray, np.ndarray]]()
    weights = np.ones((samples.num_chains, samples.num_draws))
    for inputs, _ in rows.chunks(size):
        found = [
            [np.asarray(one, np.float64)[used > 0] for one in _conditional(model, draws, inputs)]
            for draws, used in draw_chunks(samples.positions, weights)
        ]
        mean, variance = (np.concatenate(one) for one in zip(*found, strict=True))
        parts.append((mean, variance))
    mean, variance = (np.concatenate(one, axis=2)[:, :, : rows.count] for one in zip(*parts, strict=True))
    center = np.tensordot(shares, mean, axes=1)
    spread = (mean - center) ** 2 + variance
    total = np.tensordot(shares, spread, axes=1)
    deviation = np.sqrt(np.maximum(total, np.finfo(np.float32).tiny))
    both = np.concatenate([(mean - center) / deviation, spread / deviation**2], axis=1)
    return both.reshape(len(both), -1)


@eqx.filter_jit
def _conditional(model: BayesianNetwork, positions: Array, inputs: Array) -> tuple[Array, Array]:
    """Means and noise variances of each draw, `[draw, targets, rows]`; none for classes, whose mean has it all."""
    outputs, own = network_outputs(model, positions, inputs)
    mean = jax.vmap(model.likelihood.mean)(own, outputs)
    if model.likelihood.is_classification:
        return mean, 0 * mean
    return mean, jax.vmap(model.likelihood.variance)(own, outputs)


def _chosen(samples: Samples, chosen: np.ndarray, weights: np.ndarray) -> Samples:
    """One chain of the chosen draws, by their number among all chains, with these weights."""
    chains, draws = np.divmod(chosen, samples.num_draws)
    pairs = list(zip(chains.tolist(), draws.tolist(), strict=True))
    stats: Mapping[str, Any] = {name: np.asarray(one)[chains, draws][None] for name, one in samples.stats.items()}
    count = len(chosen)
    return Samples(
        positions=np.stack([np.asarray(samples.positions[chain, draw]) for chain, draw in pairs])[None],
        stats={**stats, "weight": (weights * count).astype(np.float32)[None]},
        warmup_stats={},
        seconds=samples.seconds,
        gradients=samples.gradients,
        tuning={},
        about={**samples.about, "num_chains": 1, "num_draws": count, "draws_by_chain": [count]},
        target=samples.target,
    )
