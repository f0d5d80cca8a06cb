"""Tempered posteriors: T = 1 is the posterior, exactly; a linear network under Gaussian noise has a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import (
    HMC,
    MLP,
    NUTS,
    BayesianNetwork,
    GibbsHMC,
    Samples,
    comparison,
    likelihoods,
    predict,
    priors,
    sample,
    tempered,
)
from ergonet._errors import CapabilityError, SettingError
from ergonet.models.tempered import Tempering
from ergonet.target.capabilities import GibbsBlock, Simulation
from tests.stages import cases

NOISE, SCALE, ROWS = 0.5, 1.3, 21
FORMS = tuple(Tempering)


def data():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, 3))
    return x, x @ [1.0, -0.5, 0.2] + 0.3 + NOISE * rng.normal(size=ROWS)


def linear(prior=None, noise: float | None = NOISE):
    model = BayesianNetwork(MLP((3, 1)), prior or priors.Normal(SCALE, 0.2), likelihoods.Gaussian(noise=noise))
    return model.condition(*data())


def closed_form(temperature, form):
    """Mean and covariance of the weights and the bias at a temperature."""
    x, y = data()
    columns = np.column_stack([x, np.ones(ROWS)])
    of_prior = 1.0 if form == "likelihood" else 1 / temperature
    precision = columns.T @ columns / NOISE**2 / temperature + of_prior * np.eye(4) / SCALE**2
    covariance = np.linalg.inv(precision)
    return covariance @ (columns.T @ y / NOISE**2 / temperature + of_prior * 0.2 / SCALE**2), covariance


@pytest.mark.parametrize("temperature", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("form", FORMS)
def test_a_linear_network_has_the_density_of_its_closed_form(form, temperature):
    """Gradient and curvature of the potential at random places give mean and covariance."""
    with jax.enable_x64(True):
        target = tempered(linear(), temperature, form)
        position = jnp.asarray(np.random.default_rng(0).normal(size=4))
        curvature = np.asarray(jax.hessian(target.potential)(position))
        gradient, position = np.asarray(jax.grad(target.potential)(position)), np.asarray(position)
    mean, covariance = closed_form(temperature, form)
    np.testing.assert_allclose(np.linalg.inv(curvature), covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(position - np.linalg.solve(curvature, gradient), mean, rtol=1e-6)


@pytest.mark.parametrize("form", cases(FORMS, quick=FORMS[:1]))
def test_at_temperature_one_every_number_is_that_of_the_posterior(form):
    plain = linear(priors.NormalGamma(), noise=None)
    target = tempered(plain, 1, form)
    positions = jax.random.normal(jax.random.key(1), (5, plain.dim))
    rows = jax.tree.map(lambda leaf: leaf[:7], plain.rows())
    reference = plain.reference_point(positions[0])
    found = target.reference_point(positions[0])
    assert found.potential == reference.potential
    for one, other in (
        (target.potential, plain.potential),
        (target.relative_to(found).potential, plain.relative_to(reference).potential),
        (lambda q: target.minibatch_potential(q, rows), lambda q: plain.minibatch_potential(q, rows)),
    ):
        values, expected = (jax.jit(jax.vmap(jax.value_and_grad(function)))(positions) for function in (one, other))
        np.testing.assert_array_equal(values[0], expected[0])
        np.testing.assert_array_equal(values[1], expected[1])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_draws_at_temperature_one_are_those_of_the_posterior(form):
    run = {"num_chains": 2, "num_warmup": 60, "num_draws": 30, "seed": 3, "progress": False}
    plain = linear()
    np.testing.assert_array_equal(
        sample(tempered(plain, 1.0, form), NUTS(), **run).positions, sample(plain, NUTS(), **run).positions
    )


def test_the_two_forms_differ_in_the_prior():
    plain = linear()
    position = jnp.asarray([0.3, -0.2, 0.1, 0.4])
    prior, rows = float(plain.model.log_prior(position)), float(plain.log_likelihood(position).sum())
    for form, expected in (("posterior", -(prior + rows) / 0.1), ("likelihood", -prior - rows / 0.1)):
        target = tempered(plain, 0.1, form)
        assert float(target.potential(position)) == pytest.approx(expected, rel=1e-5)
        assert float(target.minibatch_potential(position, plain.rows())) == pytest.approx(expected, rel=1e-5)
        apart = target.relative_to(target.reference_point(position)).potential(position + 0.1)
        whole = target.potential(position + 0.1) - target.potential(position)
        assert float(apart) == pytest.approx(float(whole), abs=1e-3)
    np.testing.assert_array_equal(target.log_likelihood(position), plain.log_likelihood(position))
    assert "likelihood_power=10" in repr(target)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_sampler_finds_the_moments_of_the_closed_form(form):
    """False alarms: |z| > 4.5 for 8 moments, about 1 in 20 000."""
    kernel = HMC(num_steps=8)
    found = sample(
        tempered(linear(), 0.1, form), kernel, num_chains=4, num_warmup=400, num_draws=1000, seed=5, progress=False
    )
    draws = np.asarray(found.positions, np.float64)
    mean, covariance = closed_form(0.1, form)
    for values, expected in ((draws, mean), ((draws - mean) ** 2, np.diag(covariance))):
        batches = values.reshape(4, 20, 50, 4).mean(axis=2).reshape(80, 4)  # batch means, 50 draws each
        z = (batches.mean(axis=0) - expected) / (batches.std(axis=0, ddof=1) / np.sqrt(80))
        assert np.abs(z).max() < 4.5, z


@pytest.mark.slow
def test_predictions_are_those_of_the_likelihood_as_it_is():
    plain = linear()
    samples = sample(tempered(plain, 1e-3), NUTS(), num_chains=2, num_warmup=200, num_draws=50, seed=0, progress=False)
    found = predict(samples, data()[0][:4])
    np.testing.assert_allclose(np.asarray(found.noise_sd), NOISE, rtol=1e-3)
    assert np.all(np.asarray(found.sd) < NOISE * 1.01)  # hardly any spread between draws
    assert samples.convergence().max_rhat < 1.2


def test_what_is_of_the_posterior_is_refused():
    plain = linear(priors.NormalGamma(parametrization="centered"))
    target = tempered(plain, 0.5)
    assert isinstance(plain.capability(GibbsBlock), GibbsBlock)
    assert not isinstance(target.capability(GibbsBlock), GibbsBlock)
    with pytest.raises(CapabilityError, match="not of the tempered one"):
        sample(target, GibbsHMC(), num_chains=1, num_warmup=2, num_draws=2, seed=0, progress=False)
    assert target.capability(Simulation) is plain.capability(Simulation)
    samples = Samples(np.zeros((1, 4, plain.dim), np.float32), {}, {}, {}, {}, {}, {}, target)
    with pytest.raises(CapabilityError, match="draws of a tempered posterior"):
        comparison.loo(samples)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_temperature_is_above_zero(temperature):
    with pytest.raises(SettingError, match="`temperature` must be a number above 0"):
        tempered(linear(), temperature)


def test_other_arguments_are_checked():
    with pytest.raises(SettingError, match="`form` must be 'posterior' or 'likelihood', got 'prior'"):
        tempered(linear(), 0.1, "prior")
    with pytest.raises(CapabilityError, match=r"from `BayesianNetwork.condition`, got TemperedPosterior"):
        tempered(tempered(linear(), 0.1), 0.1)
