"""Figures 1 and 2: Hamiltonian samplers with and without noise, friction and Metropolis correction on toy densities."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

import ergonet
from ergonet import SGHMC, NaiveSGHMC, noise_models
from experiments.chen2014.noisy import Potential, bowl, double_well, noisy
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

STEP_SIZE, FRICTION, STEPS, VARIANCE_OF_NOISE = 0.1, 3.0, 50, 4.0
BINS = np.linspace(-4.0, 4.0, 81)
DISTANCE = Quantity("total variation distance, %", 2)
EXCESS = Quantity("beyond that of as many independent draws, %", 2)
NUM_DRAWS = {"full": 20_000, "quick": 5_000, "smoke": 200}
VARIANCE = Quantity("variance", 4)
TEMPERATURE = Quantity("kinetic temperature", 3)
ACCEPTANCE = Quantity("acceptance", 3)
EXACT = {"bowl": (1.003, 1.070)}  # SGHMC's own stationary variance with and without its noise model
POTENTIALS: dict[str, Potential] = {"double well": double_well, "bowl": bowl}
EXACTLY, UNTESTED, NAIVE, NAIVE_TESTED, FRICTIONAL, BLIND = (
    "HMC",
    "HMC without test",
    "naive SGHMC",
    "naive SGHMC with test",
    "SGHMC",
    "SGHMC without noise model",
)


@dataclass(frozen=True)
class Method:
    """A sampler.

    Attributes:
        kernel: the transition; batches of one row of noise.
        noise: standard deviation of the gradient's noise.
    """

    kernel: Any
    noise: float


def _naive(*, metropolis: bool) -> NaiveSGHMC:
    return NaiveSGHMC(
        learning_rate=STEP_SIZE**2, num_steps=STEPS, metropolis=metropolis, batch_size=1, steps_per_draw=STEPS
    )


def _friction(**noise: Any) -> SGHMC:
    return SGHMC.from_friction(step_size=STEP_SIZE, friction=FRICTION, batch_size=1, steps_per_draw=STEPS, **noise)


SD = VARIANCE_OF_NOISE**0.5
METHODS = {
    EXACTLY: Method(_naive(metropolis=True), 0.0),
    UNTESTED: Method(_naive(metropolis=False), 0.0),
    NAIVE_TESTED: Method(_naive(metropolis=True), SD),
    NAIVE: Method(_naive(metropolis=False), SD),
    FRICTIONAL: Method(_friction(noise=noise_models.GivenNoise(VARIANCE_OF_NOISE)), SD),
    BLIND: Method(_friction(), SD),
}


def draws(potential: str, method: str, size: Size, seed: int) -> ergonet.Samples:
    """Chains of a method on a density."""
    chosen = METHODS[method]
    tested = chosen.kernel.metropolis if isinstance(chosen.kernel, NaiveSGHMC) else False
    num_draws = NUM_DRAWS[size.mode] // (10 if tested else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # temperatures are in the table
        return ergonet.sample(
            noisy(POTENTIALS[potential], 1, chosen.noise),
            chosen.kernel,
            num_chains=size.num_chains,
            num_warmup=100,
            num_draws=num_draws,
            seed=seed,
            progress=False,
        )


def masses(potential: str) -> np.ndarray:
    """Probability of each bin, by quadrature."""
    points = np.linspace(BINS[0], BINS[-1], 100 * (len(BINS) - 1) + 1)
    density = np.exp(-np.asarray(jax.vmap(POTENTIALS[potential])(jnp.asarray(points)[:, None]), np.float64))
    inside = 0.5 * (density[1:] + density[:-1]).reshape(len(BINS) - 1, 100).sum(axis=1)
    return inside / inside.sum()


def distance(counts: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Total variation distance of counts `[..., bin]` from probabilities `[bin]`, in percent."""
    return 50 * np.abs(counts / counts.sum(axis=-1, keepdims=True) - shares).sum(axis=-1)


def distance_of_independent(shares: np.ndarray, num_draws: int) -> float:
    """The mean total variation distance of `num_draws` independent draws, by simulation."""
    return float(distance(np.random.default_rng(0).multinomial(num_draws, shares, 200), shares).mean())


def measure(potential: str, method: str) -> Any:
    """The function that measures a row."""

    def run(size: Size, seed: int) -> Mapping[str, float]:
        result = draws(potential, method, size, seed)
        values = np.asarray(result.positions[..., 0])
        counts, shares = np.histogram(np.clip(values, BINS[0], BINS[-1]), BINS)[0], masses(potential)
        off = float(distance(counts, shares))
        tested = "acceptance_rate" in result.stats
        found = {
            DISTANCE.name: off,
            EXCESS.name: off - distance_of_independent(shares, values.size),
            VARIANCE.name: float(values.var()),
            TEMPERATURE.name: float(np.mean(result.stats["kinetic_temperature"])),
        }
        found |= {ACCEPTANCE.name: float(np.mean(result.stats["acceptance_rate"]))} if tested else {}
        return found | {f"share of bin {number}": float(one) for number, one in enumerate(counts / values.size)}

    return run


def label(potential: str, method: str) -> str:
    """The label of a row."""
    return f"{method}, {potential}"


def cases(size: Size) -> list[Case]:
    """Every method on both densities; a smoke run has one density."""
    names = list(POTENTIALS)[-1:] if size.mode == "smoke" else list(POTENTIALS)
    return [Case(label(name, method), measure(name, method)) for name in names for method in METHODS]


def _run(table: Table) -> list[str]:
    """The densities in the table."""
    return [name for name in POTENTIALS if label(name, NAIVE) in table.labels]


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusion, and a comparison with the variances predicted by theory."""
    found = []
    for name in _run(table):
        excess = {method: table.mean(label(name, method), EXCESS.name) for method in METHODS}
        finite = {method: table.mean(label(name, method), DISTANCE.name) - excess[method] for method in METHODS}
        others = max(value for method, value in excess.items() if method != NAIVE)
        is_short = max(finite.values()) > excess[NAIVE] / 2  # finite draws alone are nearly as far off
        told = ", ".join(f"{method} {value:.1f}" for method, value in excess.items())
        found.append(
            Claim(
                f"on the {name} naive SGHMC without a Metropolis correction is wrong and the others match",
                excess[NAIVE] > 2 * others or (None if is_short else False),
                f"total variation distance beyond that of as many independent draws, %: {told}",
            )
        )
    for method, exact in zip((FRICTIONAL, BLIND), EXACT["bowl"], strict=True):
        value, error = (one(label("bowl", method), VARIANCE.name) for one in (table.mean, table.error))
        found.append(
            Claim(
                f"the variance of {method} in the bowl is {exact} to 2 %, as theory gives",
                abs(value / exact - 1) < 0.02,
                f"{value:.4f} \N{PLUS-MINUS SIGN} {error:.4f}",
            )
        )
    return found


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw histograms of the draws over the densities."""
    names = _run(table)
    figure, axes = new_figure(4.5 * len(names), 3.6, columns=len(names))
    middles = 0.5 * (BINS[1:] + BINS[:-1])
    width = BINS[1] - BINS[0]
    styles = {EXACTLY: (OURS, "-"), NAIVE: (OTHER, "-"), FRICTIONAL: ("#3f7d3a", "-"), NAIVE_TESTED: ("#8a4f9e", "--")}
    for panel, name in zip(axes, names, strict=True):
        panel.fill_between(middles, masses(name) / width, color=THESIS, alpha=0.2, label="density", step="mid")
        for method, (color, line) in styles.items():
            shares = [table.mean(label(name, method), f"share of bin {number}") for number in range(len(middles))]
            panel.plot(middles, np.array(shares) / width, line, color=color, label=method, lw=1.2)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("q")
        panel.set_xlim(-2.5 if name == "double well" else -4, 2.5 if name == "double well" else 4)
    axes[0].set_ylabel("density")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    save(figure, folder / "sghmc-toy.png")
    return {"sghmc-toy.png": "Draws of four samplers and the target densities"}


EXPERIMENT = Experiment(
    name="sghmc-toy",
    title="Naive SGHMC and SGHMC on toy densities (ChenReport, Figures 1 and 2)",
    setting=f"""
U = -2 q^2 + q^4 (double well) and U = q^2 / 2 (bowl); the gradient has noise N(0, {VARIANCE_OF_NOISE:g}), and none in
the rows *HMC*. Step size {STEP_SIZE:g}, friction {FRICTION:g}, mass 1, {STEPS} steps for each draw; the report does not
print these values. Full size: 3 seeds of 4 chains of 20000 draws, a tenth of that for the rows with a Metropolis
correction (*with test*). HMC and naive SGHMC resample the momentum for each draw and take position-Verlet steps.
*SGHMC* knows the variance of the noise.
""",
    cases=cases,
    groups={"Draws": (DISTANCE, EXCESS, VARIANCE), "The runs": (TEMPERATURE, ACCEPTANCE)},
    judge=judge,
    draw=draw,
    notes="""
The report shows histograms and no figures. The exact stationary variances of SGHMC at these settings in the bowl are
1.003 with the noise model and 1.070 without. Finite draws of a perfect sampler have a nonzero distance from the
density, too, so the verdict subtracts the distance of as many independent draws; what remains for the rows with a
Metropolis correction is due to few, correlated draws.
""",
    in_words=lambda size: (
        f"{size.num_seeds} seeds of {size.num_chains} chains of {NUM_DRAWS[size.mode]} draws, a tenth of it with a test"
    ),
)
