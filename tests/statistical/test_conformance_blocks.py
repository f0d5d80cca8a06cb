"""What every kernel for weights and hyperparameters must do, in one table.

The target is a linear network whose rows are all 0: weights and their precision keep their prior, the noise precision
is Gamma given one residual, so every moment is known. |z| < 4 for 10 quantities in each of 4 rows; a row beyond is run
again with the same seed and four times as many draws, which has to pass.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, polygamma

import ergonet
from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet.adaptation.recipes import stan_windows
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from ergonet.models.network_posterior import NetworkPosterior
from ergonet.samplers.base import run_transition
from tests.ledger import Ledger
from tests.sampling import trajectory_kernel
from tests.statistical.densities import z_scores

pytestmark = pytest.mark.statistical

ALPHA, WIDTH, TARGET = 10.0, 0.7, 0.6
AIM = 0.7
UPDATE = {"name": "hmc", "num_steps": 4, "target_acceptance": AIM}
ROWS = {  # kernel, settings, parametrization
    "gibbs": ("gibbs", {"update": UPDATE}, "centered"),
    "gibbs, curvature": ("gibbs", {"update": UPDATE | {"metric": "identity"}, "step_sizes": "curvature"}, "centered"),
    "dynamical-a": ("dynamical-a", {"num_steps": 6, "target_acceptance": AIM}, "centered"),
    "dynamical-b": ("dynamical-b", {"num_steps": 6, "target_acceptance": AIM}, "non-centered"),
}


def make(row):
    name, settings, _ = ROWS[row]
    return trajectory_kernel(name, settings)


def posterior_of(row):
    prior = priors.NormalGamma(WIDTH, ALPHA, "leaf", ROWS[row][2])
    noise = likelihoods.GammaPrecision(0.5, ALPHA)
    model = BayesianNetwork(MLP((3, 1), bias=False), prior, likelihoods.Gaussian(noise))
    return model.condition(np.zeros((1, 3)), np.array([TARGET]))


def exact_moments(row):
    """Means and mean squares of the coordinates: three weights, their log precision, that of the noise."""
    half, rate = ALPHA / 2, ALPHA / 2 * WIDTH**2
    noise = (ALPHA + 1) / 2, (ALPHA * 0.25 + TARGET**2) / 2
    square = rate / (half - 1) if ROWS[row][2] == "centered" else 1.0
    means = np.array([digamma(shape) - np.log(by) for shape, by in ((half, rate), noise)])
    variances = polygamma(1, [half, noise[0]])
    return np.array([0, 0, 0, *means]), np.array([square, square, square, *(means**2 + variances)])


def run(row, *, longer=1):
    kernel = make(row)
    last = Stage("last step size", 400, (StepSizeLearner(AIM),))  # divergences do not limit it
    stages = (*stan_windows(kernel.warmup(), 1000).stages[:-1], last)
    return ergonet.sample(
        posterior_of(row),
        kernel,
        warmup=Warmup(stages),
        num_draws=3000 * longer,
        seed=7,
        progress=False,
    )


@pytest.mark.parametrize("row", ROWS)
def test_moments_are_right_and_a_warmup_adapts(row):
    samples = run(row)
    assert abs(samples.stats["acceptance_rate"].mean() - AIM) < 0.12
    scores = z_scores(samples.positions, *exact_moments(row))
    if np.max(np.abs(scores)) >= 4:
        scores = z_scores(run(row, longer=4).positions, *exact_moments(row))
    assert np.max(np.abs(scores)) < 4, scores
    assert np.all(samples.tuning["step_size"] != samples.warmup_stats["step_size"][:, 0])


class Counting(NetworkPosterior):
    """Counts evaluations of its potential."""

    calls: Ledger = eqx.field(static=True)

    def __init__(self, posterior, calls):
        super().__init__(posterior.model, posterior.inputs, posterior.targets, posterior.reference)
        self.calls = calls

    def potential(self, position):
        jax.debug.callback(lambda: self.calls.append(1))
        return super().potential(position)


@cache
def transition(row):
    calls = Ledger()
    kernel, target = make(row), Counting(posterior_of(row), calls)

    def run(key, state, step_size):
        tuning = eqx.tree_at(lambda one: one.step_size, kernel.tuning(target, state.position), step_size)
        return run_transition(kernel, key, target, state, tuning)

    return kernel, target, run, jax.jit(run), calls


def start_of(row, dtype=jnp.float32):
    kernel, target, *_ = transition(row)
    return kernel.init(target, jnp.asarray([0.5, -0.4, 0.3, 0.8, 1.0], dtype))


def keys(count):
    return jax.random.split(jax.random.key(2), count)


@pytest.mark.parametrize("row", ROWS)
def test_evaluations_are_counted_exactly(row):
    """A pass of Dynamical B's curvature is counted and is no evaluation of the potential."""
    *_, compiled, calls = transition(row)
    start = start_of(row)
    for key in keys(6):
        jax.effects_barrier()
        calls.clear()
        _, info = jax.block_until_ready(compiled(key, start, 0.3))
        jax.effects_barrier()
        steps = int(info.num_steps)
        passes = steps if row == "dynamical-b" else 0
        assert int(info.gradients) == len(calls) + passes
        assert len(calls) == (steps + 1 if row.startswith("gibbs") else 2 * steps) > 2


@pytest.mark.parametrize("row", ROWS)
def test_a_diverging_transition_keeps_its_weights(row):
    *_, compiled, _ = transition(row)
    start = start_of(row)
    for key in keys(6):
        state, info = compiled(key, start, 1e4)
        assert bool(info.diverging)
        assert not bool(info.moved)
        np.testing.assert_array_equal(state.position[:3], start.position[:3])
        assert bool(np.all(state.position[3:] == start.position[3:])) != row.startswith("gibbs")


@pytest.mark.parametrize("row", ["gibbs", "gibbs, curvature"])
def test_the_first_gradient_after_a_gibbs_step_is_of_the_new_hyperparameters(row):
    kernel, target, *_ = transition(row)
    start = start_of(row)
    tuning = kernel.tuning(target, start.position)
    begun = kernel.begin(keys(1)[0], target, start, tuning)
    assert bool(np.all(begun.hyperparameters != start.position[3:]))
    assert not bool(kernel.finished(begun))
    moving = kernel.advance(target, begun, tuning)
    position = jnp.concatenate([start.position[:3], begun.hyperparameters])
    potential, gradient = jax.value_and_grad(target.potential)(position)
    np.testing.assert_allclose(moving.update.start.gradient, gradient[:3], rtol=1e-5)
    np.testing.assert_allclose(moving.update.start.potential, potential, rtol=1e-5)
    np.testing.assert_array_equal(moving.update.start.position, start.position[:3])
    assert np.max(np.abs(gradient[:3] - start.gradient[:3])) > 1e-3


@pytest.mark.parametrize("row", ROWS)
def test_draws_depend_on_the_key_only_and_vmapped_chains_equal_single_chains(row):
    _, _, run, compiled, _ = transition(row)
    start, some = start_of(row), keys(6)
    alone = [compiled(key, start, 0.3)[0].position for key in some]
    again = [compiled(key, start, 0.3)[0].position for key in some]
    np.testing.assert_array_equal(alone, again)
    assert len({float(position[3]) for position in alone}) >= 3
    states, _ = jax.jit(jax.vmap(run, (0, None, None)))(some, start, 0.3)
    np.testing.assert_allclose(states.position, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("row", ROWS)
def test_both_precisions_keep_their_dtype_and_a_consistent_state(row):
    """Of Gibbs, the gradient of the hyperparameters is 0: nothing reads it."""
    for is_double, dtype, precision in ((False, jnp.float32, 2e-5), (True, jnp.float64, 1e-10)):
        transition.cache_clear()
        with jax.enable_x64(is_double):
            _, target, _, compiled, _ = transition(row)
            start = start_of(row, dtype)
            for key in keys(3):
                state, info = compiled(key, start, jnp.asarray(0.3, dtype))
                for leaf in (state.position, state.potential, state.gradient, info.energy_error, info.acceptance):
                    assert leaf.dtype == dtype
                potential, gradient = jax.value_and_grad(target.potential)(state.position)
                np.testing.assert_allclose(state.potential, potential, rtol=precision)
                known = 3 if row.startswith("gibbs") else 5
                np.testing.assert_allclose(state.gradient[:known], gradient[:known], rtol=precision, atol=precision)
    transition.cache_clear()
