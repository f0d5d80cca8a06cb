"""One transition of every kernel, and short runs, as recorded before the code was reorganized.

`python -m tests.golden.transitions` writes the record anew. That is right only after a change that is meant to change
draws, and is an entry in the CHANGELOG: a change of structure must reproduce the record as it is.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import (
    HMC,
    MALA,
    MAMS,
    MLP,
    NUTS,
    SGHMC,
    SGLD,
    SGNUTS,
    XHMC,
    AbstractTarget,
    BayesianNetwork,
    ConstrainedHMC,
    DelayedRejectionHMC,
    DynamicalA,
    DynamicalB,
    GibbsHMC,
    NaiveSGHMC,
    RandomWalk,
    SequentialKernel,
    Target,
    WindowedHMC,
    likelihoods,
    noise_models,
    priors,
    schedules,
)
from ergonet.samplers.base import run_transition
from ergonet.samplers.stochastic.base import Pace

RECORD = Path(__file__).with_name("transitions.json")
COMPILER = {"xla_backend_optimization_level": 0}  # compiling takes longer than running
NUM_STATES = 12
NUM_WARMUP = 30
SMALLEST, LARGEST = 0.25, 4.0  # step sizes over the kernel's own, so that acceptance goes from 1 to below 0.1
MINIBATCHES, BATCH_SIZE = 8, 4


class Bananas(eqx.Module):
    """Pairs (x, y): x ~ N(0, 1), y ~ N(bend (x^2 - 1), 1)."""

    bend: Any

    def __call__(self, q):
        x, y = q[0::2], q[1::2]
        return -0.5 * jnp.sum(x**2 + (y - self.bend * (x**2 - 1)) ** 2)


def bananas() -> AbstractTarget:
    return Target.from_logdensity(Bananas(jnp.asarray(0.5)), jnp.zeros(4))


def inputs(rows: int) -> tuple[Any, Any]:
    x = np.linspace(-1.2, 1.5, rows, dtype=np.float32)[:, None]
    return x, np.sin(3 * x) + 0.25 * np.cos(11 * x)


def posterior(parametrization: str) -> Any:
    """A regression with learned precisions of weights and noise."""
    prior = priors.NormalGamma(0.8, 6.0, "incoming", parametrization)
    model = BayesianNetwork(MLP((1, 2, 1)), prior, likelihoods.Gaussian(likelihoods.GammaPrecision(0.5, 8.0)))
    return model.condition(*inputs(5))


def network() -> Any:
    """A regression with weights alone, of 16 rows."""
    model = BayesianNetwork(MLP((1, 2, 1)), priors.Normal(1.0), likelihoods.Gaussian(0.5))
    return model.condition(*inputs(16))


TARGETS: dict[str, Callable[[], Any]] = {
    "bananas": bananas,
    "centered": lambda: posterior("centered"),
    "non-centered": lambda: posterior("non-centered"),
}
FIXED = {"num_steps": 6, "step_size": 0.5}
TREE = {"max_doublings": 4, "step_size": 0.5}

# name: target, kernel, the inverse mass matrix that it is given (None: its own)
KERNELS: dict[str, tuple[str, Any, str | None]] = {
    "hmc": ("bananas", HMC(**FIXED, metric="identity"), None),
    "hmc, jitter": ("bananas", HMC(**FIXED, step_jitter=0.25, length_jitter=0.5), "diagonal"),
    "hmc, random direction": ("bananas", HMC(**FIXED, direction="random", metric="dense"), "dense"),
    "hmc, yoshida": ("bananas", HMC(**FIXED, integrator="yoshida"), None),
    "delayed rejection": ("bananas", DelayedRejectionHMC(2.0, **FIXED, step_jitter=0.25), "diagonal"),
    "delayed rejection, dense": ("bananas", DelayedRejectionHMC(**FIXED, metric="dense"), "dense"),
    "windowed": ("bananas", WindowedHMC(3, **FIXED, step_jitter=0.25), "diagonal"),
    "windowed, all states": ("bananas", WindowedHMC(7, **FIXED, metric="dense"), "dense"),
    "mams": ("bananas", MAMS(num_steps=6, step_size=1.0, step_jitter=0.25), "diagonal"),
    "mams, minimal norm": (
        "bananas",
        MAMS(num_steps=3, step_size=2.0, integrator="minimal-norm", metric="dense"),
        "dense",
    ),
    "mala": ("bananas", MALA(step_size=1.0), "diagonal"),
    "constrained, hmc": ("bananas", ConstrainedHMC(-3.0, 3.0, update=HMC(**FIXED)), "diagonal"),
    "constrained, nuts, dense": (
        "bananas",
        ConstrainedHMC(-3.0, 3.0, update=NUTS(**TREE, metric="dense")),
        "dense",
    ),
    "random walk": ("bananas", RandomWalk(step_size=1.0), "diagonal"),
    "nuts": ("bananas", NUTS(**TREE), "diagonal"),
    "nuts, dense, two-stage": ("bananas", NUTS(**TREE, metric="dense", integrator="two-stage"), "dense"),
    "nuts, slice": ("bananas", NUTS(**TREE, selection="slice"), None),
    "nuts, original, slice": ("bananas", NUTS(**TREE, criterion="original", selection="slice"), "diagonal"),
    "nuts, original": ("bananas", NUTS(**TREE, criterion="original"), None),
    "xhmc": ("bananas", XHMC(0.125, **TREE), "diagonal"),
    "xhmc, slice": ("bananas", XHMC(0.5, **TREE, selection="slice"), None),
    "gibbs, nuts": ("centered", GibbsHMC(NUTS(max_doublings=4, step_size=0.25)), "diagonal"),
    "gibbs, hmc": ("centered", GibbsHMC(HMC(num_steps=6, step_size=0.25, metric="dense")), "dense"),
    "gibbs, xhmc, curvature": ("centered", GibbsHMC(XHMC(0.125, **TREE), step_sizes="curvature"), None),
    "gibbs, windowed, curvature": ("centered", GibbsHMC(WindowedHMC(3, **FIXED), step_sizes="curvature"), None),
    "dynamical A": ("centered", DynamicalA(5, step_size=1.0, hyperparameter_splits=2), None),
    "dynamical B": ("non-centered", DynamicalB(5, step_size=1.0, hyperparameter_ratio=0.75), None),
    "nuts, joint": ("non-centered", NUTS(max_doublings=4, step_size=0.25), "diagonal"),
}
RATE = 2.0**-8
STREAM: dict[str, Any] = {"learning_rate": RATE, "batch_size": BATCH_SIZE}
TREES: dict[str, Any] = STREAM | {"momentum_decay": 0.125, "max_doublings": 3}
DECAY: dict[str, Any] = STREAM | {"momentum_decay": 0.25}
MINIBATCH_KERNELS: dict[str, Any] = {
    "sgld": SGLD(**STREAM),
    "sgld, polynomial": SGLD(**STREAM, schedule="polynomial", temperature=0.5),
    "sgld, cyclical": SGLD(**STREAM, schedule=schedules.Cyclical(period=4, exploration=0.5)),
    "sghmc": SGHMC(**DECAY),
    "sghmc, cold": SGHMC(**DECAY, temperature=0.0),
    "sghmc, estimated": SGHMC(**DECAY, noise=noise_models.EstimatedNoise(every=2), resample_every=3),
    "sghmc, given": SGHMC(**DECAY, noise=noise_models.GivenNoise(3.0), schedule="polynomial", temperature=0.5),
    "sghmc, friction": SGHMC.from_friction(step_size=0.0625, friction=4.0, mass=2.0, batch_size=BATCH_SIZE),
    "naive": NaiveSGHMC(**STREAM, num_steps=3),
    "naive, tested": NaiveSGHMC(**STREAM, num_steps=2, metropolis=True),
    "sg-nuts": SGNUTS(**TREES),
    "sg-nuts, slice": SGNUTS(**TREES, criterion="original", selection="slice"),
    "sequential": SequentialKernel(SGNUTS(**TREES), SGHMC(learning_rate=RATE / 2, batch_size=BATCH_SIZE), after=4),
}
RUNS: dict[str, tuple[str, Any]] = {
    "hmc": ("bananas", HMC(target_acceptance=0.9)),
    "nuts, dense": ("bananas", NUTS(max_doublings=4, metric="dense", target_acceptance=0.75)),
    "windowed": ("bananas", WindowedHMC(3, target_acceptance=0.9, metric="diagonal-gradient")),
}
MINIBATCH_RUNS: dict[str, Any] = {
    "sghmc": SGHMC(momentum_decay=0.125, batch_size=BATCH_SIZE, steps_per_draw=3),
    "sgld, cyclical": SGLD(**STREAM, schedule=schedules.Cyclical(period=8, exploration=0.5)),
}


def starts(dim: int) -> np.ndarray:
    """Positions `[state, dim]` that every number format represents exactly."""
    return np.round(np.random.default_rng(dim).normal(size=(NUM_STATES, dim)) * 64) / 64


def inverse_mass(kind: str, dim: int) -> Any:
    """A given inverse mass matrix: a diagonal, or a tridiagonal matrix."""
    scale = 0.5 + np.arange(dim) / dim
    return jnp.asarray(
        scale if kind == "diagonal" else np.diag(scale) + 0.125 * np.eye(dim, k=1) + 0.125 * np.eye(dim, k=-1)
    )


def transition(name: str, dtype: str) -> dict[str, Any]:
    """One transition of a kernel from each of the states, with step sizes from small to large."""
    target_name, kernel, mass = KERNELS[name]
    with jax.enable_x64(dtype == "float64"):
        target = TARGETS[target_name]()
        positions = jnp.asarray(starts(target.dim), dtype)
        tuning = kernel.tuning(target, positions[0])
        if mass is not None:
            matrix = inverse_mass(mass, target.dim).astype(dtype)
            tuning = eqx.tree_at(lambda one: one.metric, tuning, tuning.metric.with_covariance(matrix))
        factors = jnp.asarray(np.geomspace(SMALLEST, LARGEST, NUM_STATES), dtype)

        def one(key, position, factor):
            scaled = eqx.tree_at(lambda one: one.step_size, tuning, tuning.step_size * factor)
            return run_transition(kernel, key, target, kernel.init(target, position), scaled)

        keys = jax.random.split(jax.random.key(7), NUM_STATES)
        state, info = jax.jit(jax.vmap(one), compiler_options=COMPILER)(keys, positions, factors)
        return {
            "position": np.asarray(state.position),
            "potential": np.asarray(state.potential),
            "acceptance": np.asarray(info.acceptance),
            "moved": np.asarray(info.moved),
            "diverging": np.asarray(info.diverging),
            "num_steps": np.asarray(info.num_steps),
            "gradients": np.asarray(info.gradients),
        }


def minibatch_steps(name: str, dtype: str) -> dict[str, Any]:
    """Steps of a minibatch kernel, one after the other, each on its own rows."""
    kernel = MINIBATCH_KERNELS[name]
    with jax.enable_x64(dtype == "float64"):
        target = network()
        rng = np.random.default_rng(1)
        chosen = np.stack([rng.choice(target.num_rows, BATCH_SIZE, replace=False) for _ in range(MINIBATCHES)])
        minibatches = jax.tree.map(lambda leaf: leaf[chosen], target.rows())
        key, rate = jax.random.key(5), jnp.asarray(kernel.learning_rate, dtype)

        @jax.jit
        def all_(position):
            def one(state, numbered):
                number, rows = numbered
                pace = Pace(step_size=rate * kernel.schedule.factor(number), number=number)
                state, info = kernel.step(jax.random.fold_in(key, number), target, state, rows, pace)
                return state, (state.position, info.potential, info.gradients)

            state = kernel.init(jax.random.fold_in(key, 1000), target, position, rate)
            return jax.lax.scan(one, state, (jnp.arange(MINIBATCHES), minibatches))[1]

        position, potential, gradients = all_(jnp.asarray(starts(target.dim)[0], dtype))
        return {
            "position": np.asarray(position),
            "potential": np.asarray(potential),
            "gradients": np.asarray(gradients),
        }


def run(name: str, dtype: str) -> dict[str, Any]:
    """The draws of a run with everything learned, in double precision; too short for errors of rounding to grow."""
    target_name, kernel = RUNS[name]
    with jax.enable_x64(dtype == "float64"):
        target = TARGETS[target_name]()
        samples = ergonet.sample(
            target, kernel, num_chains=2, num_warmup=NUM_WARMUP, num_draws=6, seed=11, progress=False
        )
        return {"position": samples.positions, "step_size": samples.tuning["step_size"]}


def minibatch_run(name: str, dtype: str) -> dict[str, Any]:
    """The draws of a short run of a minibatch kernel."""
    with jax.enable_x64(dtype == "float64"):
        samples = ergonet.sample(
            network(), MINIBATCH_RUNS[name], num_chains=2, num_warmup=4, num_draws=12, seed=11, progress=False
        )
        return {"position": samples.positions}


GROUPS: dict[str, tuple[Callable[[str, str], dict[str, Any]], Any]] = {
    "transition": (transition, KERNELS),
    "minibatch steps": (minibatch_steps, MINIBATCH_KERNELS),
    "run": (run, RUNS),
    "minibatch run": (minibatch_run, MINIBATCH_RUNS),
}
SINGLE = {
    "transition": ("hmc, jitter", "windowed", "random walk", "nuts", "xhmc, slice", "gibbs, nuts", "dynamical A"),
    "minibatch steps": ("sgld", "sghmc, given", "naive, tested", "sg-nuts"),
    "minibatch run": tuple(MINIBATCH_RUNS),
}
CASES = [(group, name, "float32") for group, names in SINGLE.items() for name in names]
CASES += [
    (group, name, "float64") for group, (_, names) in GROUPS.items() for name in names if group != "minibatch run"
]


def found(group: str, name: str, dtype: str) -> dict[str, Any]:
    """What the code gives now."""
    return GROUPS[group][0](name, dtype)


def label(group: str, name: str, dtype: str) -> str:
    return f"{group} | {name} | {dtype}"


def as_text(values: Any) -> Any:
    """A list of numbers to 9 digits in single and 15 in double precision, of which a change is a readable diff."""
    values = np.asarray(values)
    if values.dtype.kind in "bi":
        return values.astype(int).tolist()
    digits = 9 if values.dtype == np.float32 else 15
    return np.vectorize(lambda one: float(f"{one:.{digits}g}"))(values).tolist()


def main() -> None:
    """Write the record."""
    lines = []
    for case in CASES:
        fields = {field: as_text(values) for field, values in found(*case).items()}
        lines += [
            f"{json.dumps(f'{label(*case)} | {field}')}: {json.dumps(values)}" for field, values in fields.items()
        ]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
