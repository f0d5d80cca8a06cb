"""Symmetries of a multilayer perceptron, and a region that holds one of all equal copies of its posterior.

Hidden units of a layer can be permuted, and their signs flipped if the activation is odd, without any change of the
function. If the prior does not change either, the posterior of n units has n! 2^n equal copies. The region has the
position, of all copies, whose units of a layer match given ones best; layers are matched from the inputs on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ergonet.models.network import MLP, Leaf
from ergonet.models.network_posterior import AbstractNetworkPosterior
from ergonet.models.registry import ACTIVATIONS
from ergonet.partition.proposal import Points
from ergonet.target.contract import AbstractTarget

ROUNDS = 4  # of matching units and averaging them
PROBES = 4  # positions at which a symmetry is checked
RELATIVE, ABSOLUTE = 1e-5, 1e-3  # differences of potentials that rounding explains

Potentials = Callable[[Points], Float[np.ndarray, "point"]]


@dataclass(frozen=True)
class Layers:
    """Where the weights of a multilayer perceptron are in a position.

    Attributes:
        starts: where each leaf begins, by path.
        leaves: leaves by path.
        hidden: numbers of hidden units by layer.
        is_odd: whether signs can be flipped, too.
    """

    starts: dict[str, int]
    leaves: dict[str, Leaf]
    hidden: tuple[int, ...]
    is_odd: bool

    @staticmethod
    def of(network: MLP, *, is_odd: bool) -> "Layers":
        """Those of a network."""
        starts, start = {}, 0
        for path, leaf in network.leaves().items():
            starts[path] = start
            start += leaf.size
        return Layers(starts, dict(network.leaves()), network.sizes[1:-1], is_odd)

    @property
    def log_copies(self) -> float:
        """Log of the number of equal copies."""
        signs = math.log(2) if self.is_odd else 0.0
        return sum(math.lgamma(units + 1) + units * signs for units in self.hidden)

    def leaf(self, points: Points, path: str) -> np.ndarray:
        """A leaf `[point, ...]`, as a view."""
        leaf, start = self.leaves[path], self.starts[path]
        return points[:, start : start + leaf.size].reshape(len(points), *leaf.shape)

    def units(self, points: Points, layer: int) -> Float[np.ndarray, "point unit feature"]:
        """What enters each hidden unit of a layer, and what leaves it if that is the last one."""
        found = self.incoming(points, layer)
        if layer < len(self.hidden) - 1:
            return found
        return np.concatenate([found, np.swapaxes(self.leaf(points, f"layers.{layer + 1}.weight"), 1, 2)], axis=2)

    def incoming(self, points: Points, layer: int) -> Float[np.ndarray, "point unit feature"]:
        """What enters each hidden unit of a layer: weights, and its bias if there are any."""
        found = [self.leaf(points, f"layers.{layer}.weight")]
        if f"layers.{layer}.bias" in self.leaves:
            found.append(self.leaf(points, f"layers.{layer}.bias")[:, :, None])
        return np.concatenate(found, axis=2)

    def scaled(self, points: Points, layer: int, factors: np.ndarray) -> Points:
        """Multiply what enters each unit of a layer by `factors[point, unit]`, and divide what leaves it."""
        scaled = points.copy()
        for path in (f"layers.{layer}.weight", f"layers.{layer}.bias"):
            if path in self.leaves:
                leaf = self.leaf(points, path)
                self._write(scaled, path, leaf * factors.reshape(*factors.shape, *[1] * (leaf.ndim - 2)))
        after = f"layers.{layer + 1}.weight"
        self._write(scaled, after, self.leaf(points, after) / factors[:, None, :])
        return scaled

    def moved(self, points: Points, layer: int, order: np.ndarray, signs: np.ndarray) -> Points:
        """Put unit `order[point, slot]`, times `signs[point, slot]`, into each slot of a layer."""
        moved, rows = points.copy(), np.arange(len(points))[:, None]
        for path in (f"layers.{layer}.weight", f"layers.{layer}.bias"):
            if path in self.leaves:
                leaf = self.leaf(points, path)[rows, order]
                self._write(moved, path, leaf * signs.reshape(*signs.shape, *[1] * (leaf.ndim - 2)))
        after = f"layers.{layer + 1}.weight"
        columns = np.swapaxes(self.leaf(points, after), 1, 2)[rows, order] * signs[:, :, None]
        self._write(moved, after, np.swapaxes(columns, 1, 2))
        return moved

    def _write(self, points: Points, path: str, values: np.ndarray) -> None:
        start = self.starts[path]
        points[:, start : start + self.leaves[path].size] = values.reshape(len(points), -1)

    def shuffled(self, points: Points, rng: np.random.Generator) -> Points:
        """A random copy of each point."""
        for layer, units in enumerate(self.hidden):
            order = np.stack([rng.permutation(units) for _ in points])
            signs = rng.choice([-1, 1], order.shape) if self.is_odd else np.ones_like(order)
            points = self.moved(points, layer, order, signs.astype(points.dtype))
        return points


@dataclass(frozen=True)
class OneCopy:
    """The region of the positions whose units match given ones better than those of any copy do.

    Attributes:
        layers: of the network.
        wanted: `[slot, feature]` for each hidden layer.
    """

    layers: Layers
    wanted: tuple[np.ndarray, ...]

    @staticmethod
    def around(layers: Layers, points: Points) -> "OneCopy":
        """Match units to those of a draw, then to the means of the matched draws, in units of their variances."""
        copies, region = points, None
        for number in range(ROUNDS):
            shown = copies[-1:] if number == 0 else copies
            units = [layers.units(shown, layer).astype(np.float64) for layer in range(len(layers.hidden))]
            spread = [1.0 if number == 0 else one.var(axis=0) + 1e-12 for one in units]
            region = OneCopy(layers, tuple(one.mean(axis=0) / width for one, width in zip(units, spread, strict=True)))
            copies = region.copies(points)
        assert region is not None
        return region

    def copies(self, points: Points) -> Points:
        """The copy of each point that is in the region."""
        for layer, wanted in enumerate(self.wanted):
            points = self.layers.moved(points, layer, *self._match(points, layer, wanted))
        return points

    def contains(self, positions: Points) -> np.ndarray:
        """Whether positions `[point, dim]` are their own copies."""
        return np.all(self.copies(positions) == positions, axis=1)

    def _match(self, points: Points, layer: int, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.optimize import linear_sum_assignment

        likeness = np.einsum("puf,sf->psu", self.layers.units(points, layer).astype(np.float64), wanted)
        size = np.abs(likeness) if self.layers.is_odd else likeness
        order = np.stack([linear_sum_assignment(one, maximize=True)[1] for one in size])
        if not self.layers.is_odd:
            return order, np.ones(order.shape, points.dtype)
        chosen = np.take_along_axis(likeness, order[:, :, None], axis=2)[:, :, 0]
        return order, np.where(chosen < 0, -1, 1).astype(points.dtype)


def symmetry_of(target: AbstractTarget, draws: Points, potentials: Potentials) -> Layers | None:
    """The symmetry of a target, checked at some draws; None if it has none that is known.

    Args:
        target: what was sampled.
        draws: `[point, dim]`.
        potentials: the target's potential, up to a constant.
    """
    if not isinstance(target, AbstractNetworkPosterior) or not isinstance(target.model.network, MLP):
        return None
    network, rng = target.model.network, np.random.default_rng(0)
    if len(network.sizes) < 3:
        return None
    shown = draws[:: max(1, len(draws) // PROBES)][:PROBES]
    expected = potentials(shown)
    for has_signs in (True, False) if is_odd(network.activation) else (False,):
        layers = Layers.of(network, is_odd=has_signs)
        found = potentials(layers.shuffled(shown, rng))
        size = abs(float(target.potential(jnp.asarray(shown[0]))))
        if np.all(np.abs(found - expected) <= ABSOLUTE + RELATIVE * size):
            return layers
    return None


def is_odd(activation: str) -> bool:
    """Whether an activation changes its sign, and nothing else, with its input."""
    values = np.linspace(0.1, 3, 7, dtype=np.float32)
    act = ACTIVATIONS.load(activation)
    return bool(np.allclose(act(-values), -act(values), rtol=1e-5))
