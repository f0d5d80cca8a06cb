"""Automatic relevance determination: the learned scale of the weights out of each input (Neal1996)."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError
from ergonet._types import Array
from ergonet.explanation.explained import Explained
from ergonet.models.network import DIRECT
from ergonet.models.network_posterior import BayesianNetwork


@dataclass(frozen=True)
class Relevance:
    """Learned scales of the inputs.

    Attributes:
        names: the network inputs, `[input]`; a category has its own, such as `city=Bern`, unless it has an embedding.
        draws: standard deviation of the weights out of each input, `[draw, input]`; of an embedding, the root mean
            square over its numbers.
    """

    names: tuple[str, ...]
    draws: np.ndarray

    @property
    def median(self) -> np.ndarray:
        """Posterior medians, `[input]`."""
        return np.median(self.draws, axis=0)


def input_relevance(fitted: Any) -> Relevance:
    """The learned scales of the inputs, if the prior has one for every input.

    Args:
        fitted: a fitted estimator, a run that was read, or samples from the posterior of a network.

    Raises:
        CapabilityError: there is no network, its prior has no scale per input, or inputs have direct connections, too.
        SettingError: nothing was fitted.
    """
    explained = Explained.of(fitted)
    if DIRECT in explained.model.network.leaves():
        raise CapabilityError(
            "The scale of an input does not tell its relevance, because the weights of its direct connections have no "
            "part in it. Fit without `direct`, or use `permutation_importance`."
        )
    if not explained.model.relevance:
        raise CapabilityError(
            "The prior has no scale for each input. Fit with one that does, such as `prior={'layers.0.weight': "
            "priors.NormalGamma(group='input'), '*': priors.Normal(1.0)}`."
        )
    positions = explained.samples.positions
    draws = np.asarray(_scales(explained.model, jnp.asarray(positions.reshape(-1, positions.shape[-1]))))
    return Relevance(explained.input_names(draws.shape[1]), draws)


@eqx.filter_jit
def _scales(model: BayesianNetwork, positions: Array) -> Array:
    return jax.vmap(lambda position: model.network.of_inputs(model.scales(position)[model.relevance]))(positions)
