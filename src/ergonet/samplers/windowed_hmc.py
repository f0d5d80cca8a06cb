"""Windowed Hamiltonian Monte Carlo.

In a static trajectory of L steps, the window of the last W states is accepted against the window of the first W states
with probability min(1, sum_last e^-H / sum_first e^-H); then one state of the chosen window is drawn in proportion to
e^-H. Averaging over a window smooths the energy error, so larger steps are accepted. `window=1` is static HMC; a window
of the whole trajectory draws from all of its states. References: Neal1994; Lau2018, section 2.2.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax

from ergonet._errors import SettingError
from ergonet._numbers import integer, whole
from ergonet._types import Flag, PRNGKey
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import with_force
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, TrajectoryInfo, Tuning, WarmupNeeds
from ergonet.samplers.common import refresh
from ergonet.samplers.hmc import HMC, AbstractAroundHMC
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.uniforms import key_words
from ergonet.trajectory.windowed import FIRST, LAST, START, Windowed, WindowedTrajectory

WINDOW_KEY = 0x3C6EF372  # folded into the transition's key, so that all other draws are those of static HMC


class WindowedHMC(AbstractAroundHMC):
    """Windowed Hamiltonian Monte Carlo; see the module's docstring for the transition."""

    window: int
    static: HMC
    trajectory: Windowed

    def __init__(
        self,
        window: int = 4,
        *,
        num_steps: int | None = None,
        step_size: float | None = None,
        step_jitter: float = 0.0,
        length_jitter: float = 0.2,
        metric: str | AbstractMetric = "diagonal",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            window: number of states in each window, 1 to num_steps + 1; jitter and the learned length never make a
                trajectory too short for it.
            num_steps: number of leapfrog steps of a trajectory, at least 1; None: learned in function space,
                and shared by the chains of a run.
            step_size: the step size, above 0; None: learned.
            step_jitter: as in `HMC`.
            length_jitter: as in `HMC`.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            integrator: a name, or a `Composition`.
            target_acceptance: target acceptance of the end state, in (0, 1); the acceptance of windows is close to 1.

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_integer("WindowedHMC", "window", window, 1)
        check.require_adapted("WindowedHMC", step_size, metric, target_acceptance)
        check.require_length("WindowedHMC", num_steps, step_jitter, length_jitter)
        steps = INTEGRATORS.resolve(integrator, owner="WindowedHMC")
        self.static = HMC(
            num_steps=num_steps,
            step_size=step_size,
            step_jitter=step_jitter,
            length_jitter=length_jitter,
            metric=metric,
            integrator=steps,
            target_acceptance=target_acceptance,
        )
        if num_steps is not None and window > num_steps + 1:
            raise SettingError(
                f"`WindowedHMC(window=...)` must be at most num_steps + 1 = {num_steps + 1}, the number of "
                f"states of a trajectory, got {window}."
            )
        self.window = integer(window)
        self.trajectory = Windowed(steps)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TrajectoryInfo)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> WindowedTrajectory:
        lengths = self.static.draw_trajectory(key, state, tuning)
        window = whole(self.window)
        num_steps = jnp.maximum(lengths.num_steps, window - 1)
        window_key, draw_key = jax.random.split(jax.random.fold_in(key, WINDOW_KEY))
        return self.trajectory.begin(
            with_force(refresh(lengths.key_momentum, state), tuning.metric),
            lengths.step_size,
            num_steps=num_steps,
            window=window,
            offset=jax.random.randint(window_key, (), 0, window),
            uniform=lengths.uniform,
            uniform_key=key_words(draw_key),
        )

    def advance(self, target: AbstractDensity, trajectory: WindowedTrajectory, tuning: Tuning) -> WindowedTrajectory:
        return self.trajectory.advance(target, tuning.metric, trajectory)

    def finished(self, trajectory: WindowedTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def conclude(self, trajectory: WindowedTrajectory) -> tuple[State, TrajectoryInfo]:
        accepted = trajectory.uniform < self.trajectory.accept_probability(trajectory)
        row = jnp.where(trajectory.nonfinite, START, jnp.where(accepted, LAST, FIRST))
        position, gradient = lax.dynamic_index_in_dim(trajectory.draws, row, keepdims=False)
        potential, energy = lax.dynamic_index_in_dim(trajectory.draw_scalars, row, keepdims=False)
        of_end = jnp.where(trajectory.nonfinite, 0.0, jnp.minimum(1.0, jnp.exp(-trajectory.end_error)))
        info = TrajectoryInfo(
            acceptance=of_end,
            gradients=trajectory.taken * self.trajectory.integrator.gradients_per_step,
            energy=energy,
            energy_error=energy - trajectory.energy_start,
            max_energy_error=trajectory.largest_error,
            diverging=trajectory.diverging,
            nonfinite=trajectory.nonfinite,
            num_steps=trajectory.taken,
            moved=jnp.any(position != trajectory.draws[START, 0]),
        )
        return State(position=position, potential=potential, gradient=gradient), info

    def warmup(self) -> WarmupNeeds:
        return replace(super().warmup(), fewest_steps=self.window - 1)
