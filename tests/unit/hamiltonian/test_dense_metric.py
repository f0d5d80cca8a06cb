"""A dense metric of few draws, many coordinates and scales far from 1 can be used, and a metric that cannot is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import NUTS, Target
from ergonet._errors import SamplingWarning
from ergonet.adaptation import dual_averaging, welford
from ergonet.adaptation.machine import Adaptations
from ergonet.adaptation.metric import MetricLearner
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from ergonet.hamiltonian.metric import first_metric
from ergonet.inference.chains import evaluate, finish_stage, first_record
from tests.sampling import draw, gaussian_target


def learned(draws):
    """The inverse mass matrix that a dense metric learns of draws, in single precision."""
    rows = jnp.asarray(draws, jnp.float32)
    metric = first_metric("dense", rows[0])
    blank = welford.blank(rows[0], metric.blank_moments(rows[0]))
    moments, _ = jax.lax.scan(lambda so_far, row: (welford.observe(so_far, row), None), blank, rows)
    return np.asarray(metric.learned(moments.count, moments.mean, moments.squares).inverse_mass_matrix(rows[0]))


def spread(inverse_mass_matrix, covariance):
    """The widest standard deviation over the narrowest, in the coordinates that a metric makes."""
    shares = np.real(np.linalg.eigvals(np.linalg.solve(inverse_mass_matrix.astype(np.float64), covariance)))
    return np.sqrt(shares.max() / shares.min())


@pytest.mark.parametrize(("dim", "sd", "count"), [(100, 100, 25), (300, 30, 100), (100, 1000, 50), (100, 1e-3, 25)])
def test_fewer_draws_than_dimensions_make_a_metric_that_is_nearly_round(dim, sd, count):
    draws = sd * np.random.default_rng(0).normal(size=(count, dim))
    inverse_mass_matrix = learned(draws)
    assert np.all(np.isfinite(inverse_mass_matrix))
    variances = count / (count + 5) * draws.var(axis=0, ddof=1) + 1e-3 * 5 / (count + 5)
    np.testing.assert_allclose(np.diag(inverse_mass_matrix), variances, rtol=1e-4)  # which are Stan's
    assert spread(inverse_mass_matrix, sd**2 * np.eye(dim)) < 30


def test_many_draws_make_stans_metric_but_for_rounding():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(5, 5)) * [0.1, 1, 30, 1, 1]
    draws = rng.normal(size=(500, 5)) @ factor.T
    stan = 500 / 505 * np.cov(draws.T) + 1e-3 * 5 / 505 * np.eye(5)
    np.testing.assert_allclose(learned(draws), stan, rtol=1e-3)


@pytest.mark.parametrize(("dim", "count"), [(2, 500), (10, 25), (100, 3), (100, 500)])
def test_draws_along_a_line_make_a_metric_all_the_same(dim, count):
    rng = np.random.default_rng(2)
    draws = 5e4 + 1e4 * rng.normal(size=(count, 1)) * rng.normal(size=dim)
    assert np.all(np.isfinite(learned(draws)))


def test_a_strong_correlation_that_enough_draws_show_is_kept():
    covariance = np.eye(20)
    covariance[0, 1] = covariance[1, 0] = 0.9999
    draws = np.random.default_rng(3).normal(size=(200, 20)) @ np.linalg.cholesky(covariance).T
    assert spread(learned(draws), covariance) < 3


def test_a_dense_warmup_of_fewer_draws_than_wide_dimensions_samples():
    kernel = NUTS(metric="dense", max_doublings=7)
    target = gaussian_target(np.full(100, 100.0))
    samples = draw(kernel, target=target, num_chains=1, num_warmup=150, num_draws=40)
    assert np.all(np.isfinite(samples.tuning["inverse_mass_matrix"]))
    assert samples.stats["diverging"].sum() == 0
    assert 0.5 < samples.stats["acceptance_rate"].mean() < 0.98
    assert 80 < samples.positions.std() < 120


@pytest.mark.parametrize("name", ["diagonal", "diagonal-gradient", "dense"])
def test_a_metric_that_is_not_finite_leaves_the_one_before(name):
    kernel, target = NUTS(metric=name), gaussian_target()
    step = StepSizeLearner(0.8)
    recipe = Warmup((Stage("metric", 50, (MetricLearner(), step)), Stage("step", 50, (step,))))
    stage = Adaptations.of(recipe, kernel.warmup()).stages[0]
    here = evaluate(kernel.evaluate, target, jnp.ones(5))
    record = first_record(kernel, target, stage, jax.random.key(0), here)
    moments = record.memories[0].moments
    broken = welford.Moments(count=moments.count + 50, mean=moments.mean, squares=moments.squares + jnp.inf)
    record = eqx.tree_at(lambda one: one.memories[0].moments, record, broken)
    ended = finish_stage(kernel, target, record, stage)
    assert eqx.tree_equal(ended.tuning.metric, record.tuning.metric)
    assert np.isfinite(ended.tuning.step_size)
    assert float(ended.memories[0].moments.count) == 0
    assert int(ended.memories[0].rejected) == 1
    blank = finish_stage(kernel, target, ended, stage)  # nothing seen: neither renewed nor rejected
    assert int(blank.memories[0].rejected) == 1


def test_a_run_tells_of_a_metric_that_it_rejected():
    """Squares of the positions overflow single precision."""
    wide = 1e20
    target = Target.from_logdensity(lambda q: -jnp.sum((q / wide) ** 2) / 2, jnp.zeros(2))
    kernel = NUTS(step_size=wide / 2, max_doublings=5)
    with pytest.warns(SamplingWarning, match=r"a metric that was not finite \(rejected \d+ times\)"):
        samples = draw(kernel, target=target, num_chains=2, num_warmup=100, num_draws=50)
    np.testing.assert_array_equal(samples.tuning["inverse_mass_matrix"], 1)
    assert samples.diagnostics()["rejected_metrics"] == samples.tuning["rejected_metrics"].sum() >= 2
    assert 0.3 < (samples.positions / wide).std() < 3


@pytest.mark.parametrize("acceptance", [0.0, 1.0])
def test_a_step_size_stays_a_number_however_long_it_is_pushed(acceptance):
    def push(state, _):
        return dual_averaging.update(state, jnp.asarray(acceptance), 0.8)

    state, steps = jax.lax.scan(push, dual_averaging.restart(jnp.asarray(0.1)), None, length=5000)
    restarted, _ = push(dual_averaging.restart(dual_averaging.averaged(state)), None)
    for value in (steps, dual_averaging.averaged(state), restarted.log_average):
        assert np.all(np.isfinite(value))
    assert np.all(np.asarray(steps) > 0)
