"""Section 4.2: two moons by HMC and in 4, 8 and 16 parts that are joined."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, Samples, datasets, likelihoods, partition, priors
from ergonet.diagnostics.chains import ess_bulk, mcse_mean
from experiments.kim2018.joining import TRUSTED, joined_anyway
from experiments.pictures import new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

NUM_DRAWS = {"full": 20_000, "quick": 4_000, "smoke": 1_920}  # of all parts together
NUM_WARMUP = {"full": 1_000, "quick": 400, "smoke": 20}
UNITS = 5
SPLITS = {"full": (2, 3, 4), "quick": (2, 3, 4), "smoke": (2,)}
GRID = 12  # points of a map in each direction
ACCURACY = Quantity("accuracy of the posterior predictive, %", 1)
OF_MEANS = Quantity("accuracy of the mean weights, %", 1)
SECONDS = Quantity("seconds of sampling, of the slowest part", 1)
OF_ALL = Quantity("seconds of sampling, of all parts", 1)
STATED = Quantity("median stated error of a predicted log probability", 4)
ESS = Quantity("median effective draws of a prediction", 0)
EFFECTIVE = Quantity("effective number of parts", 2)
LARGEST = Quantity("largest weight", 3)
LOG_ERROR = Quantity("largest error of a log mass", 2)
OVERLAP = Quantity("smallest overlap of a proposal", 4)
THESIS = {1: (96.5, 57), 4: (95.8, 42), 8: (94.4, 23), 16: (95.2, 13)}


def network(prior_mean: float) -> BayesianNetwork:
    """2-5-5-2 tanh; the document's weights have prior mean 1."""
    assigned = {"*.weight": priors.Normal(1.0, prior_mean), "*.bias": priors.Normal(1.0)}
    return BayesianNetwork(MLP((2, UNITS, UNITS, 2)), assigned, likelihoods.Categorical())


def label(parts: int, prior_mean: float) -> str:
    """The label of a row."""
    where = "HMC" if parts == 1 else f"{parts} parts"
    return f"{where}, prior mean {prior_mean:g}"


def sampled(parts: int, prior_mean: float, size: Size, seed: int) -> Samples | partition.Joined:
    """A chain of all draws, or as many in all parts together."""
    data = datasets.load("two-moons")
    target = network(prior_mean).condition(data.x_train, data.y_train, reference=data.x_test)
    settings: dict[str, Any] = {
        "num_chains": 1,
        "num_warmup": NUM_WARMUP[size.mode],
        "num_draws": NUM_DRAWS[size.mode] // parts,
    }
    if parts == 1:
        return ergonet.sample(target, HMC(), seed=seed, progress=False, **settings)
    chosen = partition.split_at_random(target, int(math.log2(parts)), seed=seed)
    found = partition.sample(target, chosen, HMC(), seed=seed, **settings)
    return joined_anyway(target, found, chosen, seed=seed)


def _model(samples: Samples) -> BayesianNetwork:
    target: Any = samples.require_target()
    return target.model


def _accuracies(samples: Samples) -> dict[str, float]:
    data, model = datasets.load("two-moons"), _model(samples)
    probabilities = ergonet.predict(samples, data.x_test, model=model).mean
    weights = samples.weights().astype(np.float64)
    mean = np.einsum("cd,cdq->q", weights / weights.sum(), np.asarray(samples.positions, np.float64))
    outputs = np.asarray(model.outputs(jnp.asarray(mean, jnp.float32), jnp.asarray(data.x_test.T)))
    right = {ACCURACY.name: probabilities.argmax(axis=1), OF_MEANS.name: outputs.argmax(axis=0)}
    return {name: 100 * float(np.mean(found == data.y_test)) for name, found in right.items()}


def _maps(samples: Samples) -> dict[str, float]:
    """Mean and standard deviation of the probability of class 0 on a grid."""
    line = np.linspace(-2.5, 2.5, GRID, dtype=np.float32)
    points = np.stack([one.ravel() for one in np.meshgrid(line, line)], axis=1)
    found = ergonet.predict(samples, points, model=_model(samples))
    return {
        f"{kind} at {number}": float(value)
        for kind, values in (("mean", found.mean[:, 0]), ("sd", found.function_sd[:, 0]))
        for number, value in enumerate(values)
    }


def _measure(parts: int, prior_mean: float) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        found = sampled(parts, prior_mean, size, seed)
        if isinstance(found, Samples):
            errors, every = mcse_mean(found.monitor()), (found,)
            own = {ESS.name: float(np.median(ess_bulk(found.monitor())))}
            samples = found
        else:
            _, errors = found.expectation()
            every, samples = found.parts, found.samples()
            masses = found.masses
            own = {
                ESS.name: float(np.median(sum(ess_bulk(part.monitor()) for part in every))),
                EFFECTIVE.name: found.effective_parts,
                LARGEST.name: float(found.weights.max()),
                LOG_ERROR.name: max(one.error for one in masses),
                OVERLAP.name: min(one.overlap for one in masses),
                TRUSTED.name: 100 * float(not any(one.problem for one in masses)),
            }
        seconds = [one.seconds["warmup"] + one.seconds["sampling"] for one in every]
        return {
            **_accuracies(samples),
            SECONDS.name: max(seconds),
            OF_ALL.name: sum(seconds),
            STATED.name: float(np.median(errors)),
            **own,
            **(_maps(samples) if parts in (1, 4) else {}),
        }

    return run


def cases(size: Size) -> list[Case]:
    """The document's four rows, with its prior mean 1 and with 0."""
    counts = [1, *(2**splits for splits in SPLITS[size.mode])]
    return [
        Case(
            label(parts, mean),
            _measure(parts, mean),
            {OF_MEANS.name: THESIS[parts][0], SECONDS.name: THESIS[parts][1]} if mean else {},
        )
        for mean in (1.0, 0.0)
        for parts in counts
        if mean or parts in (1, 4)
    ]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.2 and of the discussion."""
    ours = [one for one in table.labels if one.endswith("prior mean 1")]
    alone, parts = ours[0], ours[1:]
    accuracy = {one: table.mean(one, ACCURACY.name) for one in ours}
    seconds = {one: table.mean(one, SECONDS.name) for one in ours}
    all_parts = [one for one in table.labels if "parts" in one]
    trusted = {one: table.mean(one, TRUSTED.name) for one in all_parts}
    ratio = {one: table.mean(one, STATED.name) / table.mean(alone, STATED.name) for one in parts}
    return [
        Claim(
            "parts predict as accurately as one chain",
            all(abs(accuracy[one] - accuracy[alone]) < 1 for one in parts),
            ", ".join(f"{one}: {value:.1f} %" for one, value in accuracy.items()),
        ),
        Claim(
            "the slowest part takes less time than the one chain of as many draws",
            all(seconds[one] < seconds[alone] for one in parts),
            ", ".join(f"{one}: {value:.0f} s" for one, value in seconds.items()),
        ),
        Claim(
            "the weights of the parts are to be trusted",
            all(one == 100 for one in trusted.values()),
            ", ".join(
                f"{one}: {value:.0f} % of the runs, largest error of a log mass {table.mean(one, LOG_ERROR.name):.2f}"
                for one, value in trusted.items()
            ),
        ),
        Claim(
            "for as many draws, the joined parts predict more precisely than one chain",
            all(one < 1 for one in ratio.values()),
            "ratio of stated errors: " + ", ".join(f"{one}: {value:.1f}" for one, value in ratio.items()),
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Maps of the probability of class 0 and of its standard deviation."""
    shown = [label(parts, 1.0) for parts in (1, 4)]
    figure, axes = new_figure(12.0, 3.2, columns=4)
    panels = [(row, kind) for row in shown for kind in ("mean", "sd")]
    for panel, (row, kind) in zip(axes, panels, strict=True):
        values = np.array([table.mean(row, f"{kind} at {number}") for number in range(GRID**2)]).reshape(GRID, GRID)
        image = panel.imshow(
            values,
            origin="lower",
            extent=(-2.5, 2.5, -2.5, 2.5),
            cmap="RdBu" if kind == "mean" else "magma",
            vmin=0,
            vmax=1 if kind == "mean" else 0.5,
        )
        panel.set_title(f"{kind}, {row.split(',')[0]}", fontsize=10)
        figure.colorbar(image, ax=panel, shrink=0.8)
    save(figure, folder / "kim-moons.png")
    return {"kim-moons.png": "Probability of class 0: its mean, and its standard deviation between draws"}


def _in_words(size: Size) -> str:
    return f"{size.num_seeds} seeds of {NUM_DRAWS[size.mode]} draws in all parts, after {NUM_WARMUP[size.mode]} in each"


EXPERIMENT = Experiment(
    name="kim-moons",
    title="Two moons in 4, 8 and 16 parts (Kim2018, Table 4.2)",
    setting="""
Two moons, 500 training and 500 test rows, a 2-5-5-2 tanh network with biases (57 weights), all inputs standardized.
Weights have prior mean 1 and variance 1 in the document, biases N(0, 1); rows with prior mean 0 are ours. At full
size one chain of 20000 draws, or as many in all parts together, one chain in each, after warm-ups of 1000 transitions;
random coordinates are split at 0. The document predicts with the mean weights.
""",
    cases=cases,
    groups={
        "Predictions": (ACCURACY, OF_MEANS, STATED, ESS),
        "Weights of the parts": (EFFECTIVE, LARGEST, LOG_ERROR, OVERLAP, TRUSTED),
        "Time": (SECONDS, OF_ALL),
    },
    judge=judge,
    draw=draw,
    notes="""
*Stated errors* are Monte Carlo standard errors of predicted log probabilities of the reference rows; those of joined
parts include the errors of the weights. They do not see modes that no chain visited.
""",
    in_words=_in_words,
)
