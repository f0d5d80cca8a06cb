"""Neal's curvatures of a multilayer perceptron's potential, and Choo's of its hyperparameters.

A curvature is about the second derivative of the potential by one coordinate; leapfrog steps in proportion to its
inverse root keep a trajectory stable. So that a split leapfrog stays reversible, that of a block is made from the
other block only. With c_j the curvature of the likelihood at the input of unit j, S_i the sum over cases of x_i^2 for
an input and the number of cases for a hidden unit (|h| <= 1) or a bias, tau the precision of a weight's prior:

    weight, centred       tau + c_j S_i          c_i = sum_j c_j / tau_ji one layer back
    weight, non-centred   1 + c_j S_i / tau      the same c_i

and at an output the noise precision, or the bound 1/4 of a class probability. Sources: Neal 1996, appendix A.4; Choo
2000, equations 4.27 to 4.42, 4.47 and 4.48.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ergonet._types import Array, Float
from ergonet.models.activation import activation as activation_function
from ergonet.models.likelihood import LOG_PRECISION, Bernoulli, Categorical, Gaussian
from ergonet.models.network import MLP, product
from ergonet.models.precision import GammaPrecision
from ergonet.models.prior.assignment import Block
from ergonet.models.prior.normal_gamma import NormalGamma
from ergonet.models.prior.parametrisation import Centered
from ergonet.models.prior.simple import FanInNormal, Normal

if TYPE_CHECKING:
    from ergonet.models.network_posterior import BayesianNetwork, NetworkPosterior

BOUNDED = ("tanh", "sigmoid")
CLASS_CURVATURE = 0.25
LEAST_SHARE = 1e-3  # floor of a hyperparameter's curvature, in units of alpha / 2: its terms can cancel


def lacks_curvature(model: "BayesianNetwork", *, centered: bool) -> str:
    """Why there are no curvatures of weights and hyperparameters for a model, in words; empty where there are."""
    for block in model.prior.blocks():
        prior = block.prior
        if isinstance(prior, NormalGamma) and (len(prior.levels) > 1 or prior.top.group.name in ("layer", "weight")):
            return f"curvatures of hyperparameters need one level of precisions, by leaf or by unit, not {prior!r}"
    lacking = lacks_weight_curvature(model, centered=centered)
    if not lacking and not centered and not any(isinstance(block.prior, NormalGamma) for block in model.prior.blocks()):
        return "no weights have a learned scale that they could be standardised by; `DynamicalA` costs less"
    return lacking


def lacks_weight_curvature(model: "BayesianNetwork", *, centered: bool) -> str:
    """Why there are no curvatures of the weights given the hyperparameters, likewise; hierarchies have them too."""
    if not isinstance(model.network, MLP):
        return f"curvatures are known for an `MLP`, not for {type(model.network).__name__}"
    if model.network.activation not in BOUNDED:
        return f"curvatures need an activation between -1 and 1 ({', '.join(BOUNDED)}), not {model.network.activation}"
    if not isinstance(model.likelihood, Gaussian | Categorical | Bernoulli):
        return f"curvatures are known for Gaussian, Categorical and Bernoulli, not for {model.likelihood!r}"
    for block in model.prior.blocks():
        prior = block.prior
        if isinstance(prior, NormalGamma):
            if isinstance(prior.parametrisation, Centered) is not centered:
                word = "centered" if centered else "non-centered"
                return f"the prior of {block.name} must be `NormalGamma(..., parametrisation={word!r})`"
        elif not isinstance(prior, Normal | FanInNormal) or (isinstance(prior, Normal) and prior.mean):
            return f"curvatures are known for `NormalGamma`, and `Normal` and `FanInNormal` around 0, not for {prior!r}"
    return ""


def weight_curvature(
    posterior: "NetworkPosterior", hyperparameters: Float[Array, "hyperparameters"]
) -> Float[Array, "weights"]:
    """Curvature of every weight's coordinate from the hyperparameters."""
    model = posterior.model
    network: Any = model.network
    named = _named(posterior, hyperparameters)
    log_precisions = _log_precisions(model, named, hyperparameters.dtype)
    num_rows = posterior.targets.shape[1]
    outputs = jnp.full((network.sizes[-1],), 1.0, hyperparameters.dtype) * _output_curvature(model, named)
    found: dict[str, Array] = {}
    above = outputs
    for layer in reversed(range(len(network.sizes) - 1)):
        weight = log_precisions[f"layers.{layer}.weight"]
        squares = jnp.sum(posterior.inputs**2, axis=1) if layer == 0 else jnp.asarray(num_rows, above.dtype)
        found[f"layers.{layer}.weight"] = above[:, None] * squares
        if network.bias:
            found[f"layers.{layer}.bias"] = above * num_rows
        if layer:
            spread = jnp.broadcast_to(jnp.exp(-weight), (network.sizes[layer + 1], network.sizes[layer]))
            above = product(above[None], spread)[0]
    parts = []
    for path, leaf in model.network.leaves().items():
        log_precision = log_precisions[path]
        non_centered = _is_non_centered(model, path)
        data = jnp.broadcast_to(found[path], leaf.shape)
        curvature = 1 + data * jnp.exp(-log_precision) if non_centered else jnp.exp(log_precision) + data
        parts.append(jnp.broadcast_to(curvature, leaf.shape).reshape(-1))
    return jnp.concatenate(parts)


def hyperparameter_curvature(
    posterior: "NetworkPosterior", weights: Float[Array, "weights"]
) -> Float[Array, "hyperparameters"]:
    """Curvature of every log precision from the weights' coordinates.

    Centred: (alpha + n) / 2, which is its value at the mean given the weights. Non-centred: at the prior means, by one
    pass forward and one back.
    """
    model = posterior.model
    if any(_is_non_centered(model, path) for path in model.prior.paths):
        return _non_centered(posterior, weights)
    parts = [
        jnp.full((leaf.size,), (block.prior.top.alpha + block.leaf.size // leaf.size) / 2, weights.dtype)
        for block in model.prior.blocks()
        for leaf in block.own().values()
        if isinstance(block.prior, NormalGamma)
    ]
    noise = _noise_prior(model)
    if noise is not None:
        parts.append(jnp.full((1,), (noise.alpha + posterior.targets.size) / 2, weights.dtype))
    return jnp.concatenate(parts)


def _non_centered(posterior: "NetworkPosterior", weights: Array) -> Array:
    """Choo 2000, equations 4.36 to 4.42, for any depth and for groups by unit.

    d^2 U / d lambda^2 = alpha / 2 + sum over cases of (-1/2 dL / dlambda + sum_j c_j (dg_j / dlambda)^2).
    """
    model = posterior.model
    network: Any = model.network
    means = jnp.concatenate(
        [
            *[
                jnp.full((leaf.size,), block.prior.log_mean, weights.dtype)
                for block in model.prior.blocks()
                for leaf in block.own().values()
                if isinstance(block.prior, NormalGamma)
            ],
            *[jnp.full((1,), noise.log_mean, weights.dtype) for noise in (_noise_prior(model),) if noise is not None],
        ]
    )

    def misfit(hyperparameters: Array) -> Array:
        position = jnp.concatenate([weights, hyperparameters])
        own = model.split(position)[1]
        outputs = model.network.apply(model.prior.split(position), posterior.inputs)
        return -jnp.sum(model.likelihood.log_prob(own, outputs, posterior.targets))

    slope = jax.grad(misfit)(means)
    position = jnp.concatenate([weights, means])
    named = _named(posterior, means)
    actual = model.prior.split(position)
    act = activation_function(network.activation)
    values, hidden = posterior.inputs, []
    for layer in range(len(network.sizes) - 1):
        hidden.append(act(values) if layer else values)
        values = product(actual[f"layers.{layer}.weight"], hidden[-1])
        if network.bias:
            values = values + actual[f"layers.{layer}.bias"][:, None]
    squared: dict[str, Array] = {}
    above = jnp.full((network.sizes[-1],), 1.0, weights.dtype) * _output_curvature(model, named)
    for layer in reversed(range(len(network.sizes) - 1)):
        weight = actual[f"layers.{layer}.weight"]
        squared[f"layers.{layer}.weight"] = _squared_slopes(
            _group(model, f"layers.{layer}.weight"), above, weight, hidden[layer]
        )
        if network.bias:
            each = above * actual[f"layers.{layer}.bias"] ** 2 * posterior.targets.shape[1] / 4
            is_leaf = _group(model, f"layers.{layer}.bias") == "leaf"
            squared[f"layers.{layer}.bias"] = jnp.sum(each)[None] if is_leaf else each
        above = product(above[None], weight**2)[0]
    parts, start = [], 0
    for block in model.prior.blocks():
        prior: Any = block.prior
        for leaf in block.own().values():
            data = -0.5 * slope[start : start + leaf.size] + squared[block.name].reshape(-1)
            parts.append(_floored(prior.top.alpha / 2, data))
            start += leaf.size
    noise = _noise_prior(model)
    if noise is not None:
        # L is in proportion to e^lambda but for its normaliser, whose slope is minus half the number of targets.
        total = slope[start:] + 0.5 * posterior.targets.size
        parts.append(_floored(noise.alpha / 2, total))
    return jnp.concatenate(parts)


def _floored(own: float, data: Array) -> Array:
    return jnp.maximum(jnp.abs(own + data), LEAST_SHARE * own)


def _squared_slopes(group: str, above: Array, weight: Array, hidden: Array) -> Array:
    """Sum over cases of sum_j c_j (dg_j / dlambda)^2 for the groups of a layer's weights: dg_j = -mu_j / 2."""
    if group == "leaf":
        return jnp.sum(above[:, None] * product(weight, hidden) ** 2)[None] / 4
    if group == "incoming":
        return jnp.sum(above[:, None] * product(weight, hidden) ** 2, axis=1) / 4
    return product(above[None], weight**2)[0] * jnp.sum(hidden**2, axis=1) / 4


def _named(posterior: "NetworkPosterior", hyperparameters: Array) -> dict[str, Array]:
    """All hyperparameters by name, the likelihood's own among them."""
    model = posterior.model
    position = jnp.concatenate([jnp.zeros((model.prior.num_weights,), hyperparameters.dtype), hyperparameters])
    return model.prior.hyperparameters(position) | dict(model.split(position)[1])


def _block(model: "BayesianNetwork", path: str) -> Block:
    return next(block for block in model.prior.blocks() if path in block.paths)


def _group(model: "BayesianNetwork", path: str) -> str:
    prior = _block(model, path).prior
    return prior.top.group.name if isinstance(prior, NormalGamma) else "leaf"


def _is_non_centered(model: "BayesianNetwork", path: str) -> bool:
    prior = _block(model, path).prior
    return isinstance(prior, NormalGamma) and not isinstance(prior.parametrisation, Centered)


def _log_precisions(model: "BayesianNetwork", named: dict[str, Array], dtype: Any) -> dict[str, Array]:
    """Of every leaf, broadcasting against it."""
    found = {}
    for path, leaf in model.network.leaves().items():
        block = _block(model, path)
        prior: Any = block.prior
        if isinstance(prior, NormalGamma):
            found[path] = prior.log_precisions(block.hyperparameters(named), block.leaf)[-1]
            continue
        variance = prior.scale**2 / leaf.fan_in if isinstance(prior, FanInNormal) else prior.scale**2
        found[path] = jnp.full((1,) * len(leaf.shape), -jnp.log(variance), dtype)
    return found


def _output_curvature(model: "BayesianNetwork", named: dict[str, Array]) -> Array | float:
    if not isinstance(model.likelihood, Gaussian):
        return CLASS_CURVATURE
    if isinstance(model.likelihood.noise, GammaPrecision):
        return jnp.exp(named[LOG_PRECISION])
    return model.likelihood.noise**-2


def _noise_prior(model: "BayesianNetwork") -> GammaPrecision | None:
    likelihood = model.likelihood
    return (
        likelihood.noise if isinstance(likelihood, Gaussian) and isinstance(likelihood.noise, GammaPrecision) else None
    )
