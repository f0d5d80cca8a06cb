"""Predictions in the units of a table whose targets were scaled, and perhaps transformed, for the network.

Quantiles are mapped by the inverse of both. Means and standard deviations are those of the mapped distributions: given
a draw of the weights the transformed target is normal, so the mean and variance of its inverse have a formula (or a
quadrature), which is then averaged over draws. The inverse of the mean would be biased, for a logarithm towards 0.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ergonet._types import Array
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.transforms import AbstractTransform
from ergonet.draws.samples import Samples
from ergonet.models.delegated import Delegated
from ergonet.models.likelihood import Outputs
from ergonet.models.network import Weights
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.predictive import Prediction, Predictor


class Untransformed(Delegated):
    """A likelihood of transformed targets whose means and variances are those of the targets, in units of their own.

    Everything else, such as quantiles and densities, is still that of transformed and scaled targets.
    """

    transform: AbstractTransform = eqx.field(static=True)
    center: Array  # of the transformed targets, `[targets, 1]`
    scale: Array

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return self._moments(parameters, outputs)[0]

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        return self._moments(parameters, outputs)[1]

    def _moments(self, parameters: Weights, outputs: Outputs) -> tuple[Array, Array]:
        mean = self.center + self.scale * self.likelihood.mean(parameters, outputs)
        variance = self.scale**2 * self.likelihood.variance(parameters, outputs)
        return self.transform.moments_in_units(mean, variance, self.center, jnp)


def with_target_means(
    model: BayesianNetwork, preprocessing: Preprocessing
) -> tuple[BayesianNetwork, np.ndarray, np.ndarray]:
    """The network whose means are linear in the targets of the user: they are the means times a factor, plus a shift.

    Args:
        model: the network, of scaled targets.
        preprocessing: of a regression.

    Returns:
        The network, the factors and the shifts, one for each target.
    """
    transform = preprocessing.target_transform
    if transform is None:
        return model, preprocessing.target_sd, preprocessing.target_mean
    scales = (jnp.asarray(one, jnp.float32)[:, None] for one in (preprocessing.target_mean, preprocessing.target_sd))
    changed = Untransformed(model.likelihood, transform, *scales)
    unit = transform.unit(preprocessing.target_mean)
    return eqx.tree_at(lambda one: one.likelihood, model, changed), unit, np.zeros_like(unit)


def predict_in_units(
    samples: Samples,
    x: Any,
    *,
    model: BayesianNetwork,
    preprocessing: Preprocessing,
    levels: Sequence[float] = (0.05, 0.95),
    y: Any = None,
) -> Prediction:
    """`predict`, with means, standard deviations, quantiles and log densities in the units of the user's targets.

    Args:
        samples: draws from the posterior of a network.
        x: inputs `[rows, inputs]`, as `preprocessing.transform` gives them.
        model: the network.
        preprocessing: what the network's inputs and targets were scaled by; for classes, nothing is converted.
        levels: probabilities of the quantiles, in (0, 1).
        y: targets, as `preprocessing.transform_target` gives them, for log densities.

    Raises:
        DataError: `x` has no rows or is not finite, or `y` does not match it.
        SettingError: a level is outside (0, 1), or `x` or the draws do not match the network.
    """
    return UnitsPredictor(Predictor(samples, model), preprocessing).predict(x, levels=levels, y=y)


class UnitsPredictor:
    """A `Predictor` whose predictions are in the units of the user's targets."""

    def __init__(self, predictor: Predictor, preprocessing: Preprocessing):
        """Take a predictor in the units of the network; arguments as of `predict_in_units`."""
        self._predictor, self._preprocessing = predictor, preprocessing
        if preprocessing.task == "classification":
            return
        changed, self._factor, self._shift = with_target_means(predictor.model, preprocessing)
        if changed is not predictor.model:
            self._predictor = Predictor(predictor.samples, changed)

    def predict(self, x: Any, *, levels: Sequence[float] = (0.05, 0.95), y: Any = None) -> Prediction:
        """The predictive distribution of each row; arguments and errors as of `predict_in_units`."""
        if self._preprocessing.task == "classification":
            return self._predictor.predict(x, levels=levels, y=y)
        asked = tuple(1 - level for level in levels) if is_reversed(self._preprocessing) else tuple(levels)
        found = replace(self._predictor.predict(x, levels=asked, y=y), levels=tuple(levels))
        return _in_units(found, self._preprocessing, self._factor, self._shift, y=y)


def is_reversed(preprocessing: Preprocessing) -> bool:
    """Whether larger scaled targets are smaller ones in the user's units, as a decreasing transform makes them."""
    if preprocessing.target_transform is None:
        return False
    low, high = preprocessing.inverse_target(np.array([[0.0], [0.1]]) * np.ones(len(preprocessing.target_sd)))
    return bool((high < low).any())


def on_network_scale(y: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """Targets `[..., targets]` in the user's units on the scale of the network, not finite if they are not possible."""
    transform = preprocessing.target_transform
    plain = y if transform is None else transform.forward(y)
    return (plain - preprocessing.target_mean) / preprocessing.target_sd


def _in_units(
    found: Prediction, preprocessing: Preprocessing, factor: np.ndarray, shift: np.ndarray, *, y: Any = None
) -> Prediction:
    """What the network of `with_target_means` predicts, in the units of the user's targets.

    Args:
        found: its prediction.
        preprocessing: of a regression.
        factor: the factors that `with_target_means` gave.
        shift: the shifts that it gave.
        y: scaled targets, if the prediction has log densities.
    """
    slope = None if y is None else preprocessing.log_slope(preprocessing.inverse_target(y))

    def scaled(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values, np.float64) * factor

    def density(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None or slope is None else np.asarray(values, np.float64) + slope

    mean = np.asarray(found.mean, np.float64) * factor + shift
    return replace(
        found,
        mean=mean,
        sd=scaled(found.sd),
        noise_sd=scaled(found.noise_sd),
        function_sd=np.asarray(found.function_sd, np.float64) * factor,
        quantiles=None if found.quantiles is None else preprocessing.inverse_target(found.quantiles),
        log_density=density(found.log_density),
        members=density(found.members),
    )
