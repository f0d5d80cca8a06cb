"""Weights of chains compared once the symmetries of the network are removed.

Hidden units can be permuted without any change of the function, their signs flipped if the activation is odd, and their
incoming weights scaled up and the outgoing ones down if it is positively homogeneous (ReLU). Chains that agree about
the function may therefore disagree about every weight. Here every draw is replaced by the one of its copies that is
closest to a reference, layer by layer from the inputs on: units are matched by the sum of squared distances of their
weights (Ainsworth2023). What R-hat finds afterwards is no relabeling.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, SettingError
from ergonet._types import Array
from ergonet.comparison.sources import Source, fitted
from ergonet.diagnostics.chains import rhat
from ergonet.draws.quantities import or_equal
from ergonet.draws.samples import Samples
from ergonet.models.network import MLP
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork
from ergonet.models.registry import ACTIVATIONS
from ergonet.partition.copies import Layers, OneCopy, is_odd

Points = Float[np.ndarray, "point weight"]
FAR = 1.0  # standard deviations between the means of two chains, by which they are in different modes


@dataclass(frozen=True, eq=False)
class Alignment:
    """Draws of the weights of a network, each as the copy that is closest to a reference.

    Attributes:
        weights: the weights of the closest copies, ``[chain, draw, weight]``, with the functions of the draws.
        names: of the weights, such as ``layers.0.weight[2,1]``.
        before: R-hat of each weight as it was drawn, ``[weight]``; NaN for a single chain.
        after: R-hat of each weight of the closest copies.
        distances: between chains, ``[chain, chain]``: root mean square, over the weights, of the difference of their
            means in units of their standard deviation.
        modes: number of the mode of each chain, ``[chain]``, from 0; chains closer than one standard deviation, or
            connected by such, have the same.
        symmetries: which were removed, in words.
    """

    weights: Float[np.ndarray, "chain draw weight"]
    names: tuple[str, ...]
    before: Float[np.ndarray, "weight"]
    after: Float[np.ndarray, "weight"]
    distances: Float[np.ndarray, "chain chain"]
    modes: Int[np.ndarray, "chain"]
    symmetries: str

    def __str__(self) -> str:
        groups = [np.flatnonzero(self.modes == mode).tolist() for mode in range(int(self.modes.max()) + 1)]
        where = "; ".join(f"{'chain' if len(one) == 1 else 'chains'} {', '.join(map(str, one))}" for one in groups)
        told = "All chains are in one mode." if len(groups) == 1 else f"{len(groups)} modes: {where}."
        return (
            f"R-hat of the weights, median (worst): {_shown(self.before)} as drawn, {_shown(self.after)} without "
            f"{self.symmetries}. {told}"
        )


def align(source: Source, *, model: BayesianNetwork | None = None, reference: int | None = None) -> Alignment:
    """Match every draw to a reference, which removes the symmetries of a multilayer perceptron.

    The reference is the mean of the draws of one chain, matched to its last draw. Scales are removed only from networks
    whose activation is positively homogeneous: the weights into each unit get the norm that the reference has.

    Args:
        source: `Samples` of the posterior of a network; or a fitted estimator.
        model: the network of samples that carry none.
        reference: number of the reference chain; None: that of the highest mean log posterior, if known, else 0.

    Returns:
        The matched weights, all in memory, with R-hat before and after, and the modes of the chains.

    Raises:
        CapabilityError: the network is unknown, or not an `MLP` with a hidden layer.
        SettingError: there is no chain `reference`.
    """
    samples, network = _known(source, model)
    every = samples.weights()
    shares = or_equal(every).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    if reference is None:
        levels = samples.stats.get("lp")
        means = np.zeros(1) if levels is None else (shares * np.asarray(levels[...], np.float64)).sum(axis=1)
        reference = int(np.argmax(np.where(np.isfinite(means), means, -np.inf)))
    if not is_integer(reference) or not 0 <= reference < samples.num_chains:
        raise SettingError(f"`reference` must be a chain from 0 to {samples.num_chains - 1}, got {reference!r}.")
    mlp = network.network
    assert isinstance(mlp, MLP)  # as `_known` has checked
    drawn = _weights(samples, network)
    layers = Layers.of(mlp, is_odd=is_odd(mlp.activation))
    is_scaled = is_homogeneous(mlp.activation)
    anchor = drawn[reference, shares[reference] > 0]
    matched = closest(layers, drawn.reshape(-1, drawn.shape[2]), anchor, is_scaled=is_scaled).reshape(drawn.shape)
    distances = _distances(matched, shares)
    removed = ["order of units", *["signs"] * layers.is_odd, *["scales"] * is_scaled]
    return Alignment(
        weights=matched,
        names=_names(layers),
        before=rhat(drawn, every),
        after=rhat(matched, every),
        distances=distances,
        modes=_modes(distances < FAR),
        symmetries=" and ".join([", ".join(removed[:-1]), removed[-1]] if len(removed) > 1 else removed),
    )


def closest(
    layers: Layers, points: Points, reference: Float[np.ndarray, "draw weight"], *, is_scaled: bool = False
) -> Points:
    """The copy of each point that is closest to the mean of the reference points, once these are matched to their last.

    Args:
        layers: where the weights are in a point.
        points: weights.
        reference: weights of one chain.
        is_scaled: whether weights into a unit can be scaled.
    """
    shown, anchor, norms = points, reference, None
    if is_scaled:
        norms = _norms(layers, reference[-1:])
        shown, anchor = (_with_norms(layers, one, None) for one in (points, reference))
    last = _region(layers, anchor[-1:])
    found = _region(layers, last.copies(anchor)).copies(shown)
    return found if norms is None else _with_norms(layers, found, norms)


def is_homogeneous(activation: str) -> bool:
    """Whether an activation of twice the input is twice the activation."""
    values = np.linspace(-3, 3, 14, dtype=np.float32)
    act = ACTIVATIONS.load(activation)
    return bool(np.allclose(act(2 * values), 2 * np.asarray(act(values)), rtol=1e-5))


def _region(layers: Layers, points: Points) -> OneCopy:
    """The region of the points that are closest to the mean of these; inner products do, as copies have one norm."""
    units = [layers.units(points, layer).astype(np.float64) for layer in range(len(layers.hidden))]
    return OneCopy(layers, tuple(one.mean(axis=0) for one in units))


def _norms(layers: Layers, points: Points) -> list[np.ndarray]:
    """Norms of the weights into each unit, ``[point, unit]``, layer by layer, after scaling of the layers before."""
    found = []
    for layer in range(len(layers.hidden)):
        norm = np.sqrt(np.square(layers.incoming(points, layer).astype(np.float64)).sum(axis=2))
        found.append(np.where(norm > 0, norm, 1.0))
        points = layers.scaled(points, layer, 1 / found[-1])
    return found


def _with_norms(layers: Layers, points: Points, norms: Sequence[np.ndarray] | None) -> Points:
    """Scale the weights into each unit to norm 1, and then to given norms, without any change of the function."""
    for layer in range(len(layers.hidden)):
        norm = np.sqrt(np.square(layers.incoming(points, layer).astype(np.float64)).sum(axis=2))
        points = layers.scaled(points, layer, 1 / np.where(norm > 0, norm, 1.0))
    for layer, norm in enumerate(norms or ()):
        points = layers.scaled(points, layer, np.broadcast_to(norm, (len(points), norm.shape[1])))
    return points


def _distances(weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    means = np.einsum("cd,cdw->cw", shares, weights)
    variances = np.einsum("cd,cdw->cw", shares, np.square(weights - means[:, None]))
    apart = np.square(means[:, None] - means[None])
    spread = (variances[:, None] + variances[None]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(apart > 0, apart / spread, 0.0)  # infinite between chains that do not move
    return np.sqrt(ratio.mean(axis=2))


def _modes(near: np.ndarray) -> np.ndarray:
    from scipy.sparse.csgraph import connected_components

    return connected_components(near, directed=False)[1].astype(int)


def _known(source: Source, model: BayesianNetwork | None) -> tuple[Samples, BayesianNetwork]:
    known = fitted(source)
    target = known.samples.target
    of_target = target.model if isinstance(target, AbstractNetworkPosterior) else None
    found = model or known.model or of_target
    if found is None or not isinstance(found.network, MLP) or len(found.network.sizes) < 3:
        raise CapabilityError(
            "`align` needs draws of an `MLP` with a hidden layer, whose symmetries it knows. For samples that were "
            "loaded without their target, pass `model=`; for other networks compare predictions "
            "(`samples.convergence()`)."
        )
    return known.samples, found


def _weights(samples: Samples, model: BayesianNetwork) -> np.ndarray:
    """The weights of all draws, ``[chain, draw, weight]``, whatever the parametrization of the prior."""
    chains = [
        np.concatenate([np.asarray(_split(model, jnp.asarray(part))) for part in samples.chunks(chain, 1024)])
        for chain in range(samples.num_chains)
    ]
    return np.stack(chains)


@eqx.filter_jit
def _split(model: BayesianNetwork, positions: Array) -> Array:
    def one(position: Array) -> Array:
        weights: Any = model.split(position)[0]
        return jnp.concatenate([weights[name].reshape(-1) for name in model.network.leaves()])

    return jax.vmap(one)(positions)


def _names(layers: Layers) -> tuple[str, ...]:
    return tuple(
        f"{path}[{','.join(map(str, index))}]"
        for path, leaf in layers.leaves.items()
        for index in np.ndindex(leaf.shape)
    )


def _shown(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f"{np.median(known):.2f} ({values[~np.isnan(values)].max():.2f})" if known.size else "unknown"
