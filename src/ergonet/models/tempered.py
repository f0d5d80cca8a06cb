"""Tempered posteriors of networks: the density, or only its likelihood, raised to a power 1 / T.

T below 1 is a cold posterior (Wenzel2020): sharper than the posterior by Bayes' rule, which is T = 1. Predictions are
those of the likelihood as it is, p(y | weights), averaged over the tempered draws.
"""

import enum
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._checks import is_number
from ergonet._errors import CapabilityError, SettingError, shown
from ergonet._types import Array, Float, Int, Position, Scalar
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork, NetworkPosterior
from ergonet.target.capabilities import GibbsBlock, PointwiseLogLikelihood, Simulation, WeightCurvature
from ergonet.target.contract import CapabilityT, Missing, ReferencePoint, own_capability


class Tempering(enum.StrEnum):
    """What the power 1 / T applies to.

    Attributes:
        POSTERIOR: all of the potential, U / T: prior and likelihood (the cold posterior of Wenzel2020).
        LIKELIHOOD: the likelihood only; the prior stays as it is (a generalized or safe posterior, Grunwald2012).
    """

    POSTERIOR = "posterior"
    LIKELIHOOD = "likelihood"


class TemperedPosterior(AbstractNetworkPosterior, PointwiseLogLikelihood):
    """A network's posterior with powers of its prior and its likelihood; make it with `tempered`.

    Log likelihoods, monitored predictions and simulated targets are those of the network, not tempered.
    """

    posterior: NetworkPosterior
    of_prior: Float[Array, ""]
    of_rows: Float[Array, ""]
    dim: int = eqx.field(static=True)

    def __init__(self, posterior: NetworkPosterior, of_prior: Array, of_rows: Array):
        self.posterior, self.of_prior, self.of_rows = posterior, of_prior, of_rows
        self.dim = posterior.dim

    @property
    def model(self) -> BayesianNetwork:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The network, whose likelihood is not tempered."""
        return self.posterior.model

    @property
    def reference(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Inputs on whose predictions convergence is judged."""
        return self.posterior.reference

    @property
    def num_rows(self) -> Any:
        return self.posterior.num_rows

    def rows(self) -> tuple[Array, Array]:
        return self.posterior.rows()

    def take(self, indices: Int[Array, "row"]) -> tuple[Array, Array]:
        return self.posterior.take(indices)

    def log_likelihood(self, position: Position, rows: Int[Array, "row"] | None = None) -> Float[Array, "row"]:
        return self.posterior.log_likelihood(position, rows)

    def _facts(self) -> dict[str, object]:
        powers = {"prior_power": float(self.of_prior), "likelihood_power": float(self.of_rows)}
        return super()._facts() | powers

    def potential(self, position: Position) -> Scalar:
        density, (prior, row) = self.model.prior_density(position), self.posterior.left_out or (None, None)
        above = density.whole if prior is None else density.above(prior)
        rows = self.posterior.sum_over_rows(position, above=row)
        return -(self.of_prior * above + self.of_rows * rows).astype(position.dtype)

    def minibatch_potential(self, position: Position, rows: tuple[Array, Array]) -> Scalar:
        whole, apart = self.posterior.minibatch_potential(position, rows), self.of_prior - self.of_rows
        return (self.of_rows * whole - apart * self.model.log_prior(position)).astype(position.dtype)

    def reference_point(self, position: Position) -> ReferencePoint:
        density, rows = self.model.prior_density(position), self.posterior.sum_over_rows(position)
        potential = -(self.of_prior * density.whole + self.of_rows * rows).astype(position.dtype)
        return ReferencePoint(potential, (density, rows / self.num_rows))

    def relative_to(self, reference: ReferencePoint) -> "TemperedPosterior":
        return eqx.tree_at(lambda one: one.posterior, self, self.posterior.relative_to(reference))

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        if issubclass(kind, GibbsBlock | WeightCurvature):
            return Missing("it is that of the posterior, not of the tempered one")
        return self.posterior.capability(kind) if kind is Simulation else own_capability(self, kind)

    def explain(self, position: Position) -> str:
        return self.posterior.explain(position)


def tempered(
    target: NetworkPosterior | Any, temperature: Any, form: Tempering | str = Tempering.POSTERIOR
) -> TemperedPosterior:
    """The posterior of a network at a temperature T, a target like any other.

    With ``"posterior"`` the potential is U(q) / T, where U = -log prior - log likelihood: weights, hyperparameters,
    learned noise and the Jacobians of their coordinates are all tempered, as in Wenzel2020. With ``"likelihood"`` it
    is -log prior - log likelihood / T. Which of the two is meant matters: tempering a normal prior makes it narrower by
    sqrt(T), and where scales are learned, U depends on the coordinates in which they are sampled.

    Args:
        target: the posterior, from `BayesianNetwork.condition`.
        temperature: T, above 0; 1 is the posterior itself, below 1 it is colder.
        form: what is tempered, a `Tempering` or its name.

    Returns:
        The target. Programs are the same for every temperature. Gibbs draws and curvatures, which are of the posterior,
        are missing; leave-one-out and WAIC refuse its draws; `evidence` is that of the tempered density.

    Raises:
        CapabilityError: `target` is no such posterior.
        SettingError: `temperature` or `form` is out of range.
    """
    if not isinstance(target, NetworkPosterior):
        raise CapabilityError(
            f"`target` must be the posterior of a network, from `BayesianNetwork.condition`, got "
            f"{type(target).__name__}."
        )
    power = 1 / check_temperature(temperature)
    if form not in tuple(Tempering):
        raise SettingError(f"`form` must be {' or '.join(repr(str(one)) for one in Tempering)}, got {shown(form)}.")
    of_rows = jnp.asarray(power, target.reference.dtype)
    of_prior = of_rows if form == Tempering.POSTERIOR else jnp.ones_like(of_rows)
    return TemperedPosterior(target, of_prior, of_rows)


def check_temperature(value: Any) -> float:
    """The temperature as a float.

    Raises:
        SettingError: it is not a number between 1e-30 and 1e30.
    """
    if not is_number(value) or not 1e-30 <= float(value) <= 1e30 or math.isnan(value):
        raise SettingError(f"`temperature` must be a number above 0, such as 0.1, got {shown(value)}.")
    return float(value)
