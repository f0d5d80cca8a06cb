"""Simulation-based calibration and Geweke's joint test, for every prior with every kernel that takes it.

Calibration: draw a position from the prior and data given it, so that the position is a draw from its own posterior.
Put it at a random place of a chain: transitions from it give the places after, and, because each kernel here is
reversible, also those before. Its rank among all places is then exactly uniform if, and only if, the kernel leaves the
posterior invariant; no chain has to mix (Gandy and Scott 2021). `GibbsHMC` is made reversible by one more Gibbs step
after each transition. Geweke's test: see `tests/statistical/geweke.py`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chisquare, norm

from benchmarks.reliability.section import Bench, Goal, Section
from ergonet import (
    HMC,
    MALA,
    NUTS,
    XHMC,
    BayesianNetwork,
    DynamicalA,
    DynamicalB,
    GibbsHMC,
    RandomWalk,
    WindowedHMC,
    likelihoods,
    priors,
)
from ergonet._errors import ErgonetError
from ergonet.samplers.base import run_transition
from ergonet.target.capabilities import GibbsBlock
from ergonet.target.contract import require
from tests.sampling import with_targets
from tests.statistical import geweke

ABOUT = """A 1-2-1 network with four rows and learned noise. Each cell has two p-values: of calibration (ranks of a
position from the prior within a chain through it, {chains} data sets x {steps} transitions) and of Geweke's joint test
({chains} chains x {steps} transitions, with new data before each). Each is the smallest p-value over all quantities
(weights, residuals, hyperparameters, the log density, sums of squares) times their number. Step sizes are those with an
acceptance of about 0.7. '-': the kernel does not take the prior."""
NUM_BINS, ACCEPTANCE, FALSE_ALARM = 16, 0.7, 0.01
COMPILER = {"xla_backend_optimization_level": 0}


def _plain(prior: priors.AbstractPrior) -> Callable[[str], BayesianNetwork]:
    return lambda _: BayesianNetwork(geweke.NETWORK, prior, likelihoods.Gaussian(geweke.NOISE))


MODELS: dict[str, Callable[[str], BayesianNetwork]] = {
    "normal": _plain(priors.Normal(1.0)),
    "fan-in normal": _plain(priors.FanInNormal(1.5)),
    "Laplace": _plain(priors.Laplace(0.7)),
    "Student-t": _plain(priors.StudentT(4.0, 0.7)),
    **geweke.MODELS,
}
PLAIN = ("normal", "fan-in normal", "Laplace", "Student-t", "box")
HEAVY = (*geweke.HEAVY, "Student-t")
ROWS = [
    *((name, "non-centered") for name in PLAIN),
    *((name, way) for name in MODELS if name not in PLAIN for way in ("centered", "non-centered")),
]
_FIXED: dict[str, Any] = {"step_size": 0.1, "metric": "identity"}
KERNELS: dict[str, Any] = {
    "NUTS": NUTS(max_doublings=4, **_FIXED),
    "HMC": HMC(num_steps=5, **_FIXED),
    "windowed": WindowedHMC(2, num_steps=5, **_FIXED),
    "XHMC": XHMC(max_doublings=4, **_FIXED),
    "MALA": MALA(**_FIXED),
    "random walk": RandomWalk(**_FIXED),
    "Gibbs, HMC": GibbsHMC(HMC(num_steps=5, **_FIXED)),
    "A": DynamicalA(5, step_size=0.1),
    "B": DynamicalB(5, step_size=0.1),
}


@dataclass(frozen=True)
class Cell:
    """A prior with a kernel: p-values of both tests, the step size, and the mean acceptance there."""

    calibration: float
    joint: float
    step_size: float
    acceptance: float


def measure(bench: Bench) -> Section:
    """Both tests of every cell."""
    chains, steps = bench.size(1024, 256), bench.size(63, 31)
    rows = ROWS if not bench.is_quick else [("normal", "non-centered"), ("leaf", "centered")]
    kernels = KERNELS if not bench.is_quick else {name: KERNELS[name] for name in ("NUTS", "Gibbs, HMC")}
    cells = [(row, kernel) for row in rows for kernel in kernels]

    def one(cell: tuple[tuple[str, str], str]) -> Cell | None:
        (name, way), kernel = cell
        found = both_tests(name, way, KERNELS[kernel], chains=chains, steps=steps)
        bench.say(f"    {name}, {way}, {kernel}: {found}")
        return found

    with ThreadPoolExecutor(bench.workers) as pool:
        found = dict(zip(cells, pool.map(one, cells), strict=True))
    values = [p for cell in found.values() if cell is not None for p in (cell.calibration, cell.joint)]
    smallest, bound = min(values), FALSE_ALARM / len(values)
    low = sum(p < 0.05 for p in values)
    goals = [
        Goal(f"smallest of {len(values)} p-values", f"{smallest:.2g}", f"> {bound:.2g}", smallest > bound),
        Goal("p-values below 0.05", str(low), "0.05 of all, or fewer", low <= _most_low(len(values))),
    ]
    table = [
        [f"{name}, {way}" if name not in PLAIN else name, *(_shown(found[(name, way), kernel]) for kernel in kernels)]
        for name, way in rows
    ]
    accepted = [cell.acceptance for cell in found.values() if cell is not None]
    notes = [f"Mean acceptances were {min(accepted):.2f} to {max(accepted):.2f}."]
    about = ABOUT.format(chains=chains, steps=steps)
    return Section("Calibration", about, goals, ("prior", *kernels), table, notes)


def _most_low(count: int) -> int:
    """The number below 0.05 that one run in a hundred exceeds, if all p-values are uniform and independent."""
    return int(np.ceil(0.05 * count + norm.isf(FALSE_ALARM) * np.sqrt(0.05 * 0.95 * count)))


def _shown(cell: Cell | None) -> str:
    return "-" if cell is None else f"{cell.calibration:.2g} / {cell.joint:.2g}"


def both_tests(name: str, way: str, kernel: Any, *, chains: int, steps: int, seed: int = 0) -> Cell | None:
    """Both tests of a kernel with a prior; None if the kernel does not take it."""
    model = MODELS[name](way)
    posterior = model.condition(geweke.INPUTS, np.zeros((len(geweke.INPUTS), 1), np.float32))
    try:
        kernel.init(posterior, model.sample_prior(jax.random.key(0)))
    except ErgonetError:
        return None
    program = jax.jit(
        jax.vmap(_chain(model, posterior, kernel, steps, is_heavy=name in HEAVY), in_axes=(0, 0, None, 0)),
        compiler_options=COMPILER,
    )

    def go(phase: int, step_size: Any, *, redraw: bool) -> Any:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), phase), chains)
        turns = np.random.default_rng([seed, phase]).integers(0, steps + 1, chains)
        sizes = np.broadcast_to(np.asarray(step_size, np.float32), chains)
        found = program(keys, sizes, np.asarray(redraw), turns.astype(np.int32))
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)

    sizes = np.geomspace(0.01, 2.0, chains)
    step_size = _suitable(sizes, go(0, sizes, redraw=False)["acceptance"])
    ranked, joint = go(1, step_size, redraw=False), go(2, step_size, redraw=True)
    values = np.concatenate([ranked["first"][:, None], ranked["seen"]], axis=1)
    mean, error = exact_moments(name)
    averages = joint["moments"]
    scores = (averages.mean(0) - mean) / np.sqrt(averages.var(0) / chains + error)
    return Cell(
        calibration=_rank_p_value(values, np.random.default_rng(seed)),
        joint=float(min(1.0, 2 * scores.size * norm.sf(np.max(np.abs(scores))))),
        step_size=step_size,
        acceptance=float(ranked["acceptance"].mean()),
    )


def _suitable(sizes: np.ndarray, acceptance: np.ndarray) -> float:
    """The step size at which the smoothed mean acceptance falls through 0.7."""
    width = max(8, len(sizes) // 16)
    smooth = np.convolve(acceptance, np.ones(width) / width, mode="valid")
    below = np.flatnonzero(smooth < ACCEPTANCE)
    index = int(below[0]) if below.size else len(smooth) - 1
    return float(sizes[index + width // 2])


def _rank_p_value(values: np.ndarray, rng: np.random.Generator) -> float:
    """The p-value of the ranks of the first value, of every quantity, among all; `[data set, place, quantity]`."""
    first, rest = values[:, :1], values[:, 1:]
    ties = (rest == first).sum(axis=1)
    ranks = (rest < first).sum(axis=1) + rng.integers(0, ties + 1)
    bins = ranks * NUM_BINS // values.shape[1]
    p_values = [float(chisquare(np.bincount(one, minlength=NUM_BINS)).pvalue) for one in bins.T]
    return min(1.0, len(p_values) * min(p_values))


def _chain(model: Any, posterior: Any, kernel: Any, steps: int, *, is_heavy: bool) -> Callable[..., dict[str, Any]]:
    """A chain from a draw of the prior; it starts there once more at `turn`, and data are drawn anew if `redraw`."""

    def seen_at(given: Any, position: Any) -> Any:
        values = geweke.quantities(given, position, is_heavy=is_heavy)
        return jnp.concatenate([values[: values.size // 2], given.potential(position)[None]])

    def chain(key: Any, step_size: Any, redraw: Any, turn: Any) -> dict[str, Any]:
        key_truth, key_data, key_steps = jax.random.split(key, 3)
        truth = model.sample_prior(key_truth)
        start = geweke.with_data(posterior, key_data, truth)
        tuning = eqx.tree_at(lambda one: one.step_size, kernel.tuning(posterior, truth), step_size)

        def step(carry: Any, numbered: Any) -> Any:
            number, key = numbered
            key_fresh, key_move, key_gibbs = jax.random.split(key, 3)
            position, data = carry
            position = jnp.where((number == turn) & ~redraw, truth, position)
            fresh = geweke.with_data(start, key_fresh, position)
            data = jnp.where(redraw, fresh.targets, data)
            given = with_targets(start, data)
            info: Any
            state, info = run_transition(kernel, key_move, given, kernel.init(given, position), tuning)
            position = _palindromic(kernel, key_gibbs, given, state.position)
            moments = geweke.quantities(given, position, is_heavy=is_heavy)
            return (position, data), (seen_at(given, position), moments, info.acceptance)

        numbered = jnp.arange(steps), jax.random.split(key_steps, steps)
        _, (seen, moments, acceptance) = jax.lax.scan(step, (truth, start.targets), numbered)
        average = moments.mean(axis=0)
        return {"first": seen_at(start, truth), "seen": seen, "moments": average, "acceptance": acceptance.mean()}

    return chain


def _palindromic(kernel: Any, key: Any, given: Any, position: Any) -> Any:
    """Gibbs, update, Gibbs is reversible; all other kernels are already."""
    if not isinstance(kernel, GibbsHMC):
        return position
    block = require(given, GibbsBlock, "GibbsHMC")
    return jnp.concatenate([position[: block.num_weights], block.draw(key, position)])


@cache
def exact_moments(name: str, num_draws: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Means of the quantities of the joint test under the prior, and the variances of these means."""
    model = MODELS[name]("non-centered")
    posterior = model.condition(geweke.INPUTS, np.zeros((len(geweke.INPUTS), 1), np.float32))

    def joint(key: Any) -> Any:
        first, second = jax.random.split(key)
        position = model.sample_prior(first)
        return geweke.quantities(geweke.with_data(posterior, second, position), position, is_heavy=name in HEAVY)

    keys = jax.random.split(jax.random.key(1000), num_draws)
    draws = np.asarray(jax.jit(jax.vmap(joint), compiler_options=COMPILER)(keys), np.float64)
    return draws.mean(axis=0), draws.var(axis=0) / num_draws
