"""Many chains at once, each from a position and data that are drawn together.

Calibration: a position from the prior is a draw from the posterior given data that are drawn given it. Put it at a
random place of a chain: transitions from it give the places after, and, because the transition is reversible, also
those before. Its rank among all places is then exactly uniform if, and only if, the kernel leaves the posterior
invariant; no chain has to mix (GandyScott2021). `GibbsHMC` is made reversible by one more Gibbs step after each
transition. Geweke's test: with data drawn anew before every transition, the position keeps the distribution of the
prior (Geweke2004).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ergonet._keys import derived_seed, key_of
from ergonet._types import Array, PRNGKey
from ergonet.checking.joint import AbstractJoint, draw_all
from ergonet.samplers.base import AbstractKernel, run_transition
from ergonet.samplers.gibbs_hmc import GibbsHMC
from ergonet.target.capabilities import GibbsBlock
from ergonet.target.contract import require

ACCEPTANCE = 0.7  # at the step size that is used unless the kernel has one
SHORT = 8  # steps of a trajectory whose length would be learned
SEARCH_STEPS, STEP_SIZES = 8, (0.003, 3.0)
SMALL = 1000  # coordinates times numbers in the data
MOST_ENTRIES = 20  # of an array, evenly spaced, that are compared

Values = Float[np.ndarray, "place replica quantity"]


@dataclass(frozen=True, eq=False)
class Replicas:
    """Chains of a kernel, vectorized.

    Attributes:
        joint: what positions and data are drawn from.
        kernel: reversible; one with a Gibbs step becomes so.
        count: number of chains.
        num_steps: transitions of each.
        seed: of everything.
    """

    joint: AbstractJoint
    kernel: AbstractKernel
    count: int
    num_steps: int
    seed: int

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Names of the quantities, and how many entries of each are compared."""
        names: list[str] = []

        def arrays() -> tuple[Array, ...]:
            position, data = draw_all(self.joint, jax.random.key(0))
            found = self.joint.quantities(data, position)
            names.extend(found)  # in their order, which the keys of a returned dictionary would lose
            return tuple(found.values())

        shapes = jax.eval_shape(arrays)
        return {name: min(one.size, MOST_ENTRIES) for name, one in zip(names, shapes, strict=True)}

    @cached_property
    def _compiler(self) -> dict[str, int] | None:
        """Options of the compiler, which takes longer than what it compiles where a model is small."""
        position, data = jax.eval_shape(lambda: draw_all(self.joint, jax.random.key(0)))
        work = position.size * sum(one.size for one in jax.tree.leaves(data))
        return {"xla_backend_optimization_level": 0} if work <= SMALL else None

    @cached_property
    def _begin(self) -> Any:
        def begin(key: PRNGKey) -> tuple[Array, Any, Array]:
            position, data = draw_all(self.joint, key)
            return position, data, self._seen(data, position)

        return jax.jit(jax.vmap(begin), compiler_options=self._compiler)

    @cached_property
    def _advance(self) -> Any:
        joint, kernel = self.joint, self.kernel

        def advance(key: PRNGKey, position: Array, data: Any, step_size: Array, redraw: Array) -> Any:
            key_fresh, key_move, key_gibbs = jax.random.split(key, 3)
            fresh = joint.simulate(key_fresh, position)
            data = jax.tree.map(lambda new, old: jnp.where(redraw, new, old), fresh, data)
            given = joint.given(data)
            tuning = eqx.tree_at(lambda one: one.step_size, self.kernel.tuning(given, position), step_size)
            if "num_steps" in kernel.warmup().learned:
                tuning = eqx.tree_at(lambda one: one.num_steps, tuning, jnp.full_like(tuning.num_steps, SHORT))
            info: Any
            state, info = run_transition(kernel, key_move, given, kernel.init(given, position), tuning)
            position = _palindromic(kernel, key_gibbs, given, state.position)
            return position, data, self._seen(data, position), info.acceptance

        return jax.jit(jax.vmap(advance, in_axes=(0, 0, 0, 0, None)), compiler_options=self._compiler)

    def _seen(self, data: Any, position: Array) -> Array:
        """The quantities as one array."""
        found = [value.reshape(-1) for value in self.joint.quantities(data, position).values()]
        kept = [value[_spaced(value.size)] for value in found]
        return jnp.concatenate([value.astype(position.dtype) for value in kept])

    def starts(self, phase: int) -> tuple[Array, Any, Array]:
        """Positions, data and quantities of all replicas, drawn anew for each phase."""
        return self._begin(self._keys(phase, 0))

    def reference(self, times: int) -> Float[np.ndarray, "draw quantity"]:
        """Quantities of independent draws, `times` as many as there are replicas."""
        return np.concatenate([np.asarray(self.starts(10 + number)[2], np.float64) for number in range(times)])

    def step_size(self) -> float:
        """That of the kernel, or one at which the mean acceptance is about 0.7."""
        position, data, _ = self.starts(0)
        if "step_size" not in self.kernel.warmup().learned:
            one_position, one_data = jax.tree.map(lambda leaf: leaf[0], (position, data))
            return float(self.kernel.tuning(self.joint.given(one_data), one_position).step_size)
        sizes = np.geomspace(*STEP_SIZES, self.count)
        total = np.zeros(self.count)
        for number in range(SEARCH_STEPS):
            keys = self._keys(0, 1 + number)
            position, data, _, acceptance = self._advance(keys, position, data, np.float32(sizes), np.asarray(False))
            total += np.asarray(acceptance, np.float64)
        return _suitable(sizes, total / SEARCH_STEPS)

    def ranked(self, step_size: float) -> tuple[Values, float]:
        """Quantities of the first position, and of all others of the chain through it; and the mean acceptance."""
        truth, data, first = self.starts(1)
        turns = np.random.default_rng([self.seed, 1]).integers(0, self.num_steps + 1, self.count)
        position, seen, accepted = truth, [first], []
        for number in range(self.num_steps):
            position = jnp.where((turns == number)[:, None], truth, position)
            position, data, now, acceptance = self._step(1, number, position, data, step_size, redraw=False)
            seen.append(now)
            accepted.append(acceptance)
        return np.asarray(jnp.stack(seen), np.float64), float(np.mean(np.asarray(accepted)))

    def jointly(self, step_size: float) -> Values:
        """Quantities of chains with new data before every transition."""
        position, data, _ = self.starts(2)
        seen = []
        for number in range(self.num_steps):
            position, data, now, _ = self._step(2, number, position, data, step_size, redraw=True)
            seen.append(now)
        return np.asarray(jnp.stack(seen), np.float64)

    def _step(self, phase: int, number: int, position: Array, data: Any, step_size: float, *, redraw: bool) -> Any:
        sizes = np.full(self.count, step_size, np.float32)
        return self._advance(self._keys(phase, 1 + number), position, data, sizes, np.asarray(redraw))

    def _keys(self, phase: int, number: int) -> Array:
        key = jax.random.fold_in(jax.random.fold_in(key_of(derived_seed(self.seed, 0x5BC)), phase), number)
        return jax.random.split(key, self.count)


def _spaced(size: int) -> np.ndarray:
    """Indices of up to 20 of `size` entries."""
    return np.unique(np.linspace(0, size - 1, min(size, MOST_ENTRIES)).round().astype(int))


def _suitable(sizes: np.ndarray, acceptance: np.ndarray) -> float:
    """The step size at which the smoothed mean acceptance falls through 0.7."""
    width = max(8, len(sizes) // 16)
    smooth = np.convolve(acceptance, np.ones(width) / width, mode="valid")
    below = np.flatnonzero(smooth < ACCEPTANCE)
    index = int(below[0]) if below.size else len(smooth) - 1
    return float(sizes[index + width // 2])


def _palindromic(kernel: AbstractKernel, key: PRNGKey, given: Any, position: Array) -> Array:
    """Gibbs, update, Gibbs is reversible; all other kernels are already."""
    if not isinstance(kernel, GibbsHMC):
        return position
    block = require(given, GibbsBlock, "GibbsHMC")
    return jnp.concatenate([position[: block.num_weights], block.draw(key, position)])
