"""A log density that single precision does not resolve raises an alarm; one that is merely steep or heavy does not."""

import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet._errors import SamplingWarning
from ergonet.diagnostics.advice import LARGEST_ROUNDING_ERROR
from ergonet.draws.recorder import Recorder
from ergonet.draws.retention import Every, Last
from ergonet.draws.store import MemoryStore
from ergonet.inference.rounding import RoundingCheck, rounding_error

SMALL, MANY = 2, 300


class Plus(eqx.Module):
    """A normal distribution with a constant, which is a leaf, so that all share their programs."""

    constant: Any

    def __call__(self, q):
        return -0.5 * jnp.sum(q**2) + self.constant


def plus(constant):
    return Target.from_logdensity(Plus(jnp.asarray(constant, jnp.float32)), jnp.zeros(3))


def run(target, num_draws=120, **settings):
    kernel, chosen = HMC(num_steps=2, step_size=0.5, metric="identity"), {"seed": 1, "progress": False} | settings
    return ergonet.sample(target, kernel, num_chains=1, num_warmup=2, num_draws=num_draws, **chosen)


@pytest.mark.parametrize("constant", [1e8, -3e7])
def test_a_large_constant_raises_the_alarm(constant):
    with pytest.warns(SamplingWarning, match="The log density is rounded by about .* Subtract large constants"):
        samples = run(plus(constant))
    assert samples.about["rounding_error"] > LARGEST_ROUNDING_ERROR
    assert samples.diagnostics()["rounding_error"] == samples.about["rounding_error"]


@pytest.mark.parametrize("constant", [0.0, -1e5])
def test_a_small_constant_raises_none(constant):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        assert run(plus(constant)).about["rounding_error"] < 0.01


@pytest.mark.parametrize("num_draws", [120, 130])
def test_a_run_that_is_continued_keeps_the_alarm(num_draws, tmp_path):
    with pytest.warns(SamplingWarning, match="The log density is rounded"):
        error = run(plus(1e8), store=tmp_path / "run").about["rounding_error"]
    with pytest.warns(SamplingWarning, match="The log density is rounded"):
        again = run(plus(1e8), num_draws=num_draws, store=tmp_path / "run", resume=True)
    assert again.about["rounding_error"] == error


def test_a_run_that_keeps_its_last_draws_is_judged_by_these_when_it_is_continued(tmp_path):
    kept: Any = {"store": tmp_path / "run", "retention": Last(115)}
    for num_draws in (120, 130):
        with pytest.warns(SamplingWarning, match="The log density is rounded"):
            run(plus(1e8), num_draws=num_draws, resume=num_draws > 120, **kept)


def test_few_draws_are_not_judged():
    assert "rounding_error" not in run(plus(1e8), num_draws=111).about


def test_terms_that_cancel_raise_the_alarm():
    draws = 2 * np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)

    def density(q):
        rows = jnp.full(1000, 1e5) - 0.5 * jnp.sum(q**2) / 1000
        return jnp.sum(rows) - 1e8

    found = rounding_error(Target.from_logdensity(density, jnp.zeros(3)), draws)
    assert found is not None
    assert found > 1


def normal(q):
    return -0.5 * jnp.sum(q**2)


def heavy(q):
    return -jnp.sum(jnp.log1p(q**2))


def laplace(q):
    return -jnp.sum(jnp.abs(q))


def funnel(q):
    return -0.5 * (q[0] / 3) ** 2 - 0.5 * jnp.sum((q[1:] * jnp.exp(-q[0] / 2)) ** 2) - 0.5 * (q.size - 1) * q[0]


def bounded(q):
    return jnp.where(jnp.all(q > 0), jnp.sum(jnp.log(q) - q), -jnp.inf)


def exact_draws(rng, dim):
    """Draws of each of these densities."""
    log_scale = 3 * rng.normal(size=(7, 1))
    return {
        normal: rng.normal(size=(7, dim)),
        heavy: rng.standard_cauchy((7, dim)),
        laplace: rng.laplace(size=(7, dim)),
        funnel: np.concatenate([log_scale, np.exp(log_scale / 2) * rng.normal(size=(7, dim - 1))], axis=1),
        bounded: rng.gamma(2, size=(7, dim)),
    }


@pytest.mark.parametrize("density", [normal, heavy, laplace, funnel, bounded])
@pytest.mark.parametrize("dim", [SMALL, MANY])
def test_densities_of_many_shapes_raise_none(density, dim):
    target = Target.from_logdensity(density, jnp.zeros(dim))
    for seed in range(10):
        found = rounding_error(target, exact_draws(np.random.default_rng(seed), dim)[density].astype(np.float32))
        assert found is None or found < 0.1


@pytest.mark.parametrize("center", [0.0, 1.5e3])
@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e5])
def test_steep_densities_raise_none(scale, center):
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(((q - center) / scale) ** 2), jnp.zeros(4))
    draws = center + scale * np.random.default_rng(0).normal(size=(7, 4))
    found = rounding_error(target, draws.astype(np.float32))
    assert found is None or found < 0.01


def test_the_sum_over_many_rows_is_resolved():
    y = jnp.asarray(np.random.default_rng(0).normal(size=100_000), jnp.float32)
    target = Target.from_logdensity(lambda q: jnp.sum(-0.5 * (y - q[0]) ** 2 - 0.9), jnp.zeros(1))
    found = rounding_error(target, (100_000**-0.5 * np.random.default_rng(1).normal(size=(7, 1))).astype(np.float32))
    assert found is not None
    assert found < 0.05


def test_chains_that_stand_still_tell_nothing():
    assert rounding_error(plus(1e8), np.ones((7, 3), np.float32)) is None


def test_targets_that_subtract_a_reference_need_no_look():
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    target = BayesianNetwork(MLP((1, 3, 1)), priors.Normal(1.0), likelihoods.Gaussian()).condition(x, 1e4 * x[:, 0])
    recorder = Recorder(MemoryStore(), Every(1), has_curve=False)
    check = RoundingCheck(target, recorder, lambda _: pytest.fail("said something"))
    assert check.notes() == {}
