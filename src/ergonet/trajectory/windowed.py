"""The windowed trajectory: accept a window of states against the window that contains the start.

With L steps and windows of W <= L + 1 states, draw an offset s uniformly from 0..W-1 and extend s steps backward and
L - s forward, so that the start lies in the first window. The window of the last W states is accepted with probability
min(1, sum of e^-H over the last / sum over the first); then one state of the chosen window is drawn in proportion to
e^-H. Only a running draw per window is stored instead of the states, so memory is O(dim). Sources: Neal1994; Lau2018,
section 2.2 (its text; its Algorithm 3 is a different walk).
"""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Flag, Float, Scalar, UInt
from ergonet.hamiltonian.energy import is_divergent, total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase, Point
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.uniforms import uniform_pair

FIRST, LAST, START = 0, 1, 4  # running draws of the windows, and the start; rows 2 and 3 receive unused writes


class WindowedTrajectory(eqx.Module):
    """Both ends of the trajectory, and a running draw for the first and the last window."""

    ends: Float[Array, "2 vector dim"]  # [backward | forward, position | momentum | gradient (| force), dim]
    draws: Float[Array, "5 2 dim"]  # [row, position | gradient]; rows as in the constants below
    draw_scalars: Float[Array, "5 2"]  # [row, potential | energy]
    log_weights: Float[Array, "2"]  # of the first and the last window
    energy_start: Scalar
    end_error: Scalar  # H - H_start of the last state reached: the end of the last window, if that is not the start
    largest_error: Scalar  # H - H_start furthest from 0
    steps_back: Count
    steps_forward: Count
    taken: Count
    offset: Count
    num_steps: Count
    window: Count
    step_size: Scalar
    uniform: Scalar
    uniform_key: UInt[Array, "2"]
    diverging: Flag  # at any state
    nonfinite: Flag
    entry_probability: Float[Array, "2"]  # with which the last state replaced the draw of each window


class Windowed(eqx.Module):
    """A windowed trajectory with an integrator as a component."""

    integrator: Composition

    def begin(
        self,
        start: Phase,
        step_size: Scalar,
        *,
        num_steps: Count,
        window: Count,
        offset: Count,
        uniform: Scalar,
        uniform_key: UInt[Array, "2"],
    ) -> WindowedTrajectory:
        """Begin with one state; `offset` in 0..window-1 is the number of backward steps."""
        energy = total_energy(start)
        dtype = start.position.dtype
        end = start.stacked
        draw = jnp.stack([start.position, start.gradient])
        zero = jnp.zeros((), dtype)
        in_last = offset * 0 >= num_steps - offset - window + 1
        return WindowedTrajectory(
            ends=jnp.stack([end, end]),
            draws=jnp.stack([draw] * 5),
            draw_scalars=jnp.tile(jnp.stack([start.potential, energy]), (5, 1)),
            log_weights=jnp.stack([zero, jnp.where(in_last, zero, -jnp.inf)]),
            energy_start=energy,
            end_error=zero,
            largest_error=zero,
            steps_back=offset,
            steps_forward=num_steps - offset,
            taken=jnp.zeros((), jnp.int32),
            offset=offset,
            num_steps=num_steps,
            window=window,
            step_size=step_size,
            uniform=uniform,
            uniform_key=uniform_key,
            diverging=jnp.zeros((), bool),
            nonfinite=jnp.zeros((), bool),
            entry_probability=jnp.zeros((2,), dtype),
        )

    def advance(self, target: AbstractDensity, metric: AbstractMetric, t: WindowedTrajectory) -> WindowedTrajectory:
        """Take one step: first backward, then forward from the start."""
        backward = t.steps_back > 0
        side = jnp.where(backward, 0, 1)
        previous = Point.of(lax.dynamic_index_in_dim(t.ends, side, keepdims=False))
        signed = jnp.where(backward, -t.step_size, t.step_size)
        phase = self.integrator.step(target, metric, signed, previous)
        error = total_energy(phase) - t.energy_start
        log_weight = jnp.where(jnp.isnan(error), -jnp.inf, -error)
        place = jnp.where(backward, t.steps_back - t.offset - 1, t.num_steps - t.offset - t.steps_forward + 1)
        in_window = jnp.stack([place <= t.window - 1 - t.offset, place >= t.num_steps - t.offset - t.window + 1])
        entering = jnp.where(in_window, log_weight, -jnp.inf)
        log_weights = jnp.logaddexp(t.log_weights, entering)
        probability = jnp.nan_to_num(jnp.exp(entering - log_weights), nan=0.0)
        uniforms = jnp.stack(uniform_pair(t.uniform_key, t.taken, error.dtype))
        taken = uniforms < probability
        draws, scalars = t.draws, t.draw_scalars
        record = jnp.stack([phase.position, phase.gradient])
        numbers = jnp.stack([phase.potential, total_energy(phase)])
        for window in range(2):
            row = jnp.where(taken[window], window, window + 2)
            draws = lax.dynamic_update_index_in_dim(draws, record, row, axis=0)
            scalars = lax.dynamic_update_index_in_dim(scalars, numbers, row, axis=0)
        return replace(
            t,
            ends=lax.dynamic_update_index_in_dim(t.ends, phase.stacked, side, axis=0),
            draws=draws,
            draw_scalars=scalars,
            log_weights=log_weights,
            end_error=error,
            largest_error=jnp.where(jnp.abs(error) <= jnp.abs(t.largest_error), t.largest_error, error),
            steps_back=t.steps_back - backward,
            steps_forward=t.steps_forward - ~backward,
            taken=t.taken + 1,
            diverging=t.diverging | is_divergent(error),
            nonfinite=t.nonfinite | ~jnp.isfinite(error),
            entry_probability=probability,
        )

    def finished(self, t: WindowedTrajectory) -> Flag:
        """True after the last step, or if an energy is not finite."""
        return ((t.steps_back <= 0) & (t.steps_forward <= 0)) | t.nonfinite

    def accept_probability(self, t: WindowedTrajectory) -> Scalar:
        """min(1, weight of the last window / weight of the first); 0 if some energy is not finite."""
        ratio = jnp.minimum(1.0, jnp.exp(t.log_weights[1] - t.log_weights[0]))
        return jnp.where(t.nonfinite, 0.0, jnp.nan_to_num(ratio, nan=0.0))
