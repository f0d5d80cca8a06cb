"""What a warm-up learns, against plain recursions and known numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import NUTS, Target
from ergonet._errors import SettingError
from ergonet.adaptation import dual_averaging, welford
from ergonet.adaptation.initial_step import find_first_step
from ergonet.adaptation.length import LengthLearner
from ergonet.adaptation.metric import MetricLearner
from ergonet.adaptation.recipes import burn_in_then_step_size, check_num_warmup, stan_windows, step_size_only
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from ergonet.hamiltonian.metric import first_metric, shrunk_covariance
from ergonet.samplers.base import WarmupNeeds
from tests.sampling import gaussian_target
from tests.stages import slow


def needs(*, metric=True, num_steps=False):
    return WarmupNeeds.of(0.8, step_size=True, metric=metric, num_steps=num_steps)


def learns(stage, kind):
    return any(isinstance(learner, kind) for learner in stage.learners)


def settles(stage):
    return any(learner.settles for learner in stage.learners if isinstance(learner, StepSizeLearner))


def sizes(warmup, *, metric_only=False):
    return [s.num_transitions for s in warmup.stages if learns(s, MetricLearner) or not metric_only]


def test_dual_averaging_is_the_plain_recursion():
    acceptances = np.random.default_rng(0).random(60)
    state = dual_averaging.restart(jnp.asarray(0.3))
    mu, mean, log_average = math.log(10 * 0.3), 0.0, 0.0
    for t, acceptance in enumerate(acceptances, start=1):
        state, step_size = dual_averaging.update(state, jnp.asarray(acceptance, jnp.float32), 0.8)
        mean += (0.8 - acceptance - mean) / (t + 10)
        log_step = mu - math.sqrt(t) / 0.05 * mean
        weight = t**-0.75
        log_average = weight * log_step + (1 - weight) * log_average
        np.testing.assert_allclose(step_size, math.exp(log_step), rtol=1e-4)
        np.testing.assert_allclose(dual_averaging.averaged(state), math.exp(log_average), rtol=1e-4)


def test_dual_averaging_finds_the_step_of_an_acceptance_curve():
    state, step_size = dual_averaging.restart(jnp.asarray(1.0)), jnp.asarray(1.0)
    for _ in range(400):
        state, step_size = dual_averaging.update(state, jnp.exp(-step_size), 0.8)
    np.testing.assert_allclose(dual_averaging.averaged(state), -math.log(0.8), rtol=0.05)


def test_a_recursion_that_settles_goes_on_from_its_average_with_a_small_gain():
    state = dual_averaging.restart(jnp.asarray(0.3))
    for acceptance in (0.2, 0.9, 0.7):
        state, _ = dual_averaging.update(state, jnp.asarray(acceptance), 0.8)
    log_step = math.log(float(dual_averaging.averaged(state)))
    for t, acceptance in enumerate((0.5, 1.0, 0.7), start=1):
        state, step_size = dual_averaging.update(state, jnp.asarray(acceptance), 0.8, settling=jnp.asarray(True))
        log_step += (acceptance - 0.8) / (0.2 * (t + 10))
        np.testing.assert_allclose(step_size, math.exp(log_step), rtol=1e-4)
        np.testing.assert_allclose(dual_averaging.averaged(state), math.exp(log_step), rtol=1e-4)


def test_a_divergence_limits_a_step_size_that_settles():
    def after(diverging, *, settling):
        state, step_size = dual_averaging.restart(jnp.asarray(0.3)), jnp.asarray(0.3)
        for flag in (diverging, *([False] * 50)):
            state, step_size = dual_averaging.update(
                state, jnp.asarray(1.0), 0.8, settling=jnp.asarray(settling), diverging=jnp.asarray(flag)
            )
        return float(step_size)

    np.testing.assert_allclose(after(True, settling=True), 0.3 * float(dual_averaging.stable_fraction(0.8)), rtol=1e-4)
    assert after(False, settling=True) > 0.5
    assert after(True, settling=False) == after(False, settling=False)


@pytest.mark.parametrize("target", [0.7, 0.8, 0.95])
def test_the_stable_fraction_is_where_an_oscillator_has_the_target_acceptance(target):
    """Leapfrog conserves p^2 + (1 - r^2) w^2 q^2; the phase at the end of long trajectories is uniform."""
    rng = np.random.default_rng(0)
    (momentum, position), phase = rng.normal(size=(2, 100_000)), rng.uniform(0, 2 * np.pi, 100_000)

    def acceptance(fraction):
        square = (momentum**2 / (1 - fraction**2) + position**2) * np.cos(phase) ** 2
        return np.minimum(1, np.exp(-0.5 * fraction**2 * (square - position**2))).mean()

    fraction = float(dual_averaging.stable_fraction(target))
    assert acceptance(1.03 * fraction) < target < acceptance(0.97 * fraction)


@pytest.mark.slow
@pytest.mark.parametrize(("settling", "low", "high"), [(False, 0.85, 0.92), (True, 0.79, 0.835)])
def test_a_last_stage_that_settles_leaves_the_acceptance_that_was_asked_for(settling, low, high):
    """Noisy acceptances of a curve as a network's: 1 / (1 + e^4 / 4), which is 0.8 at e = 1; 400 chains."""

    def curve(step_size):
        return 1 / (1 + 0.25 * step_size**4)

    def chain(key):
        def body(carry, noise):
            state, step_size = carry
            acceptance = jnp.clip(curve(step_size) + 0.15 * noise, 0, 1)
            return dual_averaging.update(state, acceptance, 0.8, settling=jnp.asarray(settling)), None

        first = jnp.asarray(1.0)
        noises = jax.random.normal(key, (50,))
        (state, _), _ = jax.lax.scan(body, (dual_averaging.restart(first), first), noises)
        return curve(dual_averaging.averaged(state))

    realized = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 400))
    assert low < float(realized.mean()) < high


@pytest.mark.parametrize("shape", [(5,), (5, 5), (0,)])
def test_welford_is_numpy(shape):
    draws = np.random.default_rng(1).normal(size=(200, 5)) * [1, 2, 3, 0.1, 10] + [5, 0, -3, 100, 0]
    moments = welford.blank(jnp.zeros(5), jnp.zeros(shape))
    for row in draws:
        moments = welford.observe(moments, jnp.asarray(row, jnp.float32))
    np.testing.assert_allclose(moments.mean, draws.mean(axis=0), rtol=1e-4, atol=1e-3)
    assert float(moments.count) == 200
    if shape == (0,):
        assert moments.squares.shape == (0,)
        return
    covariance = np.cov(draws.T) if len(shape) == 2 else draws.var(axis=0, ddof=1)
    floor = np.eye(5) if len(shape) == 2 else np.ones(5)
    expected = 200 / 205 * covariance + 1e-3 * 5 / 205 * floor
    learned = shrunk_covariance(moments.count, moments.squares)
    np.testing.assert_allclose(learned, expected, rtol=2e-3, atol=1e-3)


def learned_metric(name, positions, gradients):
    """The inverse mass matrix that a warm-up would make of these draws."""
    rows = jnp.asarray(positions, jnp.float32), jnp.asarray(gradients, jnp.float32)
    metric = first_metric(name, rows[0][0])
    moments = welford.blank(metric.observed(rows[0][0], rows[1][0]), metric.blank_moments(rows[0][0]))
    for position, gradient in zip(*rows, strict=True):
        moments = welford.observe(moments, metric.observed(position, gradient))
    learned = metric.learned(moments.count, moments.mean, moments.squares)
    assert jax.tree.structure(learned) == jax.tree.structure(metric)
    return np.asarray(learned.inverse_mass_matrix(rows[0][0]))


@pytest.mark.parametrize("count", [3, 40])
def test_gradients_tell_the_variances_of_independent_normals_from_few_draws(count):
    variances, mean = np.geomspace(1e-4, 1e4, 9), np.linspace(-1, 2, 9)
    positions = mean + np.sqrt(variances) * np.random.default_rng(2).normal(size=(count, 9))
    learned = learned_metric("diagonal-gradient", positions, (positions - mean) / variances)
    np.testing.assert_allclose(learned, variances, rtol=1e-3)
    assert np.max(np.abs(learned_metric("diagonal", positions, positions) / variances - 1)) > 0.05


@pytest.mark.slow
def test_gradients_of_a_correlated_normal_give_the_closed_form():
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(4, 4)) * [0.1, 1, 3, 1]
    covariance = factor @ factor.T
    precision = np.linalg.inv(covariance)
    positions = rng.normal(size=(4000, 4)) @ factor.T
    learned = learned_metric("diagonal-gradient", positions, positions @ precision)
    expected = np.sqrt(np.diag(covariance) / np.diag(precision))
    np.testing.assert_allclose(learned, expected, rtol=0.1)
    assert np.max(expected / np.diag(covariance)) < 0.7  # which the variances alone would not give


@pytest.mark.parametrize("constant", [0.0, 3.0, 3e4])
def test_a_coordinate_whose_gradient_is_constant_gets_its_variance(constant):
    rng = np.random.default_rng(4)
    positions = rng.normal(size=(30, 3)) * [2.0, 0.5, 1.0]
    gradients = positions / [4.0, 0.25, 1.0]
    gradients[:, 0] = constant * (1 + 1e-6 * rng.normal(size=30))  # constant but for rounding
    learned = learned_metric("diagonal-gradient", positions, gradients)
    np.testing.assert_allclose(learned[1:], [0.25, 1.0], rtol=1e-3)
    np.testing.assert_allclose(learned[0], learned_metric("diagonal", positions, gradients)[0], rtol=1e-5)


def test_draws_that_do_not_move_and_gradients_that_are_too_large_leave_a_usable_metric():
    positions = np.random.default_rng(5).normal(size=(12, 3))
    gradients = positions.copy()
    positions[:, 0] = 1.5
    gradients[:, 1] *= 1e30  # their squares are infinite in float32
    gradients[:, 2] *= 1e-30  # and these are 0
    learned = learned_metric("diagonal-gradient", positions, gradients)
    assert np.all(np.isfinite(learned))
    assert np.all(learned > 0)


def test_stan_windows_of_a_thousand():
    warmup = stan_windows(needs(), 1000)
    assert sizes(warmup) == [75, 25, 50, 100, 200, 500, 50]
    assert sizes(warmup, metric_only=True) == [25, 50, 100, 200, 500]
    assert warmup.num_transitions == 1000
    assert warmup.target_acceptance == 0.8


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (150, [75, 25, 50]),
        (200, [75, 25, 50, 50]),
        (500, [75, 25, 50, 100, 200, 50]),
        (600, [75, 25, 50, 100, 300, 50]),
        (100, [15, 75, 10]),
        (20, [3, 15, 2]),
        (19, [10, 9]),
        (1, [1]),
        (0, []),
    ],
)
def test_stan_windows_of_other_lengths(total, expected):
    assert sizes(stan_windows(needs(), total)) == expected


@pytest.mark.parametrize("total", [1, 2, 3, 10, 33, 100, 999])
def test_every_warmup_has_the_transitions_that_were_asked_for(total):
    for options in ({}, {"num_steps": True}, {"metric": False, "num_steps": True}):
        warmup = stan_windows(needs(**options), total)
        assert warmup.num_transitions == total
        assert all(stage.num_transitions >= 1 for stage in warmup.stages)
        assert not learns(warmup.stages[-1], MetricLearner)
        assert all(learns(stage, LengthLearner) for stage in warmup.stages[:-1] if settles(stage))
        assert settles(warmup.stages[-1]) or total < 4
        lengths = [s.num_transitions for s in warmup.stages if learns(s, LengthLearner)]
        share = round(0.3 * total)
        assert lengths == ([share - round(0.25 * share)] if "num_steps" in options and share else [])


@pytest.mark.parametrize("total", [4, 300, slow(33)])
def test_a_length_is_tuned_with_a_step_size_that_has_been_found_and_before_it_settles(total):
    for options in ({"metric": False}, {"metric": True}):
        stages = stan_windows(needs(num_steps=True, **options), total).stages
        (place,) = [index for index, stage in enumerate(stages) if learns(stage, LengthLearner)]
        assert learns(stages[place], StepSizeLearner)
        assert place > 0
        assert not any(learns(stage, MetricLearner) for stage in stages[place:])
        assert all(settles(stage) for stage in stages[place:])
        assert learns(stages[place - 1], StepSizeLearner)
        assert not settles(stages[place - 1])


def test_nothing_to_learn_is_a_step_size_recipe_and_a_step_size_recipe_too():
    assert sizes(stan_windows(needs(metric=False), 300)) == [250, 50]
    only = step_size_only(needs(num_steps=True), 40)
    assert sizes(only) == [20, 20]
    assert all([type(one) for one in stage.learners] == [StepSizeLearner] for stage in only.stages)
    assert step_size_only(needs(), 0).stages == ()


@pytest.mark.parametrize(
    ("total", "share", "expected"),
    [
        (1000, 0.2, [(200, False), (750, True), (50, True)]),
        (10, 0.0, [(5, True), (5, True)]),
        (1, 0.5, [(1, True)]),
        (0, 0.2, []),
    ],
)
def test_a_burn_in_tunes_nothing_and_then_the_step_size_alone(total, share, expected):
    warmup = burn_in_then_step_size(needs(num_steps=True), total, burn_in=share)
    assert [(stage.num_transitions, learns(stage, StepSizeLearner)) for stage in warmup.stages] == expected
    assert all(len(stage.learners) <= 1 for stage in warmup.stages)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_an_impossible_burn_in_is_refused(share):
    with pytest.raises(SettingError, match=r"burn_in=...\)` must be at least 0 and below 1"):
        burn_in_then_step_size(needs(), 10, burn_in=share)


@pytest.mark.slow
def test_a_burn_in_keeps_the_first_step_and_the_metric():
    kernel, target = NUTS(max_doublings=5), gaussian_target()
    recipe = burn_in_then_step_size(kernel.warmup(), 100)
    samples = ergonet.sample(target, kernel, warmup=recipe, num_chains=1, num_draws=30, seed=2, progress=False)
    steps = samples.warmup_stats["step_size"][0]
    assert np.ptp(steps[:20]) == 0 < np.ptp(steps[20:])
    np.testing.assert_array_equal(samples.tuning["inverse_mass_matrix"], 1.0)
    given = NUTS(max_doublings=5, step_size=0.25)
    recipe = burn_in_then_step_size(given.warmup(), 20)
    samples = ergonet.sample(target, given, warmup=recipe, num_chains=1, num_draws=10, seed=2, progress=False)
    np.testing.assert_array_equal(samples.warmup_stats["step_size"], np.float32(0.25))


@pytest.mark.parametrize("bad", [-1, 2.0, "many", True, None])
def test_a_bad_number_of_warmup_transitions_is_refused(bad):
    with pytest.raises(SettingError, match=r"`num_warmup` must be an integer of at least 0"):
        check_num_warmup(bad)


def first_step(logdensity, start, kernel=None):
    target = Target.from_logdensity(logdensity, jnp.zeros(3))
    kernel, position = kernel or NUTS(), jnp.asarray(start, jnp.float32)
    state, tuning = kernel.init(target, position), kernel.tuning(target, position)
    return float(find_first_step(kernel, jax.random.key(0), target, state, tuning))


@pytest.mark.parametrize("scale", [1e-3, slow(1.0), slow(1e3)])
def test_the_first_step_has_the_scale_of_the_density(scale):
    found = first_step(lambda q: -0.5 * jnp.sum((q / scale) ** 2), jnp.full(3, scale))
    assert 0.1 * scale < found < 10 * scale


@pytest.mark.parametrize(
    "logdensity",
    [
        lambda q: 0.0 * jnp.sum(q),
        lambda q: jnp.where(jnp.all(q == 0), 0.0, jnp.nan),
        lambda q: jnp.where(jnp.all(q == 0), 0.0, -jnp.inf),
        lambda q: jnp.where(jnp.all(q == 0), 0.0, jnp.inf),
        lambda q: -1e30 * jnp.sum(q**2),
        jnp.sum,
    ],
    ids=["flat", "nan", "nothing", "infinite", "needle", "improper"],
)
def test_the_search_for_a_first_step_ends_on_any_density(logdensity):
    found = first_step(logdensity, jnp.zeros(3))
    assert np.isfinite(found)
    assert 2.0**-50 <= found <= 2.0**50


def test_an_infinite_density_does_not_look_like_an_accepted_step():
    found = first_step(lambda q: jnp.where(jnp.all(jnp.abs(q) < 0.5), 0.0, jnp.inf), jnp.zeros(3))
    assert found < 1


@pytest.mark.slow
def test_a_warmup_learns_the_scales_and_the_acceptance_that_was_asked_for():
    scale = np.array([0.01, 1.0, 100.0], np.float32)
    samples = ergonet.sample(
        gaussian_target(scale), NUTS(target_acceptance=0.9), num_warmup=600, num_draws=400, seed=4, progress=False
    )
    ratio = samples.tuning["inverse_mass_matrix"] / scale**2
    assert np.all((ratio > 0.4) & (ratio < 2.5))
    assert 0.85 < samples.stats["acceptance_rate"].mean() < 0.98


def test_a_recipe_of_ones_own_is_followed():
    step = StepSizeLearner(0.8)
    recipe = Warmup((Stage("metric", 120, (MetricLearner(), step)), Stage("step", 60, (step,))))
    samples = ergonet.sample(
        gaussian_target(), NUTS(), warmup=recipe, num_chains=1, num_draws=20, seed=1, progress=False
    )
    assert samples.warmup_stats["lp"].shape == (1, 180)
    assert samples.about["num_warmup"] == 180
    assert np.ptp(samples.tuning["inverse_mass_matrix"]) > 0.3
