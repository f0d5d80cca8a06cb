"""Likelihoods that change another one in part."""

from typing import Any

from jax.typing import DTypeLike

from ergonet._types import AnyArray, Array, PRNGKey, Scalar
from ergonet.models.likelihood import AbstractLikelihood, Flags, Outputs, PerRow, Targets
from ergonet.models.network import Leaf, Weights


class Delegated(AbstractLikelihood):
    """Base of likelihoods that are as another one in everything that they do not define themselves."""

    likelihood: AbstractLikelihood

    @property
    def is_classification(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.likelihood.is_classification

    @property
    def is_discrete(self) -> bool:
        return self.likelihood.is_discrete

    @property
    def lacks_conjugacy(self) -> str:
        return self.likelihood.lacks_conjugacy

    @property
    def calibration(self) -> tuple[AnyArray, AnyArray] | None:
        return self.likelihood.calibration

    def num_outputs(self, num_targets: int) -> int:
        return self.likelihood.num_outputs(num_targets)

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        return self.likelihood.prepare(y, num_outputs)

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        return self.likelihood.log_prob(parameters, outputs, targets)

    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        return self.likelihood.gibbs(key, outputs, targets, is_row)

    def leaves(self) -> dict[str, Leaf]:
        return self.likelihood.leaves()

    def log_prior(self, parameters: Weights) -> Scalar:
        return self.likelihood.log_prior(parameters)

    def sample_prior(self, key: PRNGKey, dtype: DTypeLike) -> dict[str, Array]:
        return self.likelihood.sample_prior(key, dtype)

    def initial_values(self, dtype: DTypeLike) -> dict[str, Array]:
        return self.likelihood.initial_values(dtype)

    def scales(self, parameters: Weights) -> dict[str, Array]:
        return self.likelihood.scales(parameters)

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return self.likelihood.mean(parameters, outputs)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        return self.likelihood.variance(parameters, outputs)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        return self.likelihood.cdf(parameters, outputs, value)

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        return self.likelihood.quantile(parameters, outputs, probability)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return self.likelihood.sample(key, parameters, outputs)

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        return self.likelihood.monitor(parameters, outputs)


class Uncalibrated(Delegated):
    """A likelihood without temperature and label noise: predicted class probabilities are those of the posterior."""

    @property
    def calibration(self) -> None:
        return None
