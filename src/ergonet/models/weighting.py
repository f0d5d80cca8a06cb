"""Rows with weights: the likelihood of a row is raised to its weight.

The weight is one more number beside the prepared targets of its row, so it goes wherever they go: into padding and into
minibatches.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import DataError
from ergonet._types import Array, PRNGKey
from ergonet.models.checked import numbers
from ergonet.models.delegated import Delegated
from ergonet.models.likelihood import AbstractLikelihood, Flags, Outputs, PerRow, Targets
from ergonet.models.network import Weights


class Weighted(Delegated):
    """A likelihood whose log density of a row is multiplied by a weight, the last row of the prepared targets."""

    @property
    def lacks_conjugacy(self) -> str:
        if not self.leaves():
            return ""
        return self.likelihood.lacks_conjugacy or "rows have weights, and Gibbs draws of the noise do not know them"

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        """The targets with weights of 1, as of new rows."""
        found = np.asarray(self.likelihood.prepare(y, num_outputs))
        return jax.device_put(np.concatenate([found, np.ones_like(found[:1])]))

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        weights, rows = targets[-1], self.likelihood.log_prob(parameters, outputs, targets[:-1])
        return jnp.where(weights > 0, weights * rows, 0.0)

    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        return {}


def unweighted(likelihood: AbstractLikelihood) -> AbstractLikelihood:
    """The likelihood of new rows, which have no weights."""
    return likelihood.likelihood if isinstance(likelihood, Weighted) else likelihood


def prepared(model: Any, y: Any, num_outputs: int, weights: Any) -> tuple[Any, np.ndarray]:
    """The model, which knows of weights if there are any, and the prepared targets with the weights `[rows]`.

    Raises:
        DataError: the targets do not fit, or the weights are not a number of at least 0 for each row.
    """
    if weights is None:
        return model, np.asarray(model.likelihood.prepare(y, num_outputs))
    given = numbers("weights", weights).astype(np.float64)
    if given.shape != (len(y),):
        raise DataError(f"`weights` must have one number for each of {len(y)} rows, got shape {list(given.shape)}.")
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any() or not given.any():
        row = int(np.argmax(bad)) if bad.any() else 0
        raise DataError(
            f"`weights` must be finite and at least 0, and not all 0; row {row} (counted from 0) has {given[row]:g}."
        )
    weighted = eqx.tree_at(lambda one: one.likelihood, model, Weighted(model.likelihood))
    targets = np.array(weighted.likelihood.prepare(y, num_outputs), np.float64)
    targets[-1] = given
    return weighted, targets
