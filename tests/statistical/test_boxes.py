"""Moments in boxes against truncated normals in closed form, at an acceptance where a wrong sampler would show.

|z| < 4 for 10 or 4 quantities in 14 rows: about one table in a hundred has a row beyond. Seeds are fixed.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergonet
from ergonet import HMC, MAMS, NUTS, ConstrainedHMC, DelayedRejectionHMC, Target, WindowedHMC
from ergonet.adaptation.recipes import stan_windows
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from ergonet.hamiltonian.box import Box
from tests.sampling import Gaussian
from tests.statistical.densities import CorrelatedGaussian, z_scores

# Optimized as users' programs are: steps are near the edge of stability, and other rounding can end beyond it.
pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("optimized")]

AIM = 0.7
SCALES = np.array([0.5, 1.0, 2.0, 1.5, 0.8])
LOWER = np.array([-0.2, 2.5, -np.inf, 1.0, -np.inf])  # through the mass, a tail, a half space, a thin box, free
UPPER = np.array([0.9, np.inf, 1.0, 1.001, np.inf])
CORRELATION = -0.6


def truncated():
    """Independent normals: the means of the coordinates and of their squares."""
    normal = stats.truncnorm(LOWER / SCALES, UPPER / SCALES, scale=SCALES)
    target = Target.from_logdensity(Gaussian(jnp.zeros(5), jnp.asarray(SCALES, jnp.float32)), jnp.zeros(5))
    return target, (LOWER, UPPER), normal.mean(), normal.var() + normal.mean() ** 2


def orthant():
    """Two correlated normals of unit variance in the positive quadrant, a corner (Rosenbaum1961)."""
    rho = CORRELATION
    mass = 0.25 + np.arcsin(rho) / (2 * np.pi)
    mean = (1 + rho) / (2 * np.sqrt(2 * np.pi) * mass)
    square = 1 + rho * np.sqrt(1 - rho**2) / (2 * np.pi * mass)
    precision = jnp.asarray(np.linalg.inv([[1.0, rho], [rho, 1.0]]), jnp.float32)
    target = Target.from_logdensity(CorrelatedGaussian(precision), jnp.zeros(2))
    return target, (0.0, np.inf), np.full(2, mean), np.full(2, square)


PROBLEMS = {"truncated": truncated, "orthant": orthant}
UPDATES = {
    "hmc": lambda metric: HMC(num_steps=6, metric=metric, target_acceptance=AIM),
    "hmc, learned length": lambda metric: HMC(metric=metric, target_acceptance=AIM),
    "nuts": lambda metric: NUTS(metric=metric, target_acceptance=AIM),
    "nuts, original, slice": lambda metric: NUTS(
        metric=metric, criterion="original", selection="slice", target_acceptance=AIM
    ),
    "delayed rejection": lambda metric: DelayedRejectionHMC(num_steps=6, metric=metric, target_acceptance=AIM),
    "windowed": lambda metric: WindowedHMC(3, num_steps=6, metric=metric, target_acceptance=AIM),
    "mams": lambda metric: MAMS(num_steps=6, metric=metric, target_acceptance=AIM),
}
ROWS = [("truncated", update, "diagonal") for update in UPDATES]
ROWS += [("orthant", update, "diagonal") for update in ("hmc", "nuts", "mams")]
ROWS += [(name, update, "dense") for name in PROBLEMS for update in ("hmc", "nuts")]
ROWS += [("truncated", "hmc", "identity")]


def run(name, update, metric):
    target, walls, *_ = PROBLEMS[name]()
    kernel = ConstrainedHMC(*walls, update=UPDATES[update](metric))
    last = Stage("last step size", 400, (StepSizeLearner(AIM, settles=True),))
    recipe = Warmup((*stan_windows(kernel.warmup(), 1000).stages[:-1], last))
    return ergonet.sample(target, kernel, warmup=recipe, num_draws=2000, seed=3, progress=False)


@pytest.mark.parametrize(("name", "update", "metric"), ROWS)
def test_moments_are_those_of_truncated_normals(name, update, metric):
    _, walls, mean, square = PROBLEMS[name]()
    samples = run(name, update, metric)
    assert np.all(Box(*walls).contains(samples.positions))
    scores = z_scores(samples.positions, mean, square)
    assert abs(samples.stats["acceptance_rate"].mean() - AIM) < 0.12
    assert samples.stats["diverging"].sum() == 0
    assert np.max(np.abs(scores)) < 4, scores
