"""Step sizes that change along a run, and what is known of the gradient's noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import SGHMC, SGLD, noise_models, schedules
from ergonet._errors import SettingError
from ergonet.samplers.stochastic.base import gradient_noise
from tests.minibatches import exact_gaussian, linear_regression, network, noisy_gaussian, random_minibatches, run, steps
from tests.stages import slow

# Schedules


def test_schedules_match_their_formulas():
    number = jnp.arange(200)
    assert np.all(np.asarray(jax.vmap(schedules.Constant().factor)(number)) == 1)
    polynomial = schedules.Polynomial(scale=10.0, power=0.55)
    expected = (10 / (10 + np.arange(200))) ** 0.55
    np.testing.assert_allclose(jax.vmap(polynomial.factor)(number), expected, rtol=1e-6)
    cyclical = schedules.Cyclical(period=50, exploration=0.75)
    place = np.arange(200) % 50
    np.testing.assert_allclose(
        jax.vmap(cyclical.factor)(number), 0.5 * (np.cos(np.pi * place / 50) + 1), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(jax.vmap(cyclical.samples)(number), place / 50 >= 0.75)
    with jax.enable_x64(False):
        ends = [schedules.Cyclical(period=period).factor(jnp.asarray(period - 1)) for period in (50, 25_000, 1_000_000)]
    np.testing.assert_allclose(ends, [(np.pi / 2 / period) ** 2 for period in (50, 25_000, 1_000_000)], rtol=1e-3)


@pytest.mark.parametrize("schedule", [slow(schedules.Polynomial(scale=50.0)), schedules.Cyclical(period=40)])
def test_a_run_follows_its_schedule(schedule):
    target = exact_gaussian([1.0, 2.0])
    kernel = SGLD(learning_rate=0.1, schedule=schedule, batch_size=2, steps_per_draw=5)
    found = run(target, kernel, num_warmup=6, num_draws=60)
    last = 5 * np.arange(1, 67) - 1  # the step that ends each draw
    factors = np.array([float(schedule.factor(jnp.asarray(n))) for n in last])
    samples = np.array([bool(schedule.samples(jnp.asarray(n))) for n in last]) & (np.arange(66) >= 6)
    np.testing.assert_allclose(found.curve["step_size"][0], 0.1 * factors, rtol=1e-6, atol=5e-8)
    np.testing.assert_allclose(found.curve["weight"][0], np.where(samples, factors, 0), rtol=1e-6, atol=5e-8)
    np.testing.assert_array_equal(found.stats["weight"], found.curve["weight"][:, 6:])


@pytest.mark.slow
def test_draws_of_a_decreasing_step_size_are_averaged_with_weights():
    """Steps fall from 1 to 0.1: the weighted mean of E q^2 = 1 / (1 - l_t / 2) where l falls slowly."""
    schedule = schedules.Polynomial(scale=2000.0, power=0.55)
    target = exact_gaussian(np.ones(200))
    kernel = SGLD(learning_rate=1.0, schedule=schedule, batch_size=2, steps_per_draw=10)
    found = run(target, kernel, num_warmup=10, num_draws=12_000)
    weights, rates = found.stats["weight"][0].astype(float), found.stats["step_size"][0].astype(float)
    squares = np.mean(found.positions[0].astype(float) ** 2, axis=1)
    expected = np.average(1 / (1 - rates / 2), weights=weights)
    spread = np.sqrt(np.sum((weights * 2) ** 2 * 2 / 200 * 2)) / np.sum(weights)
    assert abs(np.average(squares, weights=weights) - expected) < 4 * spread
    assert abs(squares.mean() - expected) > 4 * spread  # an average without weights is another


@pytest.mark.slow
def test_a_momentum_keeps_its_temperature_while_the_step_size_changes():
    target = exact_gaussian(np.ones(50))
    schedule = schedules.Cyclical(period=200, exploration=0.5)
    kernel = SGHMC(learning_rate=0.05, momentum_decay=0.05, schedule=schedule, batch_size=2, steps_per_draw=5)
    found = run(target, kernel, num_warmup=200, num_draws=800)
    temperature = found.curve["kinetic_temperature"][0, 200:]
    assert abs(temperature.mean() - 1) < 0.1
    assert temperature.max() < 3


# The noise of the gradient


@pytest.mark.parametrize("batch_size", [slow(4), 7, slow(12)])
def test_the_estimated_variance_is_that_of_minibatches_without_replacement(batch_size):
    target = linear_regression()[0] if batch_size != 7 else network(rows=30)
    position = jnp.asarray(np.random.default_rng(2).normal(size=target.dim))
    minibatches = random_minibatches(target, 6000, batch_size)
    gradients, estimates = jax.jit(
        lambda all_: jax.lax.map(
            lambda rows: (
                jax.grad(target.minibatch_potential)(position, rows),
                gradient_noise(target, position, rows, at_once=3),
            ),
            all_,
        )
    )(minibatches)
    full = np.asarray(jax.grad(target.potential)(position))
    squares, estimates = (np.asarray(gradients) - full) ** 2, np.asarray(estimates)
    varied = squares.mean(0) > 1e-12
    assert varied.any()
    difference = squares.mean(0) - estimates.mean(0)
    error = np.sqrt((squares.var(0) + estimates.var(0)) / 6000)
    assert np.max(np.abs(difference[varied] / error[varied])) < 4
    assert np.median(np.abs(difference[varied]) / squares.mean(0)[varied]) < 0.1  # and the test can tell
    np.testing.assert_allclose(estimates[:, ~varied], 0, atol=1e-9)


@pytest.mark.parametrize("at_once", [slow(1), 5, slow(100)])
def test_the_estimated_variance_does_not_depend_on_the_chunk_size(at_once):
    target = network(rows=30)
    position = jnp.asarray(np.random.default_rng(2).normal(size=target.dim))
    rows = jax.tree.map(lambda leaf: leaf[:10], target.rows())
    whole = gradient_noise(target, position, rows, at_once=2)
    np.testing.assert_allclose(gradient_noise(target, position, rows, at_once=at_once), whole, rtol=1e-9)


def test_the_estimated_variance_of_all_rows_or_of_one_row_is_zero():
    target = linear_regression()[0]
    position = jnp.ones(target.dim)
    np.testing.assert_array_equal(gradient_noise(target, position, target.rows()), 0)
    one = jax.tree.map(lambda leaf: leaf[:1], target.rows())
    np.testing.assert_array_equal(gradient_noise(target, position, one), 0)


def test_the_running_estimate_converges():
    push = np.random.default_rng(5).normal(size=(400, 3)) * np.array([1.0, 2.0, 0.0])
    target = noisy_gaussian(np.ones(3), push)
    minibatches = random_minibatches(target, 1500, 20)
    model = noise_models.EstimatedNoise(every=2, decay=0.99)
    kernel = SGHMC(learning_rate=0.01, momentum_decay=0.5, noise=model)
    _, _, state = steps(kernel, target, jnp.zeros(3), minibatches)
    found = np.asarray(model.variance(state.noise))
    expected = push.var(0, ddof=1) / 20 * (1 - 20 / 400)
    np.testing.assert_allclose(found, expected, rtol=4 * np.sqrt(2 / 19 / 200), atol=1e-9)
    _, _, first = steps(kernel, target, jnp.zeros(3), jax.tree.map(lambda leaf: leaf[:1], minibatches))
    once = gradient_noise(target, jnp.zeros(3), jax.tree.map(lambda leaf: leaf[0], minibatches))
    np.testing.assert_allclose(model.variance(first.noise), once, rtol=1e-6)  # no bias toward 0 at the start


def test_coordinates_whose_noise_outweighs_friction_are_counted():
    target = exact_gaussian([1.0, 1.0, 1.0, 1.0])
    noise = noise_models.GivenNoise([0.0, 2 * 0.3 / 0.01 - 1e-3, 2 * 0.3 / 0.01 + 1e-3, 1e6])
    kernel = SGHMC(learning_rate=0.01, momentum_decay=0.3, noise=noise, batch_size=2, steps_per_draw=4)
    with pytest.warns(UserWarning, match="exceeds the friction in 50 %"):
        found = run(target, kernel, num_draws=10)
    np.testing.assert_allclose(found.curve["clipped"], 0.5)
    np.testing.assert_allclose(found.stats["clipped"], 0.5)


def test_a_given_noise_of_the_wrong_shape_or_sign_is_rejected():
    with pytest.raises(SettingError, match="has 3 entries, but positions have 2"):
        run(
            exact_gaussian([1.0, 1.0]), SGHMC(learning_rate=0.1, batch_size=2, noise=noise_models.GivenNoise([1, 2, 3]))
        )
    for bad in (-1.0, float("nan"), np.ones((2, 2))):
        with pytest.raises(SettingError, match="GivenNoise"):
            noise_models.GivenNoise(bad)
