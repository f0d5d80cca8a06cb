"""Parameters of a likelihood that are learned with the weights, each with a NumPyro distribution as its prior.

The support of the prior is the constraint: NumPyro's bijection from the real line is the coordinate, and supplies the
Jacobian.
"""

import abc
from collections.abc import Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, SigmoidTransform, biject_to

from ergonet._errors import CapabilityError
from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.likelihood import AbstractLikelihood, Flags, Outputs, Targets
from ergonet.models.network import Leaf, Weights

Values = dict[str, Array]
PREFIXES = {IdentityTransform: "", ExpTransform: "log_", SigmoidTransform: "logit_"}
OTHER_PREFIX = "unconstrained_"
UNAVAILABLE = (NotImplementedError, ImportError)  # NumPyro lacks a function, or a package that it would need


def path_of(name: str, prior: Distribution) -> str:
    """Path of the coordinate of a parameter, such as `likelihood.log_scale`."""
    return f"likelihood.{PREFIXES.get(type(_bijection(prior)), OTHER_PREFIX)}{name}"


def _bijection(prior: Distribution) -> Any:
    return biject_to(prior.support)


class AbstractLearned(AbstractLikelihood):
    """Base of likelihoods whose parameters have NumPyro distributions as priors."""

    @abc.abstractmethod
    def priors(self) -> Mapping[str, Distribution]:
        """The priors of the learned parameters, by name; empty if there are none."""

    def values(self, parameters: Weights) -> Values:
        """The learned parameters by name, from their coordinates."""
        return {name: _bijection(one)(parameters[path_of(name, one)]) for name, one in self.priors().items()}

    def leaves(self) -> dict[str, Leaf]:
        return {
            path_of(name, one): Leaf(shape=tuple(_bijection(one).inverse_shape(one.shape())), fan_in=1)
            for name, one in self.priors().items()
        }

    def log_prior(self, parameters: Weights) -> Scalar:
        total = jnp.zeros(())
        for name, one in self.priors().items():
            bijection, coordinate = _bijection(one), parameters[path_of(name, one)]
            value = bijection(coordinate)
            jacobian = bijection.log_abs_det_jacobian(coordinate, value)
            total = total + jnp.sum(one.log_prob(value)) + jnp.sum(jacobian)
        return total

    def sample_prior(self, key: PRNGKey, dtype: DTypeLike) -> dict[str, Array]:
        priors = self.priors()
        keys = jax.random.split(key, max(1, len(priors)))
        return {
            path_of(name, one): jnp.asarray(_bijection(one).inv(one.sample(key)), dtype)
            for key, (name, one) in zip(keys, priors.items(), strict=False)
        }

    def initial_values(self, dtype: DTypeLike) -> dict[str, Array]:
        """The medians of the priors, or their means, or 0 on the real line."""
        return {path_of(name, one): jnp.asarray(_middle(one), dtype) for name, one in self.priors().items()}

    def scales(self, parameters: Weights) -> dict[str, Array]:
        """The parameters that are single numbers above 0."""
        values = self.values(parameters)
        return {name: values[name] for name, one in self.priors().items() if not one.shape() and _is_positive(one)}

    @property
    def lacks_conjugacy(self) -> str:
        names = ", ".join(self.priors())
        return f"the learned parameters of {type(self).__name__} ({names}) have no conjugate priors" if names else ""

    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        return {} if not self.priors() else self._refuse()

    def _refuse(self) -> NoReturn:
        raise CapabilityError(f"There are no Gibbs draws: {self.lacks_conjugacy}. Use `NUTS()`.")


def _middle(prior: Distribution) -> Array:
    bijection = _bijection(prior)
    coordinate = jnp.full(bijection.inverse_shape(prior.shape()), jnp.nan)
    for middle in (lambda: prior.icdf(0.5), lambda: prior.mean):
        try:
            found = jnp.broadcast_to(jnp.asarray(bijection.inv(middle())), coordinate.shape)
        except UNAVAILABLE:
            continue
        coordinate = jnp.where(jnp.isfinite(coordinate), coordinate, found)
    return jnp.where(jnp.isfinite(coordinate), coordinate, 0.0)


def _is_positive(prior: Distribution) -> bool:
    with jax.ensure_compile_time_eval():
        lowest: Any = getattr(prior.support, "lower_bound", None)
        return lowest is not None and not isinstance(lowest, Tracer) and bool(np.all(np.asarray(lowest) >= 0))
