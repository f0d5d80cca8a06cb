"""New rows for a fitted estimator: its draws are moved to the posterior of all rows, or chains go on from them."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError, SamplingWarning
from ergonet._types import Array
from ergonet.assembly.settings import RunSettings
from ergonet.diagnostics.finding import FALLBACK
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.inference.progress import WARM_START
from ergonet.inference.run import sample
from ergonet.inference.until import Until
from ergonet.inference.updating import Annealed, NotFeasibleError, anneal
from ergonet.models.network_posterior import BayesianNetwork

MOVED, SAMPLED = "moved", "sampled"


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows as the network sees them, kept in memory for updates.

    Attributes:
        x: scaled inputs `[rows, inputs]`.
        y: scaled targets `[rows, targets]`, or class indices `[rows]`.
        weights: weights `[rows]`; None: 1.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None

    def with_new(self, new: "TrainingRows") -> "TrainingRows":
        """These rows and then the new ones."""
        weights = None
        if self.weights is not None or new.weights is not None:
            weights = np.concatenate([self.each_weight(), new.each_weight()])
        return TrainingRows(np.concatenate([self.x, new.x]), np.concatenate([self.y, new.y]), weights)

    def each_weight(self) -> np.ndarray:
        """The weight of each row, `[rows]`."""
        return np.ones(len(self.x)) if self.weights is None else self.weights

    def condition(self, model: BayesianNetwork, weights: np.ndarray | None = None) -> Any:
        """The posterior given the rows, perhaps with other weights."""
        return model.condition(self.x, self.y, weights=self.weights if weights is None else weights)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that is updated.

    Attributes:
        model: the network.
        kernel: the kernel of its run.
        run: chains and lengths of its run.
        samples: its draws.
        devices: as `sample` takes them.
        progress: as `sample` takes it.
    """

    model: BayesianNetwork
    kernel: Any
    run: RunSettings
    samples: Samples
    devices: Any
    progress: Any


def updated(fit: Fit, old: TrainingRows, new: TrainingRows, *, seed: int) -> Samples:
    """Draws given the new rows, too, with a record of how they were made in `about["update"]`.

    Raises:
        CapabilityError: there are no networks, but a linear baseline, whose posterior is not that of the network.
    """
    fallback = fit.samples.about.get(FALLBACK, {"name": WARM_START})
    if fallback["name"] != WARM_START:
        raise CapabilityError(
            f"`update` goes on from networks, and there are none. {fallback['sentence']} Fit again with all rows."
        )
    rows = old.with_new(new)
    posterior = rows.condition(fit.model)
    try:
        found = _moved(fit, old, new, seed=seed)
        samples = _as_samples(found, fit.samples, posterior)
        record = {"method": MOVED, "effective_share": found.share, "exponents": list(found.exponents)}
        record |= {"acceptance": found.acceptance}
    except (NotFeasibleError, CapabilityError) as error:  # the latter of kernels for which rows have no weights
        warnings.warn(
            f"The draws could not be moved to the new rows, because {error}. Chains were run again from the old draws.",
            SamplingWarning,
            stacklevel=4,
        )
        samples = _sampled(fit, posterior, seed=seed)
        record = {"method": SAMPLED, "reason": str(error)}
    counted = record | {"new_rows": len(new.x), "rows": len(rows.x)}
    return replace(samples, about={**samples.about, "update": counted})


def _moved(fit: Fit, old: TrainingRows, new: TrainingRows, *, seed: int) -> Annealed:
    """The draws, moved by sequential Monte Carlo."""
    if FALLBACK in fit.samples.about:
        raise NotFeasibleError("there are no draws, but the fallback of a time limit")
    if np.ptp(draw_weights(fit.samples)) > 0:
        raise NotFeasibleError("the draws have unequal weights")
    added, rows = new.condition(fit.model), old.with_new(new)

    def target_at(power: float) -> Any:
        return rows.condition(fit.model, np.concatenate([old.each_weight(), power * new.each_weight()]))

    def log_ratio(positions: np.ndarray) -> np.ndarray:
        return np.asarray(_log_likelihood(added, jnp.asarray(positions)), np.float64)

    return anneal(
        np.asarray(fit.samples.positions[...]),
        log_ratio=log_ratio,
        target_at=target_at,
        kernel=fit.kernel,
        tuning=fit.samples.tuning,
        seed=seed,
    )


@eqx.filter_jit
def _log_likelihood(posterior: Any, positions: Array) -> Array:
    """Log likelihood of all rows of a posterior, `[chain, draw]`."""
    flat = positions.reshape(-1, positions.shape[2])
    return jax.lax.map(posterior.sum_over_rows, flat).reshape(positions.shape[:2])


def _as_samples(found: Annealed, samples: Samples, posterior: Any) -> Samples:
    """The moved draws as the samples of a run."""
    return replace(
        samples,
        positions=found.positions,
        stats=found.stats,
        warmup_stats={},
        tuning={**samples.tuning, "step_size": found.step_size},
        gradients={**samples.gradients, "update": found.gradients},
        target=posterior,
        curve=None,
        running_summary=None,
    )


def _sampled(fit: Fit, posterior: Any, *, seed: int) -> Samples:
    """Draws of the run of the fit once more, which starts from the last old draw of each chain."""
    run, starts = fit.run, np.asarray(fit.samples.positions[:, -1])
    return sample(
        posterior,
        fit.kernel,
        num_chains=run.num_chains,
        num_warmup=run.num_warmup,
        num_draws=run.num_draws,
        thin=run.thin,
        init=starts[np.arange(run.num_chains) % len(starts)],
        seed=seed,
        devices=fit.devices,
        progress=fit.progress,
        until=Until.of(run.until),
    )
