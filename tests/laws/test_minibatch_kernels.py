"""Minibatch kernels against what they must be: gradient descent without noise, linear recursions on Gaussians."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ergonet import SGHMC, SGLD, SGNUTS, NaiveSGHMC, Target, noise_models, schedules
from ergonet._errors import SettingError
from ergonet.inference.epochs import INIT_KEY, Pace
from ergonet.samplers.stochastic.base import gradient_noise
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

E, C, V, STEPS = 0.1, 3.0, 4.0, 50  # the toy of algorithms.md, section 6
COORDINATES, ROWS = 20, 20_000


# Gradient descent


@pytest.mark.parametrize(
    ("kernel", "optimiser"),
    [
        (SGLD(learning_rate=0.003, temperature=0.0), optax.sgd(0.003)),
        (SGHMC(learning_rate=0.003, momentum_decay=0.1, temperature=0.0), optax.sgd(0.003, momentum=0.9)),
    ],
)
def test_temperature_0_is_gradient_descent(kernel, optimiser):
    target = network()
    minibatches = random_minibatches(target, 60, 10)
    position = jnp.asarray(np.random.default_rng(1).normal(size=target.dim))
    found, info, _ = steps(kernel, target, position, minibatches)

    state = optimiser.init(position)
    for number in range(60):
        rows = jax.tree.map(lambda leaf, number=number: leaf[number], minibatches)
        gradient = jax.grad(target.minibatch_potential)(position, rows)
        update, state = optimiser.update(gradient, state)
        position = optax.apply_updates(position, update)
        np.testing.assert_allclose(found[number], position, rtol=1e-9, atol=1e-9)
    assert np.ptp(np.asarray(info.potential)) > 1
    assert np.isnan(info.temperature).all()  # of which there is none at temperature 0


# The other parametrisation


@pytest.mark.parametrize("mass", [1.0, 2.5])
def test_friction_and_mass_are_the_same_chain(mass):
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


def sghmc_variance(rate, decay, precision, injected):
    """Of q, where v' = (1 - a) v - l p q + N(0, injected), q' = q + v'."""
    step = np.array([[1 - rate * precision, 1 - decay], [-rate * precision, 1 - decay]])
    return lyapunov(step, injected * np.ones((2, 2)))[0, 0]


def naive_variance(rate, num_steps, precision, variance):
    """Of q at the ends of trajectories of position-Verlet steps whose gradients have that variance."""
    half = np.array([[1, 0.5], [0, 1]])
    step = half @ np.array([[1, 0], [-rate * precision, 1]]) @ half
    kick = half @ np.array([0, -rate])
    powers = [np.linalg.matrix_power(step, n) for n in range(num_steps + 1)]
    heat = variance * sum((powers[n] @ kick)[0] ** 2 for n in range(num_steps))
    whole = powers[num_steps][0]
    return (whole[1] ** 2 * rate + heat) / (1 - whole[0] ** 2)


def test_the_predictions_of_this_test():
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
def test_without_gradient_noise_sghmc_is_discretised_underdamped_langevin(rate, decay):
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGHMC(learning_rate=rate, momentum_decay=decay, batch_size=2, steps_per_draw=20)
    positions = run(target, kernel, num_warmup=200, num_draws=4000).samples.positions
    expected = sghmc_variance(rate, decay, 1.0, 2 * decay * rate)
    assert abs(variance_score(positions, expected)[0]) < 4
    assert np.max(np.abs(z_scores(positions, np.zeros(COORDINATES), np.full(COORDINATES, expected)))) < 4.5


def test_with_momenta_drawn_afresh_too():
    """A velocity from N(0, l) every step makes it Langevin with steps l: q' = (1 - l) q + N(0, l ...)."""
    rate, decay = 0.2, 0.3
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGHMC(learning_rate=rate, momentum_decay=decay, resample_every=1, batch_size=2, steps_per_draw=10)
    positions = run(target, kernel, num_warmup=100, num_draws=3000).samples.positions
    expected = ((1 - decay) ** 2 * rate + 2 * decay * rate) / (1 - (1 - rate) ** 2)
    assert abs(variance_score(positions, expected)[0]) < 4


@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_without_gradient_noise_sgld_is_discretised_langevin(rate):
    target = exact_gaussian(np.ones(COORDINATES))
    kernel = SGLD(learning_rate=rate, batch_size=2, steps_per_draw=30)
    positions = run(target, kernel, num_warmup=100, num_draws=3000).samples.positions
    score, estimate = variance_score(positions, 1 / (1 - rate / 2))
    assert abs(score) < 4, estimate


def test_temperature_scales_the_variance():
    target = exact_gaussian(np.ones(COORDINATES))
    for kernel, expected in (
        (SGLD(learning_rate=0.1, temperature=0.25, batch_size=2, steps_per_draw=30), 0.25 / 0.95),
        (
            SGHMC(learning_rate=0.05, momentum_decay=0.3, temperature=0.25, batch_size=2, steps_per_draw=30),
            0.25 * sghmc_variance(0.05, 0.3, 1.0, 0.03),
        ),
    ):
        found = run(target, kernel, num_warmup=100, num_draws=2000)
        score, estimate = variance_score(found.samples.positions, expected)
        assert abs(score) < 4, estimate
        temperature = found.curve["kinetic_temperature"]
        assert np.isnan(temperature).all() or abs(temperature.mean() - 1) < 0.1  # relative to the one asked for


# The toy of 002, section 4.1


@cache
def toy():
    with jax.enable_x64(True):
        push = np.random.default_rng(5).normal(size=(ROWS, COORDINATES))
        push = 2 * (push - push.mean(0)) / push.std(0)
        return noisy_gaussian(np.ones(COORDINATES), push)


def toy_variance(kernel, *, num_draws=4000):
    return run(toy(), kernel, num_warmup=100, num_draws=num_draws, seed=2).samples.positions


@pytest.mark.parametrize(
    ("noise", "expected", "injected"),
    [(noise_models.GivenNoise(V), 1.003, 2 * E * C * E**2), ("none", 1.070, E**4 * V + 2 * E * C * E**2)],
)
def test_the_toy(noise, expected, injected):
    kernel = SGHMC.from_friction(step_size=E, friction=C, noise=noise, batch_size=1, steps_per_draw=STEPS)
    positions = toy_variance(kernel)
    score, estimate = variance_score(positions, sghmc_variance(E**2, E * C, 1.0, injected))
    assert abs(estimate / expected - 1) < 0.02
    assert abs(score) < 4, estimate


def test_naive_sghmc_without_a_test_is_wrong_on_the_toy_as_predicted():
    kernel = NaiveSGHMC(learning_rate=E**2, num_steps=STEPS, batch_size=1, steps_per_draw=STEPS)
    expected = naive_variance(E**2, STEPS, 1.0, V)
    score, estimate = variance_score(toy_variance(kernel), expected)
    assert abs(score) < 4, (estimate, expected)
    assert estimate > 1.3


def test_the_estimated_noise_makes_the_toy_right():
    kernel = SGHMC.from_friction(
        step_size=E,
        friction=C,
        noise=noise_models.EstimatedNoise(every=50),
        batch_size=10,
        steps_per_draw=STEPS,
    )
    found = run(toy(), kernel, num_warmup=100, num_draws=1000, seed=2)
    assert abs(variance_score(found.samples.positions, 1.003)[0]) < 4
    assert found.curve["clipped"].max() == 0


# The test on all rows


@pytest.mark.parametrize(("num_steps", "batch_size"), [(4, 6), (2, 6), (12, 2)])
def test_naive_sghmc_with_a_test_is_exact(num_steps, batch_size):
    """Where an epoch is whole trajectories. The same run without the test is wrong."""
    target, mean, covariance = linear_regression()
    square = np.diag(covariance) + mean**2
    scores, acceptances = {}, {}
    for metropolis in (True, False):
        kernel = NaiveSGHMC(
            learning_rate=0.0008 if batch_size == 2 else 0.0035,
            num_steps=num_steps,
            metropolis=metropolis,
            batch_size=batch_size,
            steps_per_draw=num_steps,
        )
        found = run(target, kernel, num_chains=2, num_warmup=500, num_draws=20_000).samples
        scores[metropolis] = np.max(np.abs(z_scores(found.positions, mean, square)))
        acceptances[metropolis] = found.stats.get("acceptance_rate")
    assert scores[True] < 4, (scores, acceptances[True].mean())
    assert scores[False] > 8, scores
    assert 0.5 < acceptances[True].mean() < 0.85
    assert acceptances[False] is None


# Schedules


def test_the_values_of_schedules():
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
    assert np.asarray(jax.vmap(cyclical.factor)(number)).min() > 0


@pytest.mark.parametrize("schedule", [schedules.Polynomial(scale=50.0), schedules.Cyclical(period=40)])
def test_a_run_follows_its_schedule(schedule):
    target = exact_gaussian([1.0, 2.0])
    kernel = SGLD(learning_rate=0.1, schedule=schedule, batch_size=2, steps_per_draw=5)
    found = run(target, kernel, num_warmup=6, num_draws=60)
    last = 5 * np.arange(1, 67) - 1  # the step that ends each draw
    factors = np.array([float(schedule.factor(jnp.asarray(n))) for n in last])
    samples = np.array([bool(schedule.samples(jnp.asarray(n))) for n in last]) & (np.arange(66) >= 6)
    np.testing.assert_allclose(found.curve["step_size"][0], 0.1 * factors, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.curve["weight"][0], np.where(samples, factors, 0), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(found.samples.stats["weight"], found.curve["weight"][:, 6:])


@pytest.mark.slow
def test_the_weighted_average_of_a_falling_step_size():
    """Steps fall from 1 to 0.1: the weighted mean of E q^2 = 1 / (1 - l_t / 2) where l falls slowly."""
    schedule = schedules.Polynomial(scale=2000.0, power=0.55)
    target = exact_gaussian(np.ones(200))
    kernel = SGLD(learning_rate=1.0, schedule=schedule, batch_size=2, steps_per_draw=10)
    found = run(target, kernel, num_warmup=10, num_draws=12_000).samples
    weights, rates = found.stats["weight"][0].astype(float), found.stats["step_size"][0].astype(float)
    squares = np.mean(found.positions[0].astype(float) ** 2, axis=1)
    expected = np.average(1 / (1 - rates / 2), weights=weights)
    spread = np.sqrt(np.sum((weights * 2) ** 2 * 2 / 200 * 2)) / np.sum(weights)
    assert abs(np.average(squares, weights=weights) - expected) < 4 * spread
    assert abs(squares.mean() - expected) > 4 * spread  # an average without weights is another


def test_a_momentum_keeps_its_temperature_while_the_step_size_changes():
    target = exact_gaussian(np.ones(50))
    schedule = schedules.Cyclical(period=200, exploration=0.5)
    kernel = SGHMC(learning_rate=0.05, momentum_decay=0.05, schedule=schedule, batch_size=2, steps_per_draw=5)
    found = run(target, kernel, num_warmup=200, num_draws=800)
    temperature = found.curve["kinetic_temperature"][0, 200:]
    assert abs(temperature.mean() - 1) < 0.1
    assert temperature.max() < 3


# Momenta


def test_a_momentum_is_drawn_afresh_every_so_many_steps():
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
        same = np.array_equal(*after(number))
        assert same == (number % 5 == 0)
    pace = Pace(step_size=jnp.asarray(0.04), number=jnp.asarray(5))
    keys = jax.random.split(jax.random.key(9), 2000)
    many = jax.vmap(lambda one: kernel._resampled(one, jnp.zeros(2), pace))(keys)
    assert abs(np.mean(np.square(many)) / 0.04 - 1) < 4 * np.sqrt(2 / 4000)


def test_the_first_velocity_has_its_stationary_variance():
    target = exact_gaussian(np.ones(10_000))
    state = SGHMC(learning_rate=0.04).init(jax.random.key(1), target, jnp.zeros(10_000), jnp.asarray(0.04))
    assert abs(np.mean(np.square(state.velocity)) / 0.04 - 1) < 4 * np.sqrt(2 / 10_000)


# The noise of the gradient


@pytest.mark.parametrize("batch_size", [4, 7, 12])
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


@pytest.mark.parametrize("at_once", [1, 5, 100])
def test_it_does_not_depend_on_how_many_gradients_are_held(at_once):
    target = network(rows=30)
    position = jnp.asarray(np.random.default_rng(2).normal(size=target.dim))
    rows = jax.tree.map(lambda leaf: leaf[:10], target.rows())
    whole = gradient_noise(target, position, rows, at_once=2)
    np.testing.assert_allclose(gradient_noise(target, position, rows, at_once=at_once), whole, rtol=1e-9)


def test_of_all_rows_or_of_one_there_is_nothing_to_tell():
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
    np.testing.assert_allclose(model.variance(first.noise), once, rtol=1e-6)  # no bias towards 0 at the start


def test_coordinates_whose_noise_outweighs_friction_are_counted():
    target = exact_gaussian([1.0, 1.0, 1.0, 1.0])
    noise = noise_models.GivenNoise([0.0, 2 * 0.3 / 0.01 - 1e-3, 2 * 0.3 / 0.01 + 1e-3, 1e6])
    kernel = SGHMC(learning_rate=0.01, momentum_decay=0.3, noise=noise, batch_size=2, steps_per_draw=4)
    with pytest.warns(UserWarning, match="outweighs the friction in 50 %"):
        found = run(target, kernel, num_draws=10)
    np.testing.assert_allclose(found.curve["clipped"], 0.5)
    np.testing.assert_allclose(found.samples.stats["clipped"], 0.5)


def test_a_given_noise_must_fit():
    with pytest.raises(SettingError, match="has 3 entries, but positions have 2"):
        run(
            exact_gaussian([1.0, 1.0]), SGHMC(learning_rate=0.1, batch_size=2, noise=noise_models.GivenNoise([1, 2, 3]))
        )
    for bad in (-1.0, float("nan"), np.ones((2, 2))):
        with pytest.raises(SettingError, match="GivenNoise"):
            noise_models.GivenNoise(bad)


# SG-NUTS


def test_sg_nuts_on_exact_gradients_and_little_friction_is_near_nuts():
    """No exactness is claimed; at a small step and little friction its moments are close."""
    target = exact_gaussian([1.0, 0.25])
    kernel = SGNUTS(learning_rate=0.01, momentum_decay=0.001, max_doublings=6, batch_size=2, steps_per_draw=1)
    found = run(target, kernel, num_warmup=50, num_draws=4000).samples
    variance = np.mean(np.asarray(found.positions, float) ** 2, axis=(0, 1))
    np.testing.assert_allclose(variance, [1.0, 4.0], rtol=0.15)
    assert np.all(found.stats["gradients"] >= 2)


def test_kernels_say_what_a_quadratic_is_worth():
    """The potential that a step reports is the minibatch's where its gradient was taken."""
    target = Target.from_terms(Quadratic(jnp.ones(1)), lambda q, rows: 0 * rows, jnp.zeros(4), jnp.zeros(1))
    for kernel in (SGLD(learning_rate=0.1), SGHMC(learning_rate=0.1)):
        state = kernel.init(jax.random.key(0), target, jnp.full(1, 3.0), jnp.asarray(0.1))
        _, info = kernel.step(jax.random.key(0), target, state, target.rows(), Pace(jnp.asarray(0.1), jnp.asarray(0)))
        assert float(info.potential) == 4.5
        assert int(info.gradients) == 1
