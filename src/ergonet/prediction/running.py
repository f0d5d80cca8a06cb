"""Predictions averaged while a chain runs, so that its draws need not be stored."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._types import AnyArray, Array, Float, Int, Scalar
from ergonet.draws.callback import AbstractCallback
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.chunks import Rows
from ergonet.prediction.moments import Sums, accumulate, blank_sums, part_of, stacked
from ergonet.prediction.predictive import Prediction, join
from ergonet.target.padding import mean_of_rows, padded_size


class RunningPrediction(AbstractCallback):
    """Callback that averages the predictive distribution on given inputs over every draw of a run, by weight.

    The run's summary is a `Prediction` without quantiles (these need every draw at once). The learning curves are, for
    a classification, `error` (fraction of rows misclassified by the average) and `error of the draw`; for a regression,
    `rmse` and `rmse of the draw`, in the units of the network; and for both, `nll`, minus the mean log predictive
    density of a row.
    """

    model: BayesianNetwork
    padded_inputs: Array
    padded_targets: Array
    count: Int[Array, ""]  # rows that are not padding, which come first

    def __init__(self, model: BayesianNetwork, x: Any, y: Any):
        """Validate the rows and put them on the device.

        Args:
            model: the network that is sampled.
            x: inputs `[rows, ...]`, in the units the network is conditioned on; all rows are predicted at once and
                stay on the device.
            y: the targets of these rows.

        Raises:
            DataError: `x` has no rows or is not finite, or `y` does not match it.
        """
        rows = Rows(model, x, y)
        self.model = model
        self.padded_inputs, targets = next(iter(rows.chunks(padded_size(rows.count))))
        assert targets is not None  # as y is given
        self.padded_targets = targets
        self.count = jax.device_put(np.int32(rows.count))

    def blank(self) -> Sums:
        return blank_sums(self.model, *self._outputs(jnp.zeros((self.model.dim,), self.padded_targets.dtype)))

    def _outputs(self, position: Array) -> tuple[Array, Any]:
        """Outputs `[1, outputs, rows]` and the likelihood's parameters."""
        weights, own = self.model.split(position)
        outputs = self.model.network.apply(weights, self.padded_inputs)
        return outputs[None], jax.tree.map(lambda leaf: leaf[None], own)

    def update(self, summary: Sums, position: Float[Array, "dim"], weight: Scalar) -> tuple[Sums, dict[str, Scalar]]:
        outputs, own = self._outputs(position)
        summary = accumulate(
            self.model, summary, outputs, own, weights=weight[None].astype(outputs.dtype), targets=self.padded_targets
        )
        alone = self.model.likelihood.mean(jax.tree.map(lambda leaf: leaf[0], own), outputs[0])
        name = "error" if self.model.likelihood.is_classification else "rmse"
        seen = summary.count > 0
        nll = -self._mean(summary.log_density - jnp.log(summary.count))
        return summary, {
            name: jnp.where(seen, self._loss(summary.mean), jnp.nan),
            f"{name} of the draw": self._loss(alone),
            "nll": jnp.where(seen, nll, jnp.nan),
        }

    def _loss(self, mean: Array) -> Scalar:
        if self.model.likelihood.is_classification:
            return self._mean((_classes(mean) != _classes(self.padded_targets)).astype(mean.dtype))
        return jnp.sqrt(self._mean(jnp.mean((mean - self.padded_targets) ** 2, axis=0)))

    def _mean(self, values: Float[Array, "row"]) -> Scalar:
        """The mean over rows without padding."""
        return mean_of_rows(values, self.count)

    def join(self, summaries: list[Sums]) -> Prediction | None:
        """The prediction over all chains, draws weighted; None if every weight is 0."""
        summaries = [one for one in summaries if one.count > 0]
        if not summaries:
            return None
        return join(self.model, [part_of(stacked(summaries))], levels=(), count=int(self.count), has_targets=True)


def _classes(values: AnyArray) -> Array:
    """Class indices `[rows]` from probabilities or one-hot targets `[classes, rows]`; a single row is thresholded."""
    array = jnp.asarray(values)
    return jnp.argmax(array, axis=0) if array.shape[0] > 1 else (array[0] > 0.5).astype(jnp.int32)
