"""The evidence of a model, the probability of its data, from draws of its posterior."""

import dataclasses
from typing import Any

import numpy as np

from ergonet._errors import CapabilityError, SettingError
from ergonet._fork import require_jax
from ergonet.draws.samples import Samples
from ergonet.partition.bridge import FEWEST_DRAWS, LogMass, evaluate, log_mass, relative_to_draws
from ergonet.partition.copies import OneCopy, symmetry_of
from ergonet.samplers.constrained import ConstrainedHMC
from ergonet.target.contract import AbstractTarget


def evidence(target: AbstractTarget, samples: Samples, *, num_proposals: int | None = None, seed: int = 0) -> LogMass:
    """Estimate the log evidence (log marginal likelihood) of a model by bridge sampling.

    It is the log of the integral of prior times likelihood, from which Bayes factors are computed. Priors, likelihoods
    and Jacobians of `BayesianNetwork` and of NumPyro programs are normalized; those of `Target.from_terms` and
    `Target.from_logdensity` count as they are written.

    The posterior of a multilayer perceptron has equal copies, made by permuting hidden units and flipping their signs,
    of which chains visit some. Draws are mapped to one copy, and its mass is multiplied by the number of copies, if the
    potential is found to be the same at copies of some draws. Modes that differ otherwise count only if the chains
    visited them in proportion.

    Args:
        target: what was sampled.
        samples: draws of it by a kernel of all rows; unadjusted kernels such as `MCLMC` pass their bias on.
        num_proposals: points drawn for each half of the draws; None: as many as it has draws, and at least 1000.
        seed: seeds the proposals, 0 to 2^63 - 1.

    Returns:
        The log evidence in nats, with its standard error.

    Raises:
        EstimateError: the estimate is not to be trusted; says why, with the number.
        CapabilityError: the draws are from a minibatch kernel, or from a part of the space.
        SettingError: the draws are too few, or of another target.
    """
    require_jax()
    if samples.is_of_minibatches:
        raise CapabilityError(
            "`evidence` needs draws of a kernel of all rows: the distribution of minibatch draws is not exactly the "
            "posterior. Use `NUTS()` or `HMC()`."
        )
    if samples.about.get("kernel") == ConstrainedHMC.__name__:
        raise CapabilityError(
            "`evidence` needs draws of the whole space, and those of `ConstrainedHMC` are from a part of it. The mass "
            "of a part is `partition.log_mass(target, samples.positions, region=...)`, and `partition.join` adds them."
        )
    draws = np.asarray(samples.positions[...])
    if draws.shape[2] != target.dim:
        raise SettingError(f"`samples` have {draws.shape[2]} coordinates, but `target` has {target.dim}.")
    if draws.shape[1] < FEWEST_DRAWS:
        raise SettingError(
            f"`evidence` needs at least {FEWEST_DRAWS} draws of each chain, got {draws.shape[1]}. Draw more: raise "
            "`num_draws`, or use `ergonet extend` for a run directory."
        )
    return _estimate(target, draws, num_proposals=num_proposals, seed=seed).trusted("The evidence")


def _estimate(target: AbstractTarget, draws: np.ndarray, **settings: Any) -> LogMass:
    relative, _ = relative_to_draws(target, draws)
    flat = draws.reshape(-1, draws.shape[2])
    layers = symmetry_of(target, flat, lambda points: -evaluate(relative, points))
    if layers is None:
        return log_mass(target, draws, **settings)
    region = OneCopy.around(layers, flat)
    found = log_mass(target, region.copies(flat).reshape(draws.shape), region=region, **settings)
    more = layers.log_copies
    return dataclasses.replace(found, value=found.value + more, halves=(found.halves[0] + more, found.halves[1] + more))
