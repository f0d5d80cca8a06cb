"""Figure 4: error of the covariance against autocorrelation time, for SGHMC and SGLD on a correlated Gaussian."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import SGHMC, SGLD, noise_models
from ergonet.diagnostics.chains import ess_bulk
from experiments.chen2014.noisy import noisy
from experiments.pictures import OTHER, OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

COVARIANCE = np.array([[1.0, 0.9], [0.9, 1.0]])
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
RATES = (0.16, 0.08, 0.04, 0.02, 0.01)
DECAY = 0.3
NUM_STEPS = {"full": 100_000, "quick": 20_000, "smoke": 400}
TIME = Quantity("autocorrelation time, steps", 1)
ERROR = Quantity("covariance error", 4)
KERNELS: dict[str, Any] = {
    "SGHMC": lambda rate: SGHMC(
        learning_rate=rate,
        momentum_decay=DECAY,
        noise=noise_models.GivenNoise(1.0),
        batch_size=1,
        steps_per_draw=1,
    ),
    "SGLD": lambda rate: SGLD(learning_rate=rate, batch_size=1, steps_per_draw=1),
}


def gaussian(q: jax.Array) -> jax.Array:
    """The potential q' C^-1 q / 2."""
    return 0.5 * q @ PRECISION @ q


def label(kernel: str, rate: float) -> str:
    """The label of a row."""
    return f"{kernel}, learning rate {rate:g}"


def _measure(kernel: str, rate: float) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        samples = ergonet.sample(
            noisy(gaussian, 2, 1.0),
            KERNELS[kernel](rate),
            num_chains=size.num_chains,
            num_warmup=min(2000, NUM_STEPS[size.mode]),
            num_draws=NUM_STEPS[size.mode],
            seed=seed,
            progress=False,
        )
        values = np.asarray(samples.positions)
        found = np.einsum("cdi,cdj->ij", values, values) / values[..., 0].size
        return {
            TIME.name: float(values[..., 0].size / np.mean(ess_bulk(values))),
            ERROR.name: float(np.mean(np.abs(found - COVARIANCE))),
        }

    return run


def cases(_: Size) -> list[Case]:
    """Both kernels at every learning rate."""
    return [Case(label(kernel, rate), _measure(kernel, rate)) for kernel in KERNELS for rate in RATES]


def judge(table: Table) -> Sequence[Claim]:
    """Whether SGHMC is at least as accurate and decorrelates faster than each SGLD."""
    at = {
        kernel: [tuple(table.mean(label(kernel, rate), one.name) for one in (TIME, ERROR)) for rate in RATES]
        for kernel in KERNELS
    }
    beaten = sum(any(t < time and e <= error for t, e in at["SGHMC"]) for time, error in at["SGLD"])
    faster = [f"{sghmc[0]:.0f} against {sgld[0]:.0f}" for sghmc, sgld in zip(at["SGHMC"], at["SGLD"], strict=True)]
    return [
        Claim(
            "SGHMC decorrelates faster than SGLD at equal or smaller error of the covariance",
            beaten == len(RATES),
            f"{beaten} of {len(RATES)} settings of SGLD are beaten in both; autocorrelation times at equal learning "
            f"rates: {', '.join(faster)} steps",
        )
    ]


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Error against autocorrelation time."""
    figure, (axes,) = new_figure(6.0, 4.0)
    for kernel, color in zip(KERNELS, (OURS, OTHER), strict=True):
        points = [[table.mean(label(kernel, rate), one.name) for one in (TIME, ERROR)] for rate in RATES]
        axes.plot(*np.transpose(points), "o-", color=color, label=kernel)
    axes.set(xscale="log", yscale="log", xlabel="autocorrelation time, steps", ylabel="mean error of the covariance")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    save(figure, folder / "sghmc-sgld.png")
    return {"sghmc-sgld.png": "Five learning rates of each kernel, means over seeds; lower left is better"}


EXPERIMENT = Experiment(
    name="sghmc-sgld",
    title="SGHMC against SGLD on a correlated Gaussian (ChenReport, Figure 4)",
    setting="Two coordinates of variance 1 and correlation 0.9; gradient noise N(0, I). Learning rates "
    f"{', '.join(map(str, RATES))} for both (l of `q += -l grad`, which is e / 2 in the report, for SGLD; e^2 for "
    f"SGHMC), momentum decay {DECAY:g} and the known noise "
    "for SGHMC: the report prints none of them. Every step is a draw; autocorrelation time: draws / ESS. "
    "Full size: 3 seeds of 4 chains of 100000 steps.",
    cases=cases,
    groups={"Draws": (TIME, ERROR)},
    judge=judge,
    draw=draw,
    notes="Part of the error of the covariance is due to the finite number of draws: about the square root of time / "
    "draws.",
    in_words=lambda size: f"{size.num_seeds} seeds of {size.num_chains} chains of {NUM_STEPS[size.mode]} steps",
)
