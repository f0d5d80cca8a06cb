"""Draws moved from one target to another by sequential Monte Carlo (Chopin2002, DelMoralDoucetJasra2006).

The draws of each chain are a population of their own. Between the old target and the new one stand tempered ones, whose
density is that of the old target times a power of the ratio of both. The power grows as far as the effective sample
size of the weighted draws allows; then the draws are resampled by their weights, and each is moved by transitions of
the kernel that leave the tempered target where it is. Populations stay apart, so that R-hat still compares independent
ones, and the weight of a mode that only one of them has found does not change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._keys import key_of
from ergonet._types import Array, Float
from ergonet.hamiltonian.metric import DenseMetric, DiagonalMetric
from ergonet.samplers.base import AbstractKernel, State, Tuning, run_transition
from ergonet.target.contract import AbstractTarget

LEAST_SHARE: Final = 0.5  # of the draws, that the effective sample size must have
MOST_STEPS: Final = 30  # tempered targets
MOVES: Final = 10  # transitions of each draw at each of them, half of them after the step size is corrected
LEAST_ACCEPTANCE: Final = 0.2
_BISECTIONS = 40

Draws = Float[np.ndarray, "chain draw dim"]
PerDraw = Float[np.ndarray, "chain draw"]


class NotFeasibleError(Exception):
    """The draws cannot be moved to the new target; says why, as the end of a sentence."""


@dataclass(frozen=True)
class Annealed:
    """Draws of the new target.

    Attributes:
        positions: `[chain, draw, dim]`.
        stats: statistics of the last transition of each draw, `[chain, draw]` by name, without energies, whose
            differences from draw to draw mean nothing.
        step_size: step size of each chain, `[chain]`.
        share: effective sample size of the old draws as a sample of the new target, in the worst chain, 0 to 1.
        exponents: powers of the ratio, ascending, the last one 1.
        acceptance: mean acceptance of the last transitions, in the worst chain.
        gradients: of all transitions.
    """

    positions: Draws
    stats: dict[str, np.ndarray]
    step_size: np.ndarray
    share: float
    exponents: tuple[float, ...]
    acceptance: float
    gradients: int


def anneal(
    positions: Draws,
    *,
    log_ratio: Callable[[Draws], PerDraw],
    target_at: Callable[[float], AbstractTarget],
    kernel: Any,
    tuning: Mapping[str, np.ndarray],
    seed: int,
) -> Annealed:
    """Move draws of equal weight to another target.

    Args:
        positions: draws of the old target.
        log_ratio: log of the new density over the old one, up to a constant.
        target_at: the target whose density is the old one times the ratio to a power in (0, 1].
        kernel: the kernel that the draws came from.
        tuning: its tuning by chain, as `Samples.tuning` has it.
        seed: 0 to 2^63 - 1.

    Raises:
        NotFeasibleError: the kernel or its tuning does not allow it, or too many steps or too small ones are needed.
    """
    _check(kernel, tuning)
    rng, population = np.random.default_rng(seed), _Population(kernel, tuning, np.asarray(positions))
    ratio, exponents = _finite(log_ratio(population.positions)), [0.0]
    share = float(_shares(ratio).min())
    while exponents[-1] < 1:
        if len(exponents) > MOST_STEPS:
            raise NotFeasibleError(f"more than {MOST_STEPS} tempered steps would be needed")
        power = _largest_power(ratio, 1 - exponents[-1])
        exponents.append(min(1.0, exponents[-1] + power))
        population.resample(_weights(power * ratio), rng)
        population.move(target_at(exponents[-1]), key_of(int(rng.integers(2**62))))
        ratio = _finite(log_ratio(population.positions))
    return population.annealed(share, tuple(exponents[1:]))


def _check(kernel: Any, tuning: Mapping[str, np.ndarray]) -> None:
    if not isinstance(kernel, AbstractKernel) or not kernel.is_corrected:
        raise NotFeasibleError(f"{type(kernel).__name__} has no transition that leaves a target exactly where it is")
    if not {"step_size", "num_steps", "inverse_mass_matrix"} <= set(tuning):
        raise NotFeasibleError("the run kept no step sizes and metrics")


def _finite(ratio: np.ndarray) -> np.ndarray:
    """The log ratios; minus infinity for draws at which they are no number."""
    ratio = np.asarray(ratio, np.float64)
    ratio = np.where(np.isnan(ratio), -np.inf, ratio)
    if not np.isfinite(ratio).any(axis=1).all():
        raise NotFeasibleError("no draw of a chain has a finite density")
    return ratio


def _weights(log_weights: np.ndarray) -> np.ndarray:
    """Weights by chain, whose sum is 1."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _shares(log_weights: np.ndarray) -> np.ndarray:
    """Effective sample size by chain, as a share of the draws (Kish1965)."""
    return 1 / (_weights(log_weights) ** 2).sum(axis=1) / log_weights.shape[1]


def _largest_power(ratio: np.ndarray, most: float) -> float:
    """The largest power of the ratio, at most `most`, whose weights keep half of the draws effective in every chain."""
    if _shares(most * ratio).min() >= LEAST_SHARE:
        return most
    low, high = 0.0, most
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_fine = _shares(middle * ratio).min() >= LEAST_SHARE if middle > 0 else True
        low, high = (middle, high) if is_fine else (low, middle)
    if low < most / 2**20:
        raise NotFeasibleError("the old draws have next to no weight under the new target")
    return low


class _Population:
    """Draws with their kernel and its tuning, by chain."""

    def __init__(self, kernel: AbstractKernel, tuning: Mapping[str, np.ndarray], positions: np.ndarray):
        self.positions, self._kernel = positions, kernel
        self._step_size = np.asarray(tuning["step_size"], positions.dtype).copy()
        self._num_steps, self._inverse_mass = np.asarray(tuning["num_steps"]), np.asarray(tuning["inverse_mass_matrix"])
        self._acceptance, self._gradients = np.ones(len(positions)), 0
        self._last: Any = None

    def resample(self, weights: np.ndarray, rng: np.random.Generator) -> None:
        """Draw as many by their weights, systematically, in the order they have."""
        count = weights.shape[1]
        points = (np.arange(count) + rng.uniform(size=(len(weights), 1))) / count
        chosen = [np.searchsorted(np.cumsum(one), at) for one, at in zip(weights, points, strict=True)]
        indices = np.minimum(np.stack(chosen), count - 1)
        self.positions = np.take_along_axis(self.positions, indices[:, :, None], axis=1)

    def move(self, target: AbstractTarget, key: Array) -> None:
        """Move every draw; the step size follows the acceptance of the first half of the transitions."""
        first, last = jax.random.split(key)
        self._run(target, first)
        wanted = self._kernel.warmup().target_acceptance
        self._step_size *= np.exp(np.clip(2 * (self._acceptance - wanted), -1.5, 0.5)).astype(self._step_size.dtype)
        self._run(target, last)
        if self._acceptance.min() < LEAST_ACCEPTANCE:
            raise NotFeasibleError(f"only {100 * self._acceptance.min():.0f} % of the moves were accepted")

    def _run(self, target: AbstractTarget, key: Array) -> None:
        count, found = self.positions.shape[1], []
        for chain, positions in enumerate(self.positions):
            tuning = self._tuning(target, chain)
            keys = jax.random.split(jax.random.fold_in(key, chain), count)
            found.append(jax.device_get(_moved(self._kernel, target, jnp.asarray(positions), tuning, keys)))
        states, infos, acceptance, gradients = zip(*found, strict=True)
        self.positions = np.stack([one.position for one in states])
        self._acceptance = np.array([float(np.mean(one)) for one in acceptance])
        self._gradients += int(sum(np.sum(one, dtype=np.int64) for one in gradients))
        self._last = states, infos

    def _tuning(self, target: AbstractTarget, chain: int) -> Tuning:
        inverse_mass = jnp.asarray(self._inverse_mass[chain], self.positions.dtype)
        metric = (
            DenseMetric(jnp.linalg.cholesky(inverse_mass))
            if inverse_mass.ndim > 1
            else DiagonalMetric(scale=jnp.sqrt(inverse_mass))
        )
        step_size, num_steps = jnp.asarray(self._step_size[chain]), jnp.asarray(self._num_steps[chain], jnp.int32)
        return Tuning(step_size=step_size, metric=metric, num_steps=num_steps)

    def annealed(self, share: float, exponents: tuple[float, ...]) -> Annealed:
        """The draws as they are now."""
        states, infos = self._last
        stats = {"lp": -np.stack([one.potential for one in states])}
        stats["step_size"] = np.broadcast_to(self._step_size[:, None], stats["lp"].shape).copy()
        for one in self._kernel.statistics():
            if "energy" not in one.name:
                stats[one.name] = np.stack([info[one.name] for info in infos])
        return Annealed(
            positions=self.positions,
            stats=stats,
            step_size=self._step_size,
            share=share,
            exponents=exponents,
            acceptance=float(self._acceptance.min()),
            gradients=self._gradients,
        )


@eqx.filter_jit
def _moved(
    kernel: AbstractKernel, target: AbstractTarget, positions: Array, tuning: Tuning, keys: Array
) -> tuple[State, dict[str, Array], Array, Array]:
    """Every draw after half of the transitions, the diagnostics of the last, mean acceptances and gradients."""

    def one(pair: tuple[Array, Array]) -> Any:
        position, key = pair

        def transition(carry: tuple[State, Any], key: Array) -> tuple[tuple[State, Any], tuple[Array, Array]]:
            state, info = run_transition(kernel, key, target, carry[0], tuning)
            acceptance: Any = info
            return (state, info), (acceptance.acceptance, info.gradients)

        keys = jax.random.split(key, MOVES // 2)
        first = run_transition(kernel, keys[0], target, kernel.init(target, position), tuning)
        before: Any = first[1]
        (state, info), (acceptance, gradients) = lax.scan(transition, first, keys[1:])
        total = jnp.sum(gradients) + before.gradients + 1
        return state, info.values(), (jnp.sum(acceptance) + before.acceptance) / len(keys), total

    return lax.map(one, (positions, keys))
