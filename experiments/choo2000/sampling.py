"""Run a kernel from given states, without a warm-up unless it needs one."""

import warnings
from typing import Any

import numpy as np

import ergonet


def draw(
    target: ergonet.AbstractTarget,
    kernel: Any,
    positions: np.ndarray,
    *,
    num_draws: int,
    thin: int,
    seed: int,
    warmup: int = 0,
) -> ergonet.Samples:
    """Draws of one chain from each position `[chain, dim]`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rejections and divergences are in the tables
        return ergonet.sample(
            target,
            kernel,
            num_chains=len(positions),
            num_warmup=warmup,
            num_draws=num_draws,
            thin=thin,
            seed=seed,
            init=positions,
            progress=False,
            stop_when_stuck=False,  # that all proposals are rejected is in the tables
        )
