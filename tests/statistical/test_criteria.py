"""Moments within 4 standard errors for every criterion and selection, on a funnel in non-centered form."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, NUTS, WindowedHMC
from tests.statistical.densities import Problem, z_scores
from tests.statistical.test_moments import run

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")]

SPREAD, NOISE = 1.5, 1.0


class NonCenteredFunnel(eqx.Module):
    """Coordinates v and z_1..z_9, N(0, 1) each; y_i ~ N(e^(SPREAD v / 2) z_i, NOISE^2) was observed."""

    y: Any

    def __call__(self, q):
        effects = jnp.exp(0.5 * SPREAD * q[0]) * q[1:]
        return -0.5 * q @ q - 0.5 * jnp.sum((self.y - effects) ** 2) / NOISE**2


def funnel() -> Problem:
    """Its moments by quadrature over v: given v, each z_i is normal and y_i ~ N(0, e^(SPREAD v) + NOISE^2)."""
    y = np.array([-2.1, 0.3, 1.4, -0.6, 0.1, 3.0, -1.2, 0.8, 0.2])
    v = np.linspace(-9, 9, 20001)
    variance = np.exp(SPREAD * v)[:, None]
    total = variance + NOISE**2
    log_weight = -0.5 * v**2 - 0.5 * np.sum(np.log(total) + y**2 / total, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means = np.column_stack([v, np.sqrt(variance) * y / total])
    squares = np.column_stack([v**2, means[:, 1:] ** 2 + NOISE**2 / total])
    return Problem(NonCenteredFunnel(jnp.asarray(y, jnp.float32)), 10, weight @ means, weight @ squares)


KERNELS = {
    **{
        f"{criterion}, {selection}": lambda c=criterion, s=selection: NUTS(
            criterion=c, selection=s, target_acceptance=0.7
        )
        for criterion in ("original", "generalized", "exhaustive")
        for selection in ("multinomial", "slice")
    },
    "original, slice, dense": lambda: NUTS(
        criterion="original", selection="slice", metric="dense", target_acceptance=0.7
    ),
    "hmc, random direction": lambda: HMC(num_steps=6, direction="random", target_acceptance=0.7),
    "windowed": lambda: WindowedHMC(3, num_steps=6, target_acceptance=0.7),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_twenty_moments_of_a_funnel(kernel):
    problem = funnel()
    samples = run(problem, KERNELS[kernel]())
    assert 0.6 < samples.stats["acceptance_rate"].mean() < 0.85
    scores = z_scores(samples.positions, problem.mean, problem.square)
    assert np.max(np.abs(scores)) < 4, scores
