"""What the experiments share: the data, networks, the schedule of the thesis, and figures of trust."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import ergonet
from ergonet import MLP, BayesianNetwork, Samples, WarmStart, datasets, likelihoods, priors, recipes
from ergonet.baselines import Adam
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.physics import TARGET
from ergonet.prediction.trust import EXTREMES, residual_figures, standardized_residuals, trust_figures
from ergonet.prediction.units import predict_in_units
from experiments.record import Quantity
from experiments.sizes import Size

SD = Quantity("sd of the standardized residuals", 2)
MEAN = Quantity("mean of the standardized residuals", 2)
BEYOND = Quantity("residuals beyond 3, %", 2)
DISTANCE = Quantity("distance of their distribution from N(0, 1)", 3)
COVERAGES = {nominal: Quantity(f"coverage of the {nominal} % interval, %", 1) for nominal in (50, 90, 99)}
RELATIVE = Quantity("median relative error, %", 3)
STEPS = Quantity("mean leapfrog steps of a transition", 1)
ACCEPTANCE = Quantity("mean acceptance", 2)
SECONDS = Quantity("seconds of warm-up and sampling", 1)
GROUPS = {
    "Standardized residuals on the test rows": (SD, MEAN, BEYOND, DISTANCE),
    "Coverage and errors": (*COVERAGES.values(), RELATIVE),
    "Cost": (STEPS, ACCEPTANCE, SECONDS),
}
BINS = np.linspace(-5, 5, 26)  # of the residuals, whose shares are kept for the picture
INSIDE = 1.25  # largest sd of residuals that counts as inside a normal distribution
_LEVELS = (*EXTREMES, 0.05, 0.25, 0.75, 0.95)
_LEARNING_RATE, _BATCH = 1e-3, 32

SETTING = """
Inputs and the log10 of the target of `datasets.cross_section`, standardized, 80 % of the rows for training and 15 % for
testing, tanh layers with N(0, 1) priors, and learned Gaussian noise: the thesis prints neither its prior nor its noise.
Pretraining is Adam with minibatches of 32 rows and the learning rate 0.001. 20 % of the warm-up are burn-in and 80 %
learn the step size; the metric is the identity. Residuals are (truth - mean) / sd in picobarn, with the mean and the sd
of the cross section, not of its logarithm.
"""
NOTES = """
The data of the thesis come from a program that is not to be had; these are a formula of the same shape, so figures are
not comparable, only conclusions are. A model counts as *inside* a normal distribution if the sd of its standardized
residuals is at most 1.25.
"""


@dataclass(frozen=True)
class Plan:
    """How a network is sampled.

    Attributes:
        rows: rows of the data set, all parts together.
        hidden: units of its layers.
        kernel: HMC or NUTS.
        epochs: of the pretraining.
        num_warmup: transitions of the warm-up.
        num_draws: networks.
        thin: transitions for each of them.
    """

    rows: int
    hidden: tuple[int, ...]
    kernel: Any
    epochs: int
    num_warmup: int
    num_draws: int
    thin: int = 1

    @property
    def in_words(self) -> str:
        """The counts in words."""
        each = f" with {self.thin} transitions each" if self.thin > 1 else ""
        return (
            f"{self.rows} rows, {self.epochs} epochs of pretraining, {self.num_warmup} transitions of warm-up and "
            f"{self.num_draws} networks{each}"
        )


@cache
def data(rows: int) -> Dataset:
    """Training and test rows."""
    points = datasets.cross_section(rows, seed=0)
    train, test = points.frame.iloc[points.train], points.frame.iloc[points.test]
    return datasets.from_table(train, TARGET, task="regression", test_frame=test, target_transform="log10")


def network(hidden: tuple[int, ...]) -> BayesianNetwork:
    """5 inputs, tanh layers, 1 output."""
    return BayesianNetwork(MLP((5, *hidden, 1), activation="tanh"), priors.Normal(1.0), likelihoods.Gaussian())


def num_weights(hidden: tuple[int, ...]) -> int:
    """Weights and biases of a network."""
    return network(hidden).dim - 1


def fixed(num_steps: int, step_size: float | None = None) -> Any:
    """HMC with a fixed number of steps, which only learns its step size, unless that is given."""
    return ergonet.HMC(num_steps=num_steps, step_size=step_size, length_jitter=0.0, metric="identity")


def slice_nuts(max_doublings: int) -> Any:
    """The no-U-turn sampler of the thesis."""
    return ergonet.NUTS(max_doublings=max_doublings, metric="identity", criterion="original", selection="slice")


def sampled(plan: Plan, seed: int, *, num_chains: int = 1) -> Samples:
    """Draws of the schedule of the thesis."""
    chosen = data(plan.rows)
    target = network(plan.hidden).condition(chosen.x_train, chosen.y_train, reference=chosen.x_test)
    start = WarmStart(
        Adam(learning_rate=_LEARNING_RATE, batch_size=_BATCH),
        most_epochs=plan.epochs,
        patience=plan.epochs,
        validation=0.0,
    )
    return ergonet.sample(
        target,
        plan.kernel,
        num_chains=num_chains,
        num_warmup=plan.num_warmup,
        num_draws=plan.num_draws,
        thin=plan.thin,
        warmup=recipes.burn_in_then_step_size(plan.kernel.warmup(), plan.num_warmup),
        warm_start=start,
        seed=seed,
        progress=False,
        stop_when_stuck=False,
    )


def figures(samples: Samples, plan: Plan) -> dict[str, float]:
    """Trust and cost, and the shares of the residuals in each bin."""
    chosen, target = data(plan.rows), samples.require_target()
    model: Any = getattr(target, "model", None)
    found = predict_in_units(
        samples, chosen.x_test, model=model, preprocessing=chosen.preprocessing, levels=_LEVELS, y=chosen.y_test
    )
    truth = chosen.preprocessing.inverse_target(chosen.y_test)
    arrays = {"mean": found.mean, "sd": found.sd, "truth": truth, "quantiles": found.quantiles, "levels": _LEVELS}
    trust, values = trust_figures(arrays), standardized_residuals(found.mean, found.sd, truth)
    own = residual_figures(values)
    steps = np.asarray(samples.stats["n_steps"], np.float64) / plan.thin
    shares = np.histogram(np.clip(values, BINS[0], BINS[-1]), BINS)[0] / values.size
    return {
        SD.name: own.sd,
        MEAN.name: own.mean,
        BEYOND.name: 100 * own.beyond_three,
        DISTANCE.name: own.distance,
        **{one.name: 100 * trust[f"coverage_{nominal}"] for nominal, one in COVERAGES.items()},
        RELATIVE.name: 100 * trust["relative_error"],
        STEPS.name: float(steps.mean()),
        ACCEPTANCE.name: float(np.mean(samples.stats["acceptance_rate"])),
        SECONDS.name: samples.seconds["warmup"] + samples.seconds["sampling"],
        **{f"share of bin {number}": float(one) for number, one in enumerate(shares)},
    }


def measure(plan: Plan) -> Any:
    """A measurement of a case: sample and score."""

    def run(_: Size, seed: int) -> Mapping[str, float]:
        return figures(sampled(plan, seed), plan)

    return run


def draw_residuals(table: Any, axes: Any, labels: Any, colors: Any) -> None:
    """Densities of the standardized residuals of some rows beside N(0, 1)."""
    middle, width = 0.5 * (BINS[1:] + BINS[:-1]), BINS[1] - BINS[0]
    for label, color in zip(labels, colors, strict=False):
        shares = [table.mean(label, f"share of bin {number}") for number in range(len(middle))]
        axes.plot(middle, np.array(shares) / width, drawstyle="steps-mid", color=color, label=label)
    grid = np.linspace(-5, 5, 200)
    axes.plot(grid, np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi), "k--", lw=1, label="N(0, 1)")
    axes.set_xlabel("(truth - mean) / sd")
    axes.set_ylabel("density")
    axes.legend(frameon=False, fontsize=8)
