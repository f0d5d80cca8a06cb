"""What can be compared: samples of the posterior of a network, and fitted estimators."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np

from ergonet._errors import CapabilityError
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.samples import Samples
from ergonet.models.delegated import Uncalibrated
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork
from ergonet.models.tempered import TemperedPosterior
from ergonet.models.weighting import Weighted
from ergonet.target.capabilities import Missing, Simulation

Source = Any  # `Samples`, `runs.directory.Fitted`, or an estimator of `ergonet.estimators`, which is a layer above

_INSTEAD = "Compare by rows that were not used for fitting (`comparison.held_out` in Python)."


@dataclass(frozen=True)
class Known:
    """The draws of a model, and how its numbers become those of a table.

    Attributes:
        samples: the draws.
        model: the network; None: that of the target of the samples, if any.
        preprocessing: the scaling of the table; None: inputs and targets are those of the network.
    """

    samples: Samples
    model: BayesianNetwork | None
    preprocessing: Preprocessing | None

    def log_slope(self, observed: np.ndarray | None) -> np.ndarray | float:
        """What is added to log densities of scaled targets to have them in units of the table.

        Args:
            observed: the targets in these units, `[row, target]`; None: not known.

        Raises:
            CapabilityError: the targets were transformed, and are not known.
        """
        scaling = self.preprocessing
        if scaling is None or scaling.task == "classification":
            return 0.0
        if observed is not None:
            return scaling.log_slope(observed)
        if scaling.target_transform is not None:
            raise CapabilityError("Log densities of transformed targets need the targets. Pass `x` and `y`.")
        return -float(np.log(scaling.target_sd).sum())

    def rows(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Inputs and targets as the network takes them."""
        if self.preprocessing is None:
            return x, y
        return self.preprocessing.transform(x, argument="`x`"), self.preprocessing.transform_target(y, argument="`y`")

    def in_units(self, targets: Any) -> np.ndarray:
        """Targets of the network, `[row]` or `[row, target]`, in units of the table, `[row, target]`."""
        values = np.asarray(targets)
        values = values[:, None] if values.ndim == 1 else values
        scaling = self.preprocessing
        if scaling is None or scaling.task == "classification":
            return values
        return scaling.inverse_target(values)

    def observed(self, samples: Samples) -> np.ndarray | None:
        """Targets of the rows of the data, `[row, target]`; None if the target does not give them."""
        target = samples.require_target()
        found = target.capability(Simulation)
        return None if isinstance(found, Missing) else self.in_units(np.asarray(found.observed()).T)

    def conditioned(self, x: Any, y: Any) -> Samples:
        """The samples with the posterior given these rows as their target."""
        if self.model is None:
            raise CapabilityError("`x` and `y` are for estimators: samples take `ergonet.load(path, target=target)`.")
        return replace(self.samples, target=self.model.condition(*self.rows(x, y)))

    def check_weights(self, samples: Samples) -> None:
        """Raise `CapabilityError` if draws or rows have unequal weights, or the posterior is tempered."""
        if np.ptp(samples.weights()) > 0:
            raise CapabilityError(
                f"The draws have unequal weights, which importance sampling and WAIC do not take. {_INSTEAD}"
            )
        target = samples.require_target()
        if isinstance(target, TemperedPosterior):
            raise CapabilityError(
                "These are draws of a tempered posterior, from which the importance weights of the posterior would not "
                f"leave a row out. {_INSTEAD}"
            )
        if isinstance(target, AbstractNetworkPosterior) and isinstance(target.model.likelihood, Weighted):
            raise CapabilityError(f"The rows have weights, so a row cannot be left out as one observation. {_INSTEAD}")


def fitted(source: Source) -> Known:
    """The draws of samples, of a fitted run or of a fitted estimator.

    Raises:
        CapabilityError: it is none of these.
    """
    if isinstance(source, Samples):
        return Known(source, None, None)
    for names in (("samples_", "model_", "preprocessing_"), ("samples", "model", "preprocessing")):
        if all(hasattr(source, name) for name in names):
            samples, model, preprocessing = (getattr(source, name) for name in names)
            return Known(samples, model, _with_labels(preprocessing, getattr(source, "classes_", None)))
    raise CapabilityError(
        f"`source` must be `Samples` or a fitted estimator, got {type(source).__name__}. Call its `fit` first."
    )


def _with_labels(preprocessing: Preprocessing | None, labels: Any) -> Preprocessing | None:
    """The preprocessing of a classifier with the labels of its user, not their indices; None: it has them, if any."""
    if preprocessing is None or labels is None or preprocessing.task != "classification":
        return preprocessing
    return replace(preprocessing, classes=tuple(np.asarray(labels).tolist()))


def before_calibration(source: Source) -> Known:
    """`fitted`, with class probabilities as they are before a temperature and label noise, as those of `loo` are.

    Raises:
        CapabilityError: it is none of these, or the samples carry no network.
    """
    from ergonet.prediction.predictive import Predictor

    known = fitted(source)
    return replace(known, model=uncalibrated(Predictor(known.samples, known.model).model))


def uncalibrated(model: BayesianNetwork) -> BayesianNetwork:
    """The network without a temperature and label noise of its class probabilities."""
    if model.likelihood.calibration is None:
        return model
    return eqx.tree_at(lambda one: one.likelihood, model, Uncalibrated(model.likelihood))
