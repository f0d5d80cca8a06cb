"""Section 4.1: a mixture of two normals, by HMC and by HMC in two parts that are joined."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal

import ergonet
from ergonet import HMC, NUTS, Target, partition
from ergonet.diagnostics.chains import mcse_mean
from experiments.kim2018.joining import TRUSTED, joined_anyway
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

MEANS = np.array([[0.0, 0.0], [5.0, 5.0]], np.float32)
COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]], np.float32)
CUT, TRUTH = 1.0, 2.5
NUM_DRAWS = {"full": 10_000, "quick": 4_000, "smoke": 2_000}  # of all parts together
NUM_WARMUP = {"full": 1_000, "quick": 500, "smoke": 200}
FIRST, SECOND = Quantity("mean of x", 3), Quantity("mean of y", 3)
ERROR = Quantity("its stated error, of x", 3)
ERRORS_OFF = Quantity("distance of the mean of x from the truth, in stated errors", 1)
WEIGHT, WEIGHT_ERROR = Quantity("weight of the part y >= 1", 4), Quantity("its stated error", 4)
SECONDS = Quantity("seconds of sampling", 1)
ALONE, TREES, PARTS = "HMC, 1 chain", "NUTS, 1 chain", "2 parts split at y = 1"


def log_density(q: Any) -> Any:
    """Half of a normal at each mean."""
    return logsumexp(jnp.stack([multivariate_normal.logpdf(q, mean, COVARIANCE) for mean in MEANS])) - jnp.log(2.0)


def target() -> Any:
    """The mixture."""
    return Target.from_logdensity(log_density, jnp.zeros(2))


def _off(mean: float, error: float) -> float:
    return abs(mean - TRUTH) / error if error > 0 else float("nan")


def _alone(kernel: Any) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        samples = ergonet.sample(
            target(),
            kernel(),
            num_chains=1,
            num_warmup=NUM_WARMUP[size.mode],
            num_draws=NUM_DRAWS[size.mode],
            seed=seed,
            progress=False,
        )
        values = np.asarray(samples.positions, np.float64)
        mean, error = values.mean(axis=(0, 1)), float(mcse_mean(values)[0])
        return {
            FIRST.name: mean[0],
            SECOND.name: mean[1],
            ERROR.name: error,
            ERRORS_OFF.name: _off(mean[0], error),
            SECONDS.name: samples.seconds["warmup"] + samples.seconds["sampling"],
        }

    return run


def joined(size: Size, seed: int) -> partition.Joined:
    """Both parts, joined."""
    parts = partition.split(target(), {1: CUT})
    samples = partition.sample(
        target(),
        parts,
        HMC(),
        num_chains=1,
        num_warmup=NUM_WARMUP[size.mode],
        num_draws=NUM_DRAWS[size.mode] // 2,
        seed=seed,
    )
    return joined_anyway(target(), samples, parts, seed=seed)


def _in_parts(size: Size, seed: int) -> Mapping[str, float]:
    found = joined(size, seed)
    mean, error = found.expectation(lambda part: part.positions)
    return {
        FIRST.name: mean[0],
        SECOND.name: mean[1],
        ERROR.name: error[0],
        ERRORS_OFF.name: _off(mean[0], error[0]),
        TRUSTED.name: 100 * float(not any(one.problem for one in found.masses)),
        WEIGHT.name: found.weights[1],
        WEIGHT_ERROR.name: found.weight_errors[1],
        SECONDS.name: max(part.seconds["warmup"] + part.seconds["sampling"] for part in found.parts),
    }


def cases(_: Size) -> list[Case]:
    """The document's two rows, and NUTS."""
    return [
        Case(ALONE, _alone(HMC), {FIRST.name: 3.01, SECOND.name: 2.99, SECONDS.name: 23.0}),
        Case(TREES, _alone(NUTS), {}),
        Case(PARTS, _in_parts, {FIRST.name: 2.47, SECOND.name: 2.47, SECONDS.name: 13.0}),
    ]


def judge(table: Table) -> Sequence[Claim]:
    """The conclusions of section 4.1."""
    off = {label: table.of(label, ERRORS_OFF.name) for label in table.labels}
    means = {label: table.of(label, FIRST.name) for label in table.labels}
    spread = {label: float(np.sqrt(np.mean((np.array(values) - TRUTH) ** 2))) for label, values in means.items()}
    told = ", ".join(f"{one:.1f}" for one in off[PARTS])
    return [
        Claim(
            "the joined parts have the mean (2.5, 2.5)",
            all(one < 4 for one in off[PARTS]) and len(off[PARTS]) > 0,
            f"in stated errors, by seed: {told}",
        ),
        Claim(
            "the joined parts are closer to the true mean than one chain of as many draws",
            spread[PARTS] < spread[ALONE],
            f"root mean square error of the mean of x over seeds: HMC {spread[ALONE]:.3f}, NUTS {spread[TREES]:.3f}, "
            f"2 parts {spread[PARTS]:.3f}",
        ),
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Means by seed."""
    figure, (axes,) = new_figure(6.4, 2.6)
    for place, (label, color) in enumerate(zip(table.labels, (OTHER, THESIS, OURS), strict=True)):
        values = table.of(label, FIRST.name)
        axes.errorbar(
            values, np.full(len(values), place), xerr=table.of(label, ERROR.name), fmt="o", color=color, capsize=3
        )
        theirs = table.source(label, FIRST.name)
        if theirs is not None:
            axes.plot(theirs, place, "x", color="black", ms=8)
    axes.axvline(TRUTH, color="black", lw=0.8)
    axes.set_yticks(range(len(table.labels)), table.labels)
    axes.set_ylim(-0.6, len(table.labels) - 0.4)
    axes.set_xlabel("mean of x")
    save(figure, folder / "kim-mixture.png")
    return {"kim-mixture.png": "The mean of x by seed with its stated error; crosses: the document; line: the truth"}


EXPERIMENT = Experiment(
    name="kim-mixture",
    title="Two normals in two parts, joined by bridge sampling (Kim2018, Table 4.1)",
    setting=f"""
Half N(0, S) and half N((5, 5), S), S = [[1, 0.8], [0.8, 1]]; the true mean is (2.5, 2.5). One chain of 10000 draws,
and two parts split at y = {CUT:g} with one chain of 5000 draws each; warm-ups of 1000 transitions, which the document
counts among its draws. HMC learns its length, step size and metric.
""",
    cases=cases,
    groups={
        "Means": (FIRST, SECOND, ERROR, ERRORS_OFF),
        "Parts": (WEIGHT, WEIGHT_ERROR, TRUSTED),
        "Time": (SECONDS,),
    },
    judge=judge,
    draw=draw,
    notes="""
Seconds of the parts are those of the slower part, as in the document, which leaves out the time of the weights, too.
The part y < 1 has the mass of half a normal below 1 and of the tail of the other one, 0.42068.
""",
    in_words=lambda size: f"{size.num_seeds} seeds of {NUM_DRAWS[size.mode]} draws after {NUM_WARMUP[size.mode]}",
)
