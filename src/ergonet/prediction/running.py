"""Predictions that are averaged while a chain runs, so that its networks need not be stored."""

from typing import Any

import jax
import jax.numpy as jnp

from ergonet._types import AnyArray, Array, Float, Scalar
from ergonet.inference.epochs import AbstractWatch
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.blocks import Rows
from ergonet.prediction.predictive import Prediction, Sums, accumulate, blank_sums, join, joined, part_of


class RunningPrediction(AbstractWatch):
    """The predictive distribution on given inputs, averaged over every draw of a run by its weight.

    As a watch of `sample_minibatches` it ends as a `Prediction` (quantiles excepted: those need every draw), and gives
    learning curves: of a classification `error` (share of the rows whose class the average gets wrong) and
    `error of the draw`, of a regression `rmse` and `rmse of the draw`, in the units of the network; and `nll`, minus
    the mean log predictive density of a row.
    """

    model: BayesianNetwork
    inputs: Array
    targets: Array

    def __init__(self, model: BayesianNetwork, x: Any, y: Any):
        """Check and keep the rows.

        Args:
            model: the network that is sampled.
            x: inputs `[rows, ...]` in the units the network is conditioned on; kept on the device, all predicted
                at once.
            y: their targets.

        Raises:
            DataError: x has no rows or is not finite, or y does not fit.
        """
        rows = Rows(model, x, y)
        self.model = model
        self.inputs, targets = next(iter(rows.blocks(rows.count)))
        assert targets is not None  # as y is given
        self.targets = targets

    def blank(self) -> Sums:
        return blank_sums(self.model, *self._outputs(jnp.zeros((self.model.dim,), self.targets.dtype)))

    def _outputs(self, position: Array) -> tuple[Array, Any]:
        """Outputs `[1, outputs, rows]` and the likelihood's parameters."""
        weights, own = self.model.split(position)
        outputs = self.model.network.apply(weights, self.inputs)
        return outputs[None], jax.tree.map(lambda leaf: leaf[None], own)

    def update(self, summary: Sums, position: Float[Array, "dim"], weight: Scalar) -> tuple[Sums, dict[str, Scalar]]:
        outputs, own = self._outputs(position)
        summary = accumulate(
            self.model, summary, outputs, own, weights=weight[None].astype(outputs.dtype), targets=self.targets
        )
        alone = self.model.likelihood.mean(jax.tree.map(lambda leaf: leaf[0], own), outputs[0])
        name = "error" if self.model.likelihood.is_classification else "rmse"
        seen = summary.count > 0
        nll = -jnp.mean(summary.log_density - jnp.log(summary.count))
        return summary, {
            name: jnp.where(seen, self._loss(summary.mean), jnp.nan),
            f"{name} of the draw": self._loss(alone),
            "nll": jnp.where(seen, nll, jnp.nan),
        }

    def _loss(self, mean: Array) -> Scalar:
        if self.model.likelihood.is_classification:
            return jnp.mean(_classes(mean) != _classes(self.targets), dtype=mean.dtype)
        return jnp.sqrt(jnp.mean((mean - self.targets) ** 2))

    def join(self, summaries: list[Sums]) -> Prediction | None:
        """The prediction of all chains together; their draws count by weight. None where no draw counted."""
        summaries = [one for one in summaries if one.count > 0]
        if not summaries:
            return None
        total = summaries[0]
        for other in summaries[1:]:
            total = joined(total, jax.device_put(other, total.mean.device))
        count = int(self.targets.shape[-1])
        return join(self.model, [part_of(total)], levels=(), count=count, has_targets=True)


def _classes(values: AnyArray) -> Array:
    """Class numbers `[rows]` of probabilities or one-hot targets `[classes, rows]`, or of one row of either."""
    array = jnp.asarray(values)
    return jnp.argmax(array, axis=0) if array.shape[0] > 1 else (array[0] > 0.5).astype(jnp.int32)
