"""A log density with a large constant raises an alarm before sampling; one that is merely steep or heavy does not."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet._errors import SamplingWarning
from ergonet.inference import rounding
from ergonet.inference.rounding import rounding_alarm


def plus(constant, dim=3):
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2) + constant, jnp.zeros(dim))


def run(target):
    kernel = HMC(num_steps=2, step_size=0.1, metric="identity")
    return ergonet.sample(target, kernel, num_chains=1, num_warmup=2, num_draws=3, seed=1, progress=False)


@pytest.mark.parametrize("constant", [1e8, -1e8, 3e7, 1e12])
def test_a_large_constant_raises_the_alarm(constant):
    with pytest.warns(SamplingWarning, match="Single precision does not resolve the log density.*Subtract the constan"):
        run(plus(constant))


@pytest.mark.parametrize("constant", [0.0, 1e3, -1e5])
def test_a_small_constant_raises_none(constant):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        run(plus(constant))


@pytest.mark.parametrize("center", [0.0, 1.5e3])
@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1.0, 1e5])
def test_steep_densities_and_far_starts_raise_none(scale, center):
    """Far from the mode the potential is 1e12 and more, but that is not where the draws are."""
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(((q - center) / scale) ** 2), jnp.zeros(4))
    assert rounding_alarm(target, None) is None


def heavy(q):
    return -jnp.sum(jnp.log1p(q**2))


def funnel(q):
    return -0.5 * (q[0] / 3) ** 2 - 0.5 * jnp.sum((q[1:] * jnp.exp(-q[0] / 2)) ** 2) - 0.5 * (q.size - 1) * q[0]


def rosenbrock(q):
    return -100 * jnp.sum((q[1:] - q[:-1] ** 2) ** 2) - jnp.sum((1 - q[:-1]) ** 2)


def bounded(q):
    return jnp.where(jnp.all(q > 0), jnp.sum(jnp.log(q) - q), -jnp.inf)


def improper(q):
    return 1e3 * jnp.sum(q)


def nowhere(q):
    return jnp.sum(q) * jnp.nan


@pytest.mark.parametrize("density", [heavy, funnel, rosenbrock, bounded, improper, nowhere])
@pytest.mark.parametrize("dim", [2, 300])
def test_densities_of_other_shapes_raise_none(density, dim):
    assert rounding_alarm(Target.from_logdensity(density, jnp.zeros(dim)), None) is None


def test_initial_values_are_where_the_look_begins():
    target = Target.from_logdensity(
        lambda q: jnp.where(q[0] > 50, -0.5 * (q[0] - 60) ** 2 - 1e8, -jnp.inf), jnp.ones(1)
    )
    assert rounding_alarm(target, None) is None  # no start is known
    assert rounding_alarm(target, np.full((2, 1), 58.0, np.float32)) is not None


def test_a_program_with_a_large_constant_raises_the_alarm():
    def program(y):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w, 1), obs=y)
        numpyro.factor("constant", jnp.asarray(2e8))

    y = jnp.asarray(np.random.default_rng(0).normal(size=20))
    assert "Subtract the constant" in (rounding_alarm(Target.from_numpyro(program, (y,)), None) or "")


def test_double_precision_needs_no_look(monkeypatch):
    monkeypatch.setattr(rounding, "_neighbors", lambda *_: pytest.fail("looked"))
    with jax.enable_x64(True):
        assert rounding_alarm(plus(1e8), None) is None


def test_targets_that_subtract_a_reference_need_no_look(monkeypatch):
    monkeypatch.setattr(rounding, "_neighbors", lambda *_: pytest.fail("looked"))
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    for prior in (priors.Normal(1.0), priors.NormalGamma()):
        target = BayesianNetwork(MLP((1, 3, 1)), prior, likelihoods.Gaussian()).condition(x, 1e4 * x[:, 0])
        assert rounding_alarm(target, None) is None
    terms = Target.from_terms(lambda q: -jnp.sum(q**2), lambda q, rows: 1e7 - (rows - q[0]) ** 2, x[:, 0], jnp.zeros(1))
    assert rounding_alarm(terms, None) is None


def test_a_density_without_double_precision_is_not_compared():
    def density(q):
        total, _ = jax.lax.scan(lambda sum_, one: (sum_ + one, None), jnp.zeros((), jnp.float32), q)
        return -(total**2) + 1e8

    assert rounding_alarm(Target.from_logdensity(density, jnp.zeros(2)), None) is None


def test_the_look_compiles_once_and_leaves_precision_as_it_was():
    calls = []

    def density(q):
        calls.append(1)
        return -0.5 * jnp.sum(q**2)

    target = Target.from_logdensity(density, jnp.zeros(3))
    assert rounding_alarm(target, None) is None
    count = len(calls)
    assert rounding_alarm(target, np.ones((2, 3), np.float32)) is None
    assert len(calls) == count
    assert not jax.config.jax_enable_x64
    assert jnp.zeros(1).dtype == jnp.float32
