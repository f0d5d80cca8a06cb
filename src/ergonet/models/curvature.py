"""Curvatures of a multilayer perceptron's potential: Neal's for the weights, Choo's for the hyperparameters.

A curvature approximates the second derivative of the potential by one coordinate; leapfrog step sizes proportional to
its inverse square root keep a trajectory stable. For a split leapfrog to be reversible, the curvatures of one block
must be computed from the other block only. With c_j the curvature of the likelihood at the input of unit j, S_i the sum
over cases of x_i^2 for an input and the number of cases for a hidden unit (|h| <= 1) or a bias, and tau the precision
of a weight's prior:

    weight, centered       tau + c_j S_i          c_i = sum_j c_j / tau_ji one layer back
    weight, non-centered   1 + c_j S_i / tau      the same c_i

At an output, c is the noise precision, or the bound 1/4 for a class probability. Sources: Neal1996, appendix A.4;
Choo2000, equations 4.27 to 4.42, 4.47 and 4.48.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ergonet._types import Array, Float, Int
from ergonet.models.likelihood import LOG_PRECISION, AbstractLikelihood, Gaussian
from ergonet.models.likelihoods.classes import Bernoulli, Categorical
from ergonet.models.network import MLP, AbstractNetwork, cut, product
from ergonet.models.precision import GammaPrecision
from ergonet.models.prior.assignment import Block, PriorAssignment
from ergonet.models.prior.normal_gamma import NormalGamma
from ergonet.models.prior.parametrization import Centered
from ergonet.models.prior.simple import FanInNormal, Normal
from ergonet.models.registry import ACTIVATIONS
from ergonet.target.capabilities import CenteredCurvature, NonCenteredCurvature
from ergonet.target.padding import without_padding

BOUNDED = ("tanh", "sigmoid")
CLASS_CURVATURE = 0.25
LEAST_SHARE = 1e-3  # floor of a hyperparameter's curvature, in units of alpha / 2, because its terms can cancel


class NetworkCurvature(CenteredCurvature, NonCenteredCurvature):
    """The curvatures of a network's posterior; `lacks` says why some do not apply."""

    network: AbstractNetwork
    prior: PriorAssignment
    likelihood: AbstractLikelihood
    inputs: Array
    targets: Array
    count: Int[Array, ""] | None  # rows that are not padding, which come first; None: all

    @property
    def num_rows(self) -> Any:
        """Rows of the data, traced if there is padding."""
        return self.targets.shape[1] if self.count is None else self.count

    @property
    def num_targets(self) -> Any:
        """Targets of all rows."""
        return self.targets.shape[0] * self.num_rows

    @property
    def num_weights(self) -> int:
        return self.prior.num_weights

    def lacks(self, *, centered: bool) -> str:
        """Why there are no curvatures of weights and hyperparameters, in words; empty if there are."""
        for block in self.prior.blocks():
            prior = block.prior
            if isinstance(prior, NormalGamma) and (
                len(prior.levels) > 1 or prior.top.group.name in ("layer", "weight")
            ):
                return f"curvatures of hyperparameters need one level of precisions, by leaf or by unit, not {prior!r}"
        lacking = self.lacks_of_weights(centered=centered)
        if (
            not lacking
            and not centered
            and not any(isinstance(block.prior, NormalGamma) for block in self.prior.blocks())
        ):
            return "no weights have a learned scale to standardize them by; `DynamicalA` costs less"
        return lacking

    def lacks_of_weights(self, *, centered: bool) -> str:
        """Why there are no curvatures of the weights given the hyperparameters; hierarchical priors have them, too."""
        if not isinstance(self.network, MLP):
            return f"curvatures are known for an `MLP`, not for {type(self.network).__name__}"
        if self.network.direct:
            return "curvatures are not known for direct connections from inputs to outputs"
        if self.network.activation not in BOUNDED:
            return (
                f"curvatures need an activation between -1 and 1 ({', '.join(BOUNDED)}), not {self.network.activation}"
            )
        if not isinstance(self.likelihood, Gaussian | Categorical | Bernoulli):
            return f"curvatures are known for Gaussian, Categorical and Bernoulli, not for {self.likelihood!r}"
        for block in self.prior.blocks():
            prior = block.prior
            if isinstance(prior, NormalGamma):
                if isinstance(prior.parametrization, Centered) is not centered:
                    word = "centered" if centered else "non-centered"
                    return f"the prior of {block.name} must be `NormalGamma(..., parametrization={word!r})`"
            elif not isinstance(prior, Normal | FanInNormal) or (isinstance(prior, Normal) and prior.mean):
                known = "`NormalGamma`, and `Normal` and `FanInNormal` around 0"
                return f"curvatures are known for {known}, not for {prior!r}"
        return ""

    def of_weights(self, hyperparameters: Float[Array, "hyperparameters"]) -> Float[Array, "weights"]:
        network: Any = self.network
        named = _named(self, hyperparameters)
        log_precisions = _log_precisions(self, named, hyperparameters.dtype)
        num_rows = self.num_rows
        outputs = jnp.full((network.sizes[-1],), 1.0, hyperparameters.dtype) * _output_curvature(self, named)
        found: dict[str, Array] = {}
        above = outputs
        for layer in reversed(range(len(network.sizes) - 1)):
            weight = log_precisions[f"layers.{layer}.weight"]
            squares = _sum_of_squares(self, self.inputs) if layer == 0 else jnp.asarray(num_rows, above.dtype)
            found[f"layers.{layer}.weight"] = above[:, None] * squares
            if network.bias:
                found[f"layers.{layer}.bias"] = above * num_rows
            if layer:
                spread = jnp.broadcast_to(jnp.exp(-weight), (network.sizes[layer + 1], network.sizes[layer]))
                above = product(above[None], spread)[0]
        parts = []
        for path, leaf in self.network.leaves().items():
            log_precision = log_precisions[path]
            non_centered = _is_non_centered(self, path)
            data = jnp.broadcast_to(found[path], leaf.shape)
            curvature = 1 + data * jnp.exp(-log_precision) if non_centered else jnp.exp(log_precision) + data
            parts.append(jnp.broadcast_to(curvature, leaf.shape).reshape(-1))
        return jnp.concatenate(parts)

    def of_hyperparameters(self, weights: Float[Array, "weights"]) -> Float[Array, "hyperparameters"]:
        """Curvature of every log precision, from the coordinates of the weights.

        Centered: (alpha + n) / 2, its value at the conditional mean given the weights. Non-centered: evaluated at the
        prior means, by one forward and one backward pass.
        """
        if any(_is_non_centered(self, path) for path in self.prior.paths):
            return _non_centered(self, weights)
        parts = [
            jnp.full((leaf.size,), (block.prior.top.alpha + block.leaf.size // leaf.size) / 2, weights.dtype)
            for block in self.prior.blocks()
            for leaf in block.own().values()
            if isinstance(block.prior, NormalGamma)
        ]
        noise = _noise_prior(self)
        if noise is not None:
            parts.append(jnp.full((1,), (noise.alpha + self.num_targets) / 2, weights.dtype))
        return jnp.concatenate(parts)


def _non_centered(of: NetworkCurvature, weights: Array) -> Array:
    """Choo2000, equations 4.36 to 4.42, generalized to any depth and to groups by unit.

    d^2 U / d lambda^2 = alpha / 2 + sum over cases of (-1/2 dL / dlambda + sum_j c_j (dg_j / dlambda)^2).
    """
    network: Any = of.network
    means = jnp.concatenate(
        [
            *[
                jnp.full((leaf.size,), block.prior.log_mean, weights.dtype)
                for block in of.prior.blocks()
                for leaf in block.own().values()
                if isinstance(block.prior, NormalGamma)
            ],
            *[jnp.full((1,), noise.log_mean, weights.dtype) for noise in (_noise_prior(of),) if noise is not None],
        ]
    )

    def misfit(hyperparameters: Array) -> Array:
        position = jnp.concatenate([weights, hyperparameters])
        own = cut(position[of.prior.dim :], of.likelihood.leaves())
        outputs = of.network.apply(of.prior.split(position), of.inputs)
        return -jnp.sum(without_padding(of.likelihood.log_prob(own, outputs, of.targets), of.count))

    slope = jax.grad(misfit)(means)
    position = jnp.concatenate([weights, means])
    named = _named(of, means)
    actual = of.prior.split(position)
    act = ACTIVATIONS.load(network.activation)
    values, hidden = of.inputs, []
    for layer in range(len(network.sizes) - 1):
        hidden.append(act(values) if layer else values)
        values = product(actual[f"layers.{layer}.weight"], hidden[-1])
        if network.bias:
            values = values + actual[f"layers.{layer}.bias"][:, None]
    squared: dict[str, Array] = {}
    above = jnp.full((network.sizes[-1],), 1.0, weights.dtype) * _output_curvature(of, named)
    for layer in reversed(range(len(network.sizes) - 1)):
        weight = actual[f"layers.{layer}.weight"]
        squared[f"layers.{layer}.weight"] = _squared_slopes(of, layer, above, weight, hidden[layer])
        if network.bias:
            each = above * actual[f"layers.{layer}.bias"] ** 2 * of.num_rows / 4
            is_leaf = _group(of, f"layers.{layer}.bias") == "leaf"
            squared[f"layers.{layer}.bias"] = jnp.sum(each)[None] if is_leaf else each
        above = product(above[None], weight**2)[0]
    parts, start = [], 0
    for block in of.prior.blocks():
        prior: Any = block.prior
        for leaf in block.own().values():
            data = -0.5 * slope[start : start + leaf.size] + squared[block.name].reshape(-1)
            parts.append(_floored(prior.top.alpha / 2, data))
            start += leaf.size
    noise = _noise_prior(of)
    if noise is not None:
        # L is proportional to e^lambda except for its normalizer, whose slope is minus half the number of targets.
        total = slope[start:] + 0.5 * of.num_targets
        parts.append(_floored(noise.alpha / 2, total))
    return jnp.concatenate(parts)


def _floored(own: float, data: Array) -> Array:
    return jnp.maximum(jnp.abs(own + data), LEAST_SHARE * own)


def _squared_slopes(of: NetworkCurvature, layer: int, above: Array, weight: Array, hidden: Array) -> Array:
    """Sum over cases of sum_j c_j (dg_j / dlambda)^2 for the groups of a layer's weights: dg_j = -mu_j / 2."""
    group = _group(of, f"layers.{layer}.weight")
    if group not in ("leaf", "incoming"):
        return product(above[None], weight**2)[0] * _sum_of_squares(of, hidden) / 4
    each = above[:, None] * without_padding(product(weight, hidden), of.count) ** 2
    return jnp.sum(each)[None] / 4 if group == "leaf" else jnp.sum(each, axis=1) / 4


def _sum_of_squares(of: NetworkCurvature, values: Array) -> Array:
    """Sum over cases of the squares of each of `values`, `[value, rows]`."""
    return jnp.sum(without_padding(values, of.count) ** 2, axis=1)


def _named(of: NetworkCurvature, hyperparameters: Array) -> dict[str, Array]:
    """All hyperparameters by name, including those of the likelihood."""
    position = jnp.concatenate([jnp.zeros((of.prior.num_weights,), hyperparameters.dtype), hyperparameters])
    own = cut(position[of.prior.dim :], of.likelihood.leaves())
    return of.prior.hyperparameters(position) | own


def _block(of: NetworkCurvature, path: str) -> Block:
    return next(block for block in of.prior.blocks() if path in block.paths)


def _group(of: NetworkCurvature, path: str) -> str:
    prior = _block(of, path).prior
    return prior.top.group.name if isinstance(prior, NormalGamma) else "leaf"


def _is_non_centered(of: NetworkCurvature, path: str) -> bool:
    prior = _block(of, path).prior
    return isinstance(prior, NormalGamma) and not isinstance(prior.parametrization, Centered)


def _log_precisions(of: NetworkCurvature, named: dict[str, Array], dtype: Any) -> dict[str, Array]:
    """Log precisions of every leaf, broadcasting against it."""
    found = {}
    for path, leaf in of.network.leaves().items():
        block = _block(of, path)
        prior: Any = block.prior
        if isinstance(prior, NormalGamma):
            found[path] = prior.log_precisions(block.hyperparameters(named), block.leaf)[-1]
            continue
        variance = prior.scale**2 / leaf.fan_in if isinstance(prior, FanInNormal) else prior.scale**2
        found[path] = jnp.full((1,) * len(leaf.shape), -jnp.log(variance), dtype)
    return found


def _output_curvature(of: NetworkCurvature, named: dict[str, Array]) -> Array | float:
    if not isinstance(of.likelihood, Gaussian):
        return CLASS_CURVATURE
    if isinstance(of.likelihood.noise, GammaPrecision):
        return jnp.exp(named[LOG_PRECISION])
    return of.likelihood.noise**-2


def _noise_prior(of: NetworkCurvature) -> GammaPrecision | None:
    likelihood = of.likelihood
    return (
        likelihood.noise if isinstance(likelihood, Gaussian) and isinstance(likelihood.noise, GammaPrecision) else None
    )
