"""A logistic regression against NumPyro and BlackJAX on the same density."""

from typing import Any

import blackjax
import blackjax.mcmc.integrators as theirs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import infer

import ergonet
from ergonet import HMC, MAMS, NUTS, Target
from ergonet.hamiltonian.metric import DiagonalMetric
from ergonet.hamiltonian.microcanonical import MicrocanonicalIntegrator, MicrocanonicalPhase, uniform_direction
from ergonet.hamiltonian.registry import INTEGRATORS
from tests.statistical.densities import logistic, z_between

pytestmark = pytest.mark.statistical

KERNELS = {
    "nuts": lambda: NUTS(target_acceptance=0.7),
    "hmc": lambda: HMC(target_acceptance=0.7),
    "mams": lambda: MAMS(target_acceptance=0.7),
}
DRAWS, CHAINS = 3000, 4


@pytest.fixture(scope="module")
def numpyro_draws():
    density = logistic()
    kernel = infer.NUTS(potential_fn=lambda w: -density(w))
    mcmc = infer.MCMC(
        kernel, num_warmup=500, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(3), init_params=jnp.zeros((CHAINS, 10)))
    return np.asarray(mcmc.get_samples(group_by_chain=True))


@pytest.fixture(scope="module")
def blackjax_draws():
    density = logistic()

    @jax.jit
    def chain(key):
        key_warm, key_run = jax.random.split(key)
        warmup: Any = blackjax.window_adaptation(blackjax.nuts, density)
        (state, parameters), _ = warmup.run(key_warm, jnp.zeros(10), num_steps=500)
        step = blackjax.nuts(density, **parameters).step

        def one(state: Any, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key_run, DRAWS))[1]

    return np.asarray(jax.lax.map(chain, jax.random.split(jax.random.key(4), CHAINS)))


@pytest.mark.parametrize("oracle", ["numpyro_draws", "blackjax_draws"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_logistic_regression_agrees_with_the_oracle(request, kernel, oracle):
    target = Target.from_logdensity(logistic(), jnp.zeros(10))
    samples = ergonet.sample(
        target, KERNELS[kernel](), num_chains=CHAINS, num_warmup=500, num_draws=DRAWS, seed=5, progress=False
    )
    scores = z_between(samples.positions, request.getfixturevalue(oracle))
    assert np.max(np.abs(scores)) < 4, scores


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("leapfrog", theirs.isokinetic_velocity_verlet), ("minimal-norm", theirs.isokinetic_mclachlan)],
)
@pytest.mark.parametrize("step_size", [0.3, 4.0])
def test_microcanonical_steps_are_those_of_blackjax(name, oracle, step_size):
    """Position, direction and energy error of five steps, to rounding."""
    with jax.enable_x64(True):
        density = logistic()
        target = Target.from_logdensity(density, jnp.zeros(10))
        position = 0.3 * jax.random.normal(jax.random.key(0), (10,))
        direction = uniform_direction(jax.random.key(1), position)
        scale = jnp.linspace(0.5, 1.5, 10)
        potential, gradient = jax.value_and_grad(target.potential)(position)
        ours = MicrocanonicalPhase(position, direction, potential, gradient, jnp.zeros(()))
        steps = MicrocanonicalIntegrator(INTEGRATORS.make(name))
        state: Any = theirs.IntegratorState(position, direction, *jax.value_and_grad(density)(position))
        step, kinetic = oracle(density, scale**2), 0.0
        for _ in range(5):
            ours = steps.step(target, DiagonalMetric(scale=scale), jnp.asarray(step_size), ours)
            state, growth = step(state, step_size)
            kinetic += growth
        np.testing.assert_allclose(ours.position, state.position, rtol=1e-9)
        np.testing.assert_allclose(ours.direction, state.momentum, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.kinetic_energy, kinetic, rtol=1e-9)
