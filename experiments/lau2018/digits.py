"""The problem of chapter 4, digits of 8x8 pixels, and what is measured of a run on it.

Rows: the first 500 train, the last 500 test. Network: 64-35-10 tanh without biases, softmax, N(0, 1) on every weight.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergonet
from experiments.record import Case, Quantity
from experiments.sizes import Size

UNITS = 35
TARGET_ACCEPTANCE = 0.9

SINGLE = Quantity("error of single draws, %", 2)
SINGLE_SD = Quantity("its sd between draws, %", 2)
PREDICTIVE = Quantity("error of the posterior predictive, %", 2)
MIN_ESS = Quantity("min ESS")
MEDIAN_ESS = Quantity("median ESS")
MIN_BULK = Quantity("min bulk ESS")
MEDIAN_BULK = Quantity("median bulk ESS")
VARIANCE_ESS = Quantity("least ESS of sigma^2")
VARIANCE_BULK = Quantity("least bulk ESS of sigma^2")
DIVERGENCES = Quantity("divergences", 1)
SATURATED = Quantity("draws at the doubling limit, %", 1)
GRADIENTS_PER_DRAW = Quantity("gradients per draw")
GRADIENTS = Quantity("gradients with warm-up / 1000")
SECONDS = Quantity("seconds")

ERRORS = (SINGLE, SINGLE_SD, PREDICTIVE)
EFFECTIVE = (MIN_ESS, MEDIAN_ESS, MIN_BULK, MEDIAN_BULK)
COST = (DIVERGENCES, SATURATED, GRADIENTS_PER_DRAW, GRADIENTS, SECONDS)
GROUPS = {"Test error": ERRORS, "ESS of the weights": EFFECTIVE, "Cost": COST}
RATIOS = (MIN_ESS.name, MEDIAN_ESS.name)

SETTING = """
8x8 digits, the first 500 rows train, the last 500 test; 64-35-10 tanh, softmax, no biases, N(0, 1) on every weight
(2590 of them); chains start from the prior, 4 of 1000 + 1000 transitions at full size; target acceptance 0.9, diagonal
metric, float32, unless a row says otherwise. Two errors are reported. *Error of single draws*: the mean over all
draws of the test error of each draw, which is the quantity that matches the thesis's figures. *Error of the posterior
predictive*: the error of the averaged class probabilities, which is what a user gets.
"""

NOTES = """
Every test error that the thesis prints is a multiple of 1 / 500, as the error of a single draw is and a mean over draws
is not. A figure within a few of *our* standard deviations between draws is what a single draw may well give. ESS: of
every weight, by the variogram estimator of the thesis (its section 2.7); *bulk ESS*: by ArviZ. The thesis's values near
1340 of 4000 draws depend on its program, so ratios are more comparable than values. Seconds: warm-up and sampling,
without compilation.
"""


@dataclass(frozen=True)
class Run:
    """A run of a sampler on the digits, as a row of a table.

    Attributes:
        label: label of the row.
        kernel: the transition.
        hidden: numbers of units of the hidden layers.
        prior_scale: prior standard deviation of every weight; None: 1 / sqrt(units of the first layer).
        priors: priors by pattern of leaves, which replace `prior_scale` for these leaves.
        is_double: whether to compute in float64.
        share: share of the draws and of the warm-up, for rows that cost too much.
        most_chains: maximum number of chains, for rows that cost too much.
        source: the thesis's figures by quantity name.
    """

    label: str
    kernel: Any
    hidden: tuple[int, ...] = (UNITS,)
    prior_scale: float | None = 1.0
    priors: Mapping[str, Any] = field(default_factory=dict)
    is_double: bool = False
    share: float = 1.0
    most_chains: int = 1000
    source: Mapping[str, float] = field(default_factory=dict)

    def case(self) -> Case:
        """The row of the table."""
        return Case(self.label, self.measure, self.source)

    def measure(self, size: Size, seed: int) -> dict[str, float]:
        """Sample and score."""
        with jax.enable_x64(self.is_double):
            return score(self.sample(size, seed), self.kernel)

    def sample(self, size: Size, seed: int) -> ergonet.Samples:
        """Draws for one seed, in the precision of the caller."""
        part = size.part(self.share, self.most_chains)
        hidden = tuple(size.units(units) for units in self.hidden)
        scale = 1 / math.sqrt(hidden[0]) if self.prior_scale is None else self.prior_scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # divergences are counted in the table
            return ergonet.sample(
                target(hidden, scale, is_double=self.is_double, priors=self.priors),
                self.kernel,
                num_chains=part.num_chains,
                num_warmup=part.num_warmup,
                num_draws=part.num_draws,
                seed=seed,
                progress=False,
            )


def figures(
    single: float | None = None,
    min_ess: float | None = None,
    median_ess: float | None = None,
    seconds: float | None = None,
) -> dict[str, float]:
    """The thesis's figures by quantity name."""
    named = {SINGLE: single, MIN_ESS: min_ess, MEDIAN_ESS: median_ess, SECONDS: seconds}
    return {quantity.name: value for quantity, value in named.items() if value is not None}


@cache
def data() -> Any:
    """The digits with their split."""
    return ergonet.datasets.load("digits")


def target(
    hidden: tuple[int, ...],
    scale: float,
    *,
    is_double: bool,
    priors: Mapping[str, Any] | None = None,
) -> Any:
    """The posterior given the training rows."""
    network = ergonet.MLP((data().x_train.shape[1], *hidden, 10), activation="tanh", bias=False)
    chosen = {**(priors or {}), "*": ergonet.priors.Normal(scale)}
    model = ergonet.BayesianNetwork(network, chosen, ergonet.likelihoods.Categorical())
    dtype = np.float64 if is_double else np.float32
    return model.condition(np.asarray(data().x_train, dtype), data().y_train)


def score(samples: ergonet.Samples, kernel: Any) -> dict[str, float]:
    """All quantities of a run."""
    truth = np.asarray(data().y_test)
    dtype = samples.positions.dtype
    x_test = np.asarray(data().x_test, dtype)
    single = 100 * draw_errors(samples, x_test, truth)
    probabilities = ergonet.predict(samples, x_test).mean
    coordinates = np.asarray(samples.positions)[:, :, : samples.target.num_weights]  # type: ignore[union-attr]
    ess = ergonet.diagnostics.ess_variogram(coordinates)
    bulk = ergonet.diagnostics.ess_bulk(coordinates)
    found = {
        SINGLE.name: float(single.mean()),
        SINGLE_SD.name: float(single.std()),
        PREDICTIVE.name: 100 * float(np.mean(probabilities.argmax(axis=1) != truth)),
        MIN_ESS.name: float(np.nanmin(ess)),
        MEDIAN_ESS.name: float(np.nanmedian(ess)),
        MIN_BULK.name: float(np.nanmin(bulk)),
        MEDIAN_BULK.name: float(np.nanmedian(bulk)),
        DIVERGENCES.name: float(samples.stats["diverging"].sum()),
        GRADIENTS_PER_DRAW.name: samples.gradients["sampling"] / (samples.num_chains * samples.num_draws),
        GRADIENTS.name: sum(samples.gradients.values()) / 1000,
        SECONDS.name: samples.seconds["warmup"] + samples.seconds["sampling"],
    }
    limit = getattr(kernel, "max_doublings", None)
    if limit is not None:
        found[SATURATED.name] = 100 * float(np.mean(samples.stats["tree_depth"] >= limit))
    return found | _of_hyperparameters(samples)


def _of_hyperparameters(samples: ergonet.Samples) -> dict[str, float]:
    """Smallest ESS of the variances sigma^2 over all groups; empty if none is learned."""
    precisions = [
        values.reshape(*values.shape[:2], -1)
        for name, values in samples.parameters().items()
        if name.startswith("prior.") and name.endswith("log_precision")
    ]
    if not precisions:
        return {}
    variances = np.exp(-np.concatenate(precisions, axis=2).astype(np.float64))
    return {
        VARIANCE_ESS.name: float(np.nanmin(ergonet.diagnostics.ess_variogram(variances))),
        VARIANCE_BULK.name: float(np.nanmin(ergonet.diagnostics.ess_bulk(variances))),
    }


def draw_errors(samples: ergonet.Samples, x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Test error of each draw, a share of the rows `[chain, draw]`."""
    model: Any = samples.target.model  # type: ignore[union-attr]
    inputs = jnp.asarray(model.network.prepare(x))
    found = [_wrong(model, jnp.asarray(chain), inputs, jnp.asarray(truth)) for chain in samples.positions]
    return np.asarray(found, np.float64)


@eqx.filter_jit
def _wrong(model: Any, positions: jax.Array, inputs: jax.Array, truth: jax.Array) -> jax.Array:
    def one(position: jax.Array) -> jax.Array:
        return jnp.mean(jnp.argmax(model.outputs(position, inputs), axis=0) != truth)

    return jax.lax.map(one, positions)
