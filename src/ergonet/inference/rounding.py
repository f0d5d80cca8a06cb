"""Whether the floating-point numbers of a run resolve its log density, judged early in sampling.

Transitions need differences of the potential to within about 0.1. Single precision has seven digits, so a constant of
1e8 that belongs to the log density, or large terms that cancel, round these differences to multiples of 8: the draws
are too wide, and no diagnostic of the draws shows it.

The gradient does not lose these digits. So between pairs of draws, which differ by as much as matters, the differences
of the potential are compared with the integral of its gradient (trapezoidal rule). The rule's own error is estimated
from every second point and subtracted. Seven draws of one chain are looked at, every 16th, since elsewhere, such as at
initial values far from the posterior, rounding is large and harmless. Targets that subtract a reference summand by
summand, as networks do, need no check. Nothing is computed in double precision, because tracing a density in both
precisions spoils JAX's caches of its constants.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import Array
from ergonet.diagnostics.advice import advise
from ergonet.draws.contents import POSITIONS
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.inference.drive import AbstractStopRule
from ergonet.inference.jobs import AbstractJob, Say
from ergonet.target.contract import AbstractTarget, ReferencePoint

SPACING, NUM_PAIRS, NUM_INTERVALS = 16, 6, 8


class RoundingCheck(AbstractStopRule):
    """Measures the rounding error of the potential, and tells the user at once; it never stops a run."""

    def __init__(self, target: AbstractTarget, recorder: Recorder, say: Say):
        """Check and keep the settings.

        Args:
            target: what is sampled.
            recorder: has the draws.
            say: tells the user that the error is large.
        """
        self._target, self._recorder, self._say = target, recorder, say
        self._is_due = target.relative_to(ReferencePoint(jax.device_put(np.zeros(())))) is target
        self._chain: int | None = None
        self._draws: list[np.ndarray] = []
        self._found: float | None = None

    def watch(self, chunk: Chunk) -> None:
        if not self._is_due or chunk.is_warmup or self._chain not in (None, *chunk.chains):
            return
        self._chain = chunk.chains[0] if self._chain is None else self._chain
        positions = chunk.fields[POSITIONS][chunk.chains.index(self._chain)]
        self._draws += [np.array(one) for one in positions[-(chunk.start + 1) % SPACING :: SPACING]]
        if len(self._draws) > NUM_PAIRS:
            self._judge(np.stack(self._draws[: NUM_PAIRS + 1]))
            for sentence in advise({"diagnostics": self.notes()}):
                self._say(sentence)

    def _judge(self, draws: np.ndarray) -> None:
        self._is_due = False
        self._found = rounding_error(self._target, draws)

    def notes(self) -> dict[str, Any]:
        """The error; in a run that is continued and has few draws left, by those that it had before."""
        most = SPACING * (NUM_PAIRS + 1)
        if self._is_due and self._recorder.drawn >= most:
            self._judge(self._recorder.first_positions(most)[SPACING - 1 :: SPACING])
        return {} if self._found is None else {"rounding_error": self._found}

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        return ""

    def error(self, jobs: Sequence[AbstractJob]) -> BaseException:
        raise NotImplementedError


def rounding_error(target: AbstractTarget, draws: np.ndarray) -> float | None:
    """The standard deviation of the rounding error of the potential near seven draws `[draw, dim]`; None if unknown.

    It is the median over pairs of draws, so that a few pairs with a region of zero density or a steep slope between
    them do not matter.
    """
    steps = np.linspace(0, 1, NUM_INTERVALS + 1)[:, None]
    lines = [(first + steps * (last - first)).astype(draws.dtype) for first, last in pairwise(draws)]
    potentials, gradients = _look(target, jnp.asarray(np.concatenate(lines)))
    shape = (NUM_PAIRS, NUM_INTERVALS + 1)
    values = np.asarray(potentials, np.float64).reshape(shape)
    slopes = np.asarray(gradients, np.float64).reshape(*shape, -1)
    exact = [line.astype(np.float64) for line in lines]
    errors = [_error(*one) for one in zip(exact, list(values), list(slopes), strict=True)]
    known = [one for one in errors if np.isfinite(one)]
    return float(np.median(known)) if known else None


def _error(points: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> float:
    """The rounding error along one line, beyond that of the trapezoidal rule; NaN if the points are all the same."""
    if not np.any(points[0] != points[-1]):
        return np.nan
    whole = values - values[0] - _integral(points, slopes)
    half = values[::2] - values[0] - _integral(points[::2], slopes[::2])
    return float(whole.std() - np.abs(half - whole[::2]).max())


def _integral(points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The integral of the gradient from the first point to each."""
    pieces = np.sum(0.5 * (slopes[1:] + slopes[:-1]) * np.diff(points, axis=0), axis=1)
    return np.concatenate([[0.0], np.cumsum(pieces)])


def _values_and_gradients(target: AbstractTarget, points: Array) -> tuple[Array, Array]:
    """Potentials and gradients at points `[point, dim]`."""
    return lax.map(jax.value_and_grad(target.potential), points)


_QUICKLY: dict[str, Any] = {
    "compiler_options": {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
}
_look = eqx.filter_jit(_values_and_gradients, **_QUICKLY)  # it runs once, so it is not optimized
