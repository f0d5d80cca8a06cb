"""A likelihood of ordered classes."""

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from ergonet._checks import is_integer
from ergonet._errors import SettingError, shown
from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.checked import labels_of
from ergonet.models.likelihood import Outputs, PerRow, Targets
from ergonet.models.likelihoods.classes import Categorical
from ergonet.models.likelihoods.learned import AbstractLearned
from ergonet.models.network import Weights


class Ordinal(AbstractLearned):
    """Ordered classes 0..K-1, such as grades: P(class <= k) = sigmoid(cut point k - output); one output.

    The cut points are learned: the classes' probabilities where the output is 0, `shares`, have the prior Dirichlet(1).

    Attributes:
        num_classes: K, at least 2; None: the command and the estimators take it from the data.
    """

    is_classification: ClassVar[bool] = True
    num_classes: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.num_classes is not None and (not is_integer(self.num_classes) or self.num_classes < 2):
            raise SettingError(
                f"`Ordinal(num_classes=...)` must be an integer of at least 2, got {shown(self.num_classes)}."
            )

    def priors(self) -> Mapping[str, Distribution]:
        if self.num_classes is None:
            raise SettingError(
                "`Ordinal()` needs the number of classes outside the estimators: `Ordinal(num_classes=5)`."
            )
        return {"shares": dist.Dirichlet(jnp.ones(self.num_classes))}

    def cut_points(self, parameters: Weights) -> Array:
        """The cut points, ascending, `[K - 1]`."""
        shares = self.values(parameters)["shares"]
        below, above = jnp.cumsum(shares)[:-1], jnp.cumsum(shares[::-1])[:-1][::-1]
        return jnp.log(below) - jnp.log(above)

    def num_outputs(self, num_targets: int) -> int:
        return 1

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        if num_outputs != 1:
            raise SettingError(f"`Ordinal()` needs a network with 1 output, got {num_outputs}; or `Categorical()`.")
        count = self.priors()["shares"].event_shape[0]
        labels = labels_of(y, count, "Ordinal()")
        return jax.device_put((labels[None, :] == np.arange(count)[:, None]).astype(np.float32))

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        """Log probabilities: log(sigmoid(b) - sigmoid(a)) = log sigmoid(b) + log sigmoid(-a) + log(1 - exp(a - b))."""
        cuts = self.cut_points(parameters)[:, None]
        upper, lower = jax.nn.log_sigmoid(cuts - outputs), jax.nn.log_sigmoid(outputs - cuts)
        middle = upper[1:] + lower[:-1] + jnp.log(-jnp.expm1(cuts[:-1] - cuts[1:]))
        return jnp.concatenate([upper[:1], middle, lower[-1:]], axis=0)

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        return jnp.sum(self.monitor(parameters, outputs) * targets, axis=0)

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.exp(self.monitor(parameters, outputs))

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        probability = self.mean(parameters, outputs)
        return probability * (1 - probability)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        return Categorical().cdf({}, self.monitor(parameters, outputs), value)

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        return Categorical().quantile({}, self.monitor(parameters, outputs), probability)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return Categorical().sample(key, {}, self.monitor(parameters, outputs))
