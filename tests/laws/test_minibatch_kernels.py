"""Minibatch kernels against what they must be: gradient descent without noise, linear recursions on Gaussians."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ergonet import SGHMC, SGLD, SGNUTS, NaiveSGHMC, Target, noise_models
from ergonet.inference.epochs import INIT_KEY, Pace
from ergonet.samplers.stochastic.noise import normals
from tests.minibatches import (
    Quadratic,
    exact_gaussian,
    linear_regression,
    network,
    noisy_gaussian,
    random_minibatches,
    run,
    steps,
)
from tests.statistical.densities import moments, z_scores

pytestmark = pytest.mark.slow  # the whole file

E, C, V, STEPS = 0.1, 3.0, 4.0, 50  # the toy of algorithms.md, section 6
COORDINATES, ROWS = 20, 20_000


# Gradient descent


@pytest.mark.parametrize(
    ("kernel", "optimizer"),
    [
        (SGLD(learning_rate=0.003, temperature=0.0), optax.sgd(0.003)),
        (SGHMC(learning_rate=0.003, momentum_decay=0.1, temperature=0.0), optax.sgd(0.003, momentum=0.9)),
    ],
)
def test_temperature_0_is_gradient_descent(kernel, optimizer):
    target = network()
    minibatches = random_minibatches(target, 60, 10)
    position = jnp.asarray(np.random.default_rng(1).normal(size=target.dim))
    found, info, _ = steps(kernel, target, position, minibatches)

    state = optimizer.init(position)
    for number in range(60):
        rows = jax.tree.map(lambda leaf, number=number: leaf[number], minibatches)
        gradient = jax.grad(target.minibatch_potential)(position, rows)
        update, state = optimizer.update(gradient, state)
        position = position + jnp.asarray(update)
        np.testing.assert_allclose(found[number], position, rtol=1e-9, atol=1e-9)
    assert np.ptp(np.asarray(info.potential)) > 1
    assert "kinetic_temperature" not in info.values()  # of which there is none at temperature 0


# The other parametrization


@pytest.mark.parametrize("mass", [1.0, 2.5])
def test_friction_and_mass_give_the_chain_of_the_textbook_equations(mass):
    target = noisy_gaussian([1.0, 2.0], np.random.default_rng(0).normal(size=(50, 2)))
    minibatches = random_minibatches(target, 40, 5)
    kernel = SGHMC.from_friction(step_size=E, friction=C, mass=mass, noise=noise_models.GivenNoise([V, 1.0]))
    key, start = jax.random.key(6), jnp.asarray([1.0, -1.0])
    found, _, _ = steps(kernel, target, start, minibatches, seed=6)

    draw = lambda at: np.asarray(normals(jax.random.fold_in(key, at), 2, jnp.float64))  # noqa: E731
    q, r = np.array([1.0, -1.0]), np.sqrt(mass) * draw(INIT_KEY)
    half = 0.5 * E * np.array([V, 1.0])  # B
    for number in range(40):
        rows = jax.tree.map(lambda leaf, number=number: leaf[number], minibatches)
        gradient = np.asarray(jax.grad(target.minibatch_potential)(jnp.asarray(q), rows))
        r = r - E * gradient - E * C * r / mass + np.sqrt(2 * (C - half) * E) * draw(number)
        q = q + E * r / mass
        np.testing.assert_allclose(found[number], q, rtol=1e-6, atol=1e-6)


# Stationary variances: linear recursions


def lyapunov(step, noise):
    """The covariance S = step S step' + noise."""
    size = len(step)
    flat = np.linalg.solve(np.eye(size**2) - np.kron(step, step), np.ravel(noise))
    return flat.reshape(size, size)


def sghmc_covariance(rate, decay, precision, injected):
    """Of q and v, where v' = (1 - a) v - l p q + N(0, injected), q' = q + v'."""
    step = np.array([[1 - rate * precision, 1 - decay], [-rate * precision, 1 - decay]])
    return lyapunov(step, injected * np.ones((2, 2)))


def sghmc_variance(rate, decay, precision, injected):
    return sghmc_covariance(rate, decay, precision, injected)[0, 0]


def naive_variance(rate, num_steps, precision, variance):
    """Of q at the ends of trajectories of position-Verlet steps whose gradients have that variance."""
    half = np.array([[1, 0.5], [0, 1]])
    step = half @ np.array([[1, 0], [-rate * precision, 1]]) @ half
    kick = half @ np.array([0, -rate])
    powers = [np.linalg.matrix_power(step, n) for n in range(num_steps + 1)]
    heat = variance * sum((powers[n] @ kick)[0] ** 2 for n in range(num_steps))
    whole = powers[num_steps][0]
    return (whole[1] ** 2 * rate + heat) / (1 - whole[0] ** 2)


def test_the_theoretical_variances_have_their_published_values():
    assert abs(sghmc_variance(E**2, E * C, 1.0, 2 * E * C * E**2) - 1.003) < 5e-4
    noisy = E**4 * V + 2 * E * C * E**2
    assert abs(sghmc_variance(E**2, E * C, 1.0, noisy) - 1.070) < 5e-4
    assert abs(naive_variance(1e-4, 100, 1.0, 0.0) - 1) < 1e-3


def variance_score(positions, expected):
    """z of the pooled variance about 0 over independent coordinates."""
    estimate, error = moments(positions)
    dim = positions.shape[2]
    return (estimate[dim:].mean() - expected) / np.sqrt(np.mean(error[dim:] ** 2) / dim), estimate[dim:].mean()


@pytest.mark.parametrize(("rate", "decay"), [(0.01, 0.3), (0.2, 0.3), (0.05, 0.02), (0.5, 0.9)])
def test_without_gradient_noise_sghmc_is_discretized_underdamped_langevin(rate, decay):
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGHMC(learning_rate=rate, momentum_decay=decay, batch_size=2, steps_per_draw=20)
    positions = run(target, kernel, num_warmup=200, num_draws=4000).positions
    expected = sghmc_variance(rate, decay, 1.0, 2 * decay * rate)
    assert abs(variance_score(positions, expected)[0]) < 4
    assert np.max(np.abs(z_scores(positions, np.zeros(COORDINATES), np.full(COORDINATES, expected)))) < 4.5


def test_sghmc_that_resamples_at_every_step_is_discretized_langevin():
    """A velocity from N(0, l) every step makes it Langevin with steps l: q' = (1 - l) q + N(0, l ...)."""
    rate, decay = 0.2, 0.3
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGHMC(learning_rate=rate, momentum_decay=decay, resample_every=1, batch_size=2, steps_per_draw=10)
    positions = run(target, kernel, num_warmup=100, num_draws=3000).positions
    expected = ((1 - decay) ** 2 * rate + 2 * decay * rate) / (1 - (1 - rate) ** 2)
    assert abs(variance_score(positions, expected)[0]) < 4


@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_without_gradient_noise_sgld_is_discretized_langevin(rate):
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGLD(learning_rate=rate, batch_size=2, steps_per_draw=30)
    positions = run(target, kernel, num_warmup=100, num_draws=3000).positions
    score, estimate = variance_score(positions, 1 / (1 - rate / 2))
    assert abs(score) < 4, estimate


def test_temperature_scales_the_variance():
    target = exact_gaussian(np.ones(COORDINATES))
    kinetic = sghmc_covariance(0.05, 0.3, 1.0, 0.03)[1, 1] / 0.05  # 1.19: relative to the temperature that is asked for
    for kernel, expected in (
        (SGLD(learning_rate=0.1, temperature=0.25, batch_size=2, steps_per_draw=30), 0.25 / 0.95),
        (
            SGHMC(learning_rate=0.05, momentum_decay=0.3, temperature=0.25, batch_size=2, steps_per_draw=30),
            0.25 * sghmc_variance(0.05, 0.3, 1.0, 0.03),
        ),
    ):
        found = run(target, kernel, num_warmup=100, num_draws=2000)
        score, estimate = variance_score(found.positions, expected)
        assert abs(score) < 4, estimate
        assert ("kinetic_temperature" in (found.curve or {})) == isinstance(kernel, SGHMC)
        if isinstance(kernel, SGHMC):
            assert abs(found.curve["kinetic_temperature"][:, 100:].mean() / kinetic - 1) < 0.02


# The toy of 002, section 4.1


@cache
def toy():
    with jax.enable_x64(True):
        push = np.random.default_rng(5).normal(size=(ROWS, COORDINATES))
        push = 2 * (push - push.mean(0)) / push.std(0)
        return noisy_gaussian(np.ones(COORDINATES), push)


def toy_variance(kernel, *, num_draws=4000):
    return run(toy(), kernel, num_warmup=100, num_draws=num_draws, seed=2).positions


@pytest.mark.parametrize(
    ("noise", "expected", "injected"),
    [(noise_models.GivenNoise(V), 1.003, 2 * E * C * E**2), ("none", 1.070, E**4 * V + 2 * E * C * E**2)],
)
def test_sghmc_on_the_toy_has_the_predicted_variance(noise, expected, injected):
    kernel = SGHMC.from_friction(step_size=E, friction=C, noise=noise, batch_size=1, steps_per_draw=STEPS)
    positions = toy_variance(kernel)
    score, estimate = variance_score(positions, sghmc_variance(E**2, E * C, 1.0, injected))
    assert abs(estimate / expected - 1) < 0.02
    assert abs(score) < 4, estimate


def test_known_noise_is_corrected_at_another_temperature():
    """The gradient's own noise is not tempered: leaving it out of the account would give 0.30 in place of 0.25."""
    rate, decay, temperature = E**2, E * C, 0.25
    kernel = SGHMC(
        learning_rate=rate,
        momentum_decay=decay,
        noise=noise_models.GivenNoise(V),
        temperature=temperature,
        batch_size=1,
        steps_per_draw=STEPS,
    )
    injected = 2 * decay * rate * temperature
    score, estimate = variance_score(toy_variance(kernel), sghmc_variance(rate, decay, 1.0, injected))
    assert abs(estimate / temperature - 1) < 0.03
    assert abs(score) < 4, estimate


def test_naive_sghmc_without_a_metropolis_correction_has_the_predicted_error_on_the_toy():
    kernel = NaiveSGHMC(learning_rate=E**2, num_steps=STEPS, batch_size=1, steps_per_draw=STEPS)
    expected = naive_variance(E**2, STEPS, 1.0, V)
    score, estimate = variance_score(toy_variance(kernel), expected)
    assert abs(score) < 4, (estimate, expected)
    assert estimate > 1.3


def test_the_estimated_noise_corrects_the_variance_on_the_toy():
    kernel = SGHMC.from_friction(
        step_size=E,
        friction=C,
        noise=noise_models.EstimatedNoise(every=50),
        batch_size=10,
        steps_per_draw=STEPS,
    )
    found = run(toy(), kernel, num_warmup=100, num_draws=1000, seed=2)
    assert abs(variance_score(found.positions, 1.003)[0]) < 4
    assert found.curve["clipped"].max() == 0


# The test on all rows


@pytest.mark.parametrize(
    ("num_steps", "batch_size", "rate", "acceptance"), [(4, 6, 1e-3, 0.67), (12, 2, 1e-4, 0.70), (12, 2, 3e-4, 0.29)]
)
def test_naive_sghmc_with_a_metropolis_correction_is_exact(num_steps, batch_size, rate, acceptance):
    """Where an epoch is whole trajectories."""
    scores, stats = scores_of(num_steps, batch_size, rate, metropolis=True)
    assert np.max(np.abs(scores)) < 4, scores
    assert abs(stats["acceptance_rate"].mean() - acceptance) < 0.03


@pytest.mark.parametrize(("num_steps", "batch_size", "rate"), [(7, 6, 1e-3), (12, 2, 3e-4)])
def test_naive_sghmc_without_a_metropolis_correction_is_biased(num_steps, batch_size, rate):
    scores, stats = scores_of(num_steps, batch_size, rate, metropolis=False)
    assert np.max(np.abs(scores)) > 10, scores
    assert "acceptance_rate" not in stats


def scores_of(num_steps, batch_size, rate, *, metropolis):
    target, mean, covariance = linear_regression()
    kernel = NaiveSGHMC(
        learning_rate=rate, num_steps=num_steps, metropolis=metropolis, batch_size=batch_size, steps_per_draw=num_steps
    )
    found = run(target, kernel, num_chains=2, num_warmup=500, num_draws=20_000)
    return z_scores(found.positions - mean, np.zeros(3), np.diag(covariance)), found.stats


# Momenta


def test_the_momentum_is_resampled_every_given_number_of_steps():
    target = exact_gaussian([1.0, 3.0])
    kernel = SGHMC(learning_rate=0.04, resample_every=5)
    key, rows = jax.random.key(0), target.rows()
    states = [
        eqx.tree_at(lambda one: one.velocity, kernel.init(key, target, jnp.ones(2), jnp.asarray(0.04)), velocity)
        for velocity in (jnp.zeros(2), jnp.asarray([5.0, -7.0]))
    ]

    move = eqx.filter_jit(lambda state, pace: kernel.step(key, target, state, rows, pace)[0].position)

    def after(number):
        pace = Pace(step_size=jnp.asarray(0.04), number=jnp.asarray(number))
        return [np.asarray(move(state, pace)) for state in states]

    for number in range(12):
        one, other = after(number)
        same = np.array_equal(one, other)
        assert same == (number % 5 == 0)
    pace = Pace(step_size=jnp.asarray(0.04), number=jnp.asarray(5))
    keys = jax.random.split(jax.random.key(9), 2000)
    many = jax.vmap(lambda one: kernel._resampled(one, jnp.zeros(2), pace))(keys)
    assert abs(np.mean(np.square(many)) / 0.04 - 1) < 4 * np.sqrt(2 / 4000)


def test_the_first_velocity_has_its_stationary_variance():
    target = exact_gaussian(np.ones(10_000))
    state = SGHMC(learning_rate=0.04).init(jax.random.key(1), target, jnp.zeros(10_000), jnp.asarray(0.04))
    assert abs(np.mean(np.square(state.velocity)) / 0.04 - 1) < 4 * np.sqrt(2 / 10_000)


# SG-NUTS


def test_sg_nuts_on_exact_gradients_and_little_friction_is_near_nuts():
    """No exactness is claimed; at a small step and little friction its moments are close."""
    target = exact_gaussian([1.0, 0.25])
    kernel = SGNUTS(learning_rate=0.01, momentum_decay=0.001, max_doublings=6, batch_size=2, steps_per_draw=1)
    found = run(target, kernel, num_warmup=50, num_draws=4000)
    variance = np.mean(np.asarray(found.positions, float) ** 2, axis=(0, 1))
    np.testing.assert_allclose(variance, [1.0, 4.0], rtol=0.15)
    assert np.all(found.stats["gradients"] >= 2)


def test_kernels_report_the_minibatch_potential_at_their_gradient():
    """The potential that a step reports is the minibatch's where its gradient was taken."""
    target = Target.from_terms(Quadratic(jnp.ones(1)), lambda q, rows: 0 * rows, jnp.zeros(4), jnp.zeros(1))
    for kernel in (SGLD(learning_rate=0.1), SGHMC(learning_rate=0.1)):
        state = kernel.init(jax.random.key(0), target, jnp.full(1, 3.0), jnp.asarray(0.1))
        step: Any = kernel.step
        _, info = step(jax.random.key(0), target, state, target.rows(), Pace(jnp.asarray(0.1), jnp.asarray(0)))
        assert float(info.potential) == 4.5
        assert int(info.gradients) == 1
