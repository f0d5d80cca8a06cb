"""Figure 3: positions and momenta of a harmonic oscillator under noisy gradients, resampling and friction."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import SGHMC, NaiveSGHMC, noise_models
from experiments.chen2014.noisy import bowl, noisy
from experiments.pictures import OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

STEP_SIZE, FRICTION, SD, RESAMPLED, SHOWN = 0.1, 3.0, 2.0, 50, 360
NUM_STEPS = {"full": 15_000, "quick": 15_000, "smoke": 600}
Q_VARIANCE, R_VARIANCE = Quantity("mean q^2", 3), Quantity("mean r^2", 3)
LATE = Quantity("mean energy of the last tenth", 3)
EXACT, NOISY, REFRESHED, FRICTIONAL = "exact gradient", "noisy", "noisy, resampled every 50", "noisy, with friction"
NEVER = 10**9
START = 2**0.5  # a momentum of the mean energy


class Pace(eqx.Module):
    """The step size and step number in the form that kernels take."""

    step_size: jax.Array
    number: jax.Array


METHODS: dict[str, tuple[Any, float]] = {
    EXACT: (NaiveSGHMC(learning_rate=STEP_SIZE**2, num_steps=NEVER, batch_size=1), 0.0),
    NOISY: (NaiveSGHMC(learning_rate=STEP_SIZE**2, num_steps=NEVER, batch_size=1), SD),
    REFRESHED: (NaiveSGHMC(learning_rate=STEP_SIZE**2, num_steps=RESAMPLED, batch_size=1), SD),
    FRICTIONAL: (
        SGHMC.from_friction(step_size=STEP_SIZE, friction=FRICTION, noise=noise_models.GivenNoise(SD**2), batch_size=1),
        SD,
    ),
}


@cache
def path(method: str, num_steps: int, seed: int) -> np.ndarray:
    """Positions and momenta `[step, 2]`, from q = 0 and r = `START`."""
    kernel, sd = METHODS[method]
    target = noisy(bowl, 1, sd)
    key = jax.random.key(seed)
    rate = jnp.asarray(STEP_SIZE**2)

    def step(carry: tuple[Any, Any], number: jax.Array) -> tuple[Any, jax.Array]:
        state, rows = carry
        chosen = rows[jax.random.randint(jax.random.fold_in(key, 2 * number), (1,), 0, len(rows))]
        state, _ = kernel.step(jax.random.fold_in(key, 2 * number + 1), target, state, chosen, Pace(rate, number))
        return (state, rows), jnp.concatenate([state.position, state.velocity / STEP_SIZE])

    state = kernel.init(jax.random.fold_in(key, NEVER), target, jnp.zeros(1), rate)
    state = eqx.tree_at(lambda state: state.velocity, state, STEP_SIZE * jnp.full(1, START))
    numbers = 1 + jnp.arange(num_steps)  # a momentum would be drawn at step 0
    _, found = jax.jit(partial(jax.lax.scan, step))((state, target.rows()), numbers)
    return np.asarray(found)


def _measure(method: str) -> Any:
    def run(size: Size, seed: int) -> Mapping[str, float]:
        q, r = path(method, NUM_STEPS[size.mode], seed).T
        late = slice(-len(q) // 10, None)
        return {
            Q_VARIANCE.name: float(np.mean(q**2)),
            R_VARIANCE.name: float(np.mean(r**2)),
            LATE.name: float(np.mean(0.5 * q[late] ** 2 + 0.5 * r[late] ** 2)),
        }

    return run


def judge(table: Table) -> Sequence[Claim]:
    """The report's conclusions."""
    energy = {method: table.mean(method, LATE.name) for method in METHODS}
    each = ", ".join(f"{name} {value:.2f}" for name, value in energy.items())
    told = f"mean energy of the last tenth: {each}; 1 is right"
    return [
        Claim("noisy gradients make the oscillator diverge", energy[NOISY] > 10, told),
        Claim("resampling the momentum mitigates that", 1.2 < energy[REFRESHED] < 0.1 * energy[NOISY], told),
        Claim("friction keeps it at the right energy", 0.8 < energy[FRICTIONAL] < 1.2, told),
    ]


def draw(_: Table, folder: Path) -> Mapping[str, str]:
    """Draw the first steps of each path."""
    figure, axes = new_figure(11.0, 3.2, columns=len(METHODS))
    for panel, method in zip(axes, METHODS, strict=True):
        q, r = path(method, min(NUM_STEPS.values()), 0)[:SHOWN].T
        panel.plot(q, r, ".", color=OURS, ms=3)
        angle = np.linspace(0, 2 * np.pi, 200)
        panel.plot(2 * np.cos(angle), 2 * np.sin(angle), color="#444444", lw=0.8)
        reach = max(3.5, 1.05 * float(np.abs([q, r]).max()))
        panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="q")
        panel.set_title(method, fontsize=9)
    axes[0].set_ylabel("r")
    save(figure, folder / "sghmc-phase.png")
    return {"sghmc-phase.png": f"The first {SHOWN} steps of each; the circle contains 86 % of the true distribution"}


EXPERIMENT = Experiment(
    name="sghmc-phase",
    title="Paths in phase space (ChenReport, Figure 3)",
    setting=f"U = q^2 / 2, step size {STEP_SIZE:g}, mass 1, gradient noise N(0, {SD**2:g}); friction {FRICTION:g} with "
    "the noise model. 15000 steps from q = 0 and r = 1.41, whose energy is the mean energy, 1; the momentum is "
    "resampled only in the row that says so.",
    cases=lambda _: [Case(method, _measure(method)) for method in METHODS],
    groups={"Moments over all steps; 1 each for the true distribution": (Q_VARIANCE, R_VARIANCE, LATE)},
    judge=judge,
    draw=draw,
    notes="With the exact gradient, the energy keeps its initial value; the path is a circle, not a sample.",
    in_words=lambda size: f"{size.num_seeds} seeds of {NUM_STEPS[size.mode]} steps",
)
