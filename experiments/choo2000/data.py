"""The eight rows of Table 5.1, the function that generated them, and the network with the priors of Table 5.6."""

from collections.abc import Mapping

import numpy as np

import ergonet
from ergonet import likelihoods, priors
from ergonet.models.network_posterior import NetworkPosterior

ROWS = np.array(
    [
        [5.8964216e-01, 7.5148380e-01, 1.9992522e00],
        [9.1368690e-01, 4.7461198e-01, 2.4043475e00],
        [4.5180698e-02, -7.2696252e-01, 9.3298996e-01],
        [7.6028441e-01, -9.7648663e-01, 5.4781275e-01],
        [-6.5408772e-01, 7.8779593e-01, 1.9858707e-01],
        [9.5949379e-01, -6.0172387e-01, 4.6687881e-01],
        [-4.5710548e-01, -4.0255398e-01, 6.4682705e-03],
        [-4.9534131e-01, 3.2288515e-01, -1.7153228e-01],
    ],
    np.float32,
)
"""Inputs x and y, and the output z."""

ALPHA = 0.5
NOISE_WIDTH = 0.10
WIDTHS = {"u": 1.00, "a": 1.00, "b": 0.80}
WIDTH_OF_V = {8: 0.45, 12: 0.37, 16: 0.32, 20: 0.285}
LEAVES = {"u": "layers.0.weight", "a": "layers.0.bias", "v": "layers.1.weight", "b": "layers.1.bias"}
"""The thesis's letters for the groups of weights, in the order of the position."""

NOISE = "noise"
GROUPS = (NOISE, "u", "v", "a", "b")
"""The five hyperparameters in the order of the thesis's tables; the noise is its delta."""

IN_G = ("noise", "u", "v", "a")
"""The groups in the geometric mean g (equation 5.8)."""


def surface(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The function behind the rows, equation 5.1."""
    return 0.3 + 1.2 * x + 0.7 * (y - 0.2) ** 2 + 2.3 * y * (x + 0.1) ** 2


def widths(units: int) -> Mapping[str, float]:
    """omega^-1/2 by group, Table 5.6."""
    return {NOISE: NOISE_WIDTH, "v": WIDTH_OF_V[units], **WIDTHS}


def target(units: int, *, is_centered: bool) -> NetworkPosterior:
    """The posterior of a network with one tanh layer, in the centered or the non-centered parametrization."""
    parametrization = "centered" if is_centered else "non-centered"
    prior = {
        leaf: priors.NormalGamma(widths(units)[group], ALPHA, "leaf", parametrization) for group, leaf in LEAVES.items()
    }
    noise = likelihoods.GammaPrecision(NOISE_WIDTH, ALPHA)
    network = ergonet.MLP((2, units, 1), activation="tanh")
    model = ergonet.BayesianNetwork(network, prior, likelihoods.Gaussian(noise=noise))
    return model.condition(ROWS[:, :2], ROWS[:, 2])


def log_sigmas(samples: ergonet.Samples) -> np.ndarray:
    """The five log standard deviations of every draw, `[chain, draw, group]`, in the order of `GROUPS`."""
    named = samples.parameters()
    found = [np.asarray(named[coordinate(group)], np.float64) for group in GROUPS]
    return np.stack([-0.5 * one.reshape(one.shape[:2]) for one in found], axis=-1)


def coordinate(group: str) -> str:
    """Path of a group's log precision."""
    return "likelihood.log_precision" if group == NOISE else f"prior.{LEAVES[group]}.log_precision"


def sizes(units: int) -> Mapping[str, int]:
    """Weights of each group, in the order of the position."""
    return {"u": 2 * units, "a": units, "v": units, "b": 1}


def non_centered(positions: np.ndarray, units: int) -> np.ndarray:
    """States of the centered target in the coordinates of the non-centered target.

    Args:
        positions: positions of the centered target `[..., dim]`: the weights, the log precisions of their groups,
            and the log precision of the noise.
        units: number of hidden units.
    """
    moved, start = np.array(positions), 0
    first = sum(sizes(units).values())
    for number, size in enumerate(sizes(units).values()):
        log_precision = positions[..., first + number, None]
        moved[..., start : start + size] = positions[..., start : start + size] * np.exp(0.5 * log_precision)
        start += size
    return moved
