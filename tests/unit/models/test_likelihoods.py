"""Likelihoods of counts, ordered classes, heavy tails and bounded targets against SciPy; and those of one's own."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet._errors import CapabilityError, DataError, SettingError
from ergonet.target.capabilities import GibbsBlock, require
from tests.stages import cases

F = np.array([[-1.0, 0.0, 0.5, 2.0, 4.0], [1.0, -2.0, 0.3, -0.5, 0.0]], np.float32)
MEAN, SHARE = np.exp(F[0], dtype=float), 1 / (1 + np.exp(-F[0].astype(float)))
COUNTS, REALS, SHARES = (
    [[0], [1], [2], [8], [40]],
    [[-3.0], [0.1], [0.4], [2.5], [9.0]],
    [[0.02], [0.3], [0.5], [0.8], [0.99]],
)


def gated(known, count):
    """Log probability of a count with extra zeros."""
    gate = 1 / (1 + np.exp(-F[1].astype(float)))
    return np.log(gate * (count == 0) + (1 - gate) * known.pmf(count))


def known_cases():
    """Likelihood, targets, and SciPy's distribution of them."""
    negative = stats.nbinom(1 / 0.4, 1 / (1 + 0.4 * 3 * MEAN))
    return {
        "poisson": (likelihoods.Poisson(unit=3.0), COUNTS, stats.poisson(3 * MEAN)),
        "negative-binomial": (likelihoods.NegativeBinomial(dispersion=0.4, unit=3.0), COUNTS, negative),
        "student-t": (likelihoods.StudentT(scale=0.7, degrees=3.5), REALS, stats.t(3.5, F[0], 0.7)),
        "log-normal": (likelihoods.LogNormal(scale=0.7), np.exp(REALS), stats.lognorm(0.7, scale=MEAN)),
        "beta": (likelihoods.Beta(concentration=5.0), SHARES, stats.beta(5 * SHARE, 5 * (1 - SHARE))),
    }


CASES = tuple(known_cases())


@pytest.mark.parametrize("name", cases(CASES, quick=["negative-binomial", "log-normal"]))
def test_densities_moments_and_distribution_functions_are_those_of_scipy(name):
    likelihood, y, known = known_cases()[name]
    outputs = jnp.asarray(F[:1])
    targets = likelihood.prepare(y, 1)
    log_density = known.logpmf if likelihood.is_discrete else known.logpdf
    value = np.asarray(y)[:, 0].astype(np.float32)
    np.testing.assert_allclose(likelihood.log_prob({}, outputs, targets), log_density(value), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(likelihood.mean({}, outputs)[0], known.mean(), rtol=1e-5)
    np.testing.assert_allclose(likelihood.variance({}, outputs)[0], known.var(), rtol=1e-4)
    np.testing.assert_allclose(likelihood.cdf({}, outputs, targets)[0], known.cdf(value), atol=2e-5)
    below = likelihood.cdf({}, outputs, targets - 1)
    np.testing.assert_allclose(below[0], known.cdf(value - 1), atol=2e-5)


@pytest.mark.parametrize("name", cases(CASES, quick=["student-t"]))
def test_quantiles_are_those_of_scipy(name):
    likelihood, _, known = known_cases()[name]
    found = jax.jit(lambda level: likelihood.quantile({}, jnp.asarray(F[:1]), level))
    for level in (0.05, 0.5, 0.93):
        np.testing.assert_allclose(found(level)[0], known.ppf(level), rtol=1e-4)


@pytest.mark.parametrize("name", cases(CASES, quick=["log-normal"]))
def test_samples_have_the_distribution(name):
    likelihood, _, known = known_cases()[name]
    drawn = np.asarray(likelihood.sample(jax.random.key(1), {}, jnp.repeat(F[:1, 1:2], 4000, axis=1)))[0]
    single = type(known.dist)().freeze(*(np.ravel(one)[1] if np.size(one) > 1 else one for one in known.args), **{
        key: np.ravel(one)[1] if np.size(one) > 1 else one for key, one in known.kwds.items()
    })  # fmt: skip
    jumps = single.pmf(drawn) * np.random.default_rng(0).uniform(size=4000) if likelihood.is_discrete else 0.0
    assert stats.kstest(single.cdf(drawn) - jumps, "uniform").statistic < 2.3 / np.sqrt(4000)


@pytest.mark.slow
def test_extra_zeros_add_to_the_zeros():
    for likelihood in (likelihoods.ZeroInflatedPoisson(), likelihoods.ZeroInflatedNegativeBinomial(dispersion=0.4)):
        known: Any = (
            stats.poisson(MEAN) if "Poisson" in repr(likelihood) else stats.nbinom(1 / 0.4, 1 / (1 + 0.4 * MEAN))
        )
        targets = likelihood.prepare(COUNTS, 2)
        expected = gated(known, np.asarray(COUNTS)[:, 0])
        np.testing.assert_allclose(likelihood.log_prob({}, jnp.asarray(F), targets), expected, rtol=1e-4)
        gate = 1 / (1 + np.exp(-F[1].astype(float)))
        expected = gate + (1 - gate) * known.cdf(np.asarray(COUNTS)[:, 0])
        np.testing.assert_allclose(likelihood.cdf({}, jnp.asarray(F), targets)[0], expected, atol=2e-5)
        np.testing.assert_allclose(likelihood.mean({}, jnp.asarray(F))[0], (1 - gate) * known.mean(), rtol=1e-4)


@pytest.mark.parametrize("dispersion", cases([1e-7, 1e-3, 0.1, 0.13, 5.0], quick=[1e-7]))
def test_the_negative_binomial_density_is_accurate_for_every_dispersion(dispersion):
    likelihood = likelihoods.NegativeBinomial(dispersion=dispersion)
    known: Any = stats.nbinom(1 / dispersion, 1 / (1 + dispersion * MEAN))
    found = likelihood.log_prob({}, jnp.asarray(F[:1]), likelihood.prepare(COUNTS, 1))
    np.testing.assert_allclose(found, known.logpmf(np.asarray(COUNTS)[:, 0]), rtol=2e-5, atol=2e-5)


def test_ordered_classes_have_cumulative_logits():
    likelihood = likelihoods.Ordinal(4)
    own = {"likelihood.unconstrained_shares": jnp.asarray([0.3, -1.0, 0.6])}
    cuts = np.asarray(likelihood.cut_points(own), float)
    assert np.all(np.diff(cuts) > 0)
    below = 1 / (1 + np.exp(F[0] - np.append(cuts, np.inf)[:, None]))
    expected = np.diff(below, axis=0, prepend=0)
    np.testing.assert_allclose(likelihood.mean(own, jnp.asarray(F[:1])), expected, rtol=1e-4)
    labels = np.array([0, 3, 1, 2, 2])
    found = likelihood.log_prob(own, jnp.asarray(F[:1]), likelihood.prepare(labels, 1))
    np.testing.assert_allclose(found, np.log(expected[labels, np.arange(5)]), rtol=1e-4)
    np.testing.assert_allclose(
        likelihood.mean(own, jnp.zeros((1, 1)))[:, 0], likelihood.values(own)["shares"], rtol=1e-5
    )
    with pytest.raises(SettingError, match=r"Ordinal\(num_classes=5\)"):
        likelihoods.Ordinal().prepare(labels, 1)


LEARNED = {
    "poisson": (likelihoods.Poisson(), 7),
    "negative-binomial": (likelihoods.NegativeBinomial(), 7),
    "student-t": (likelihoods.StudentT(), 7.0),
    "log-normal": (likelihoods.LogNormal(), 7.0),
    "beta": (likelihoods.Beta(), 0.7),
    "ordinal": (likelihoods.Ordinal(3), 1),
    "zero-inflated-poisson": (likelihoods.ZeroInflatedPoisson(), 0),
    "zero-inflated-negative-binomial": (likelihoods.ZeroInflatedNegativeBinomial(), 0),
}


@pytest.mark.parametrize("name", cases(LEARNED, quick=["student-t", "ordinal"]))
def test_densities_and_gradients_are_finite_at_extreme_outputs(name):
    likelihood, y = LEARNED[name]
    count = likelihood.num_outputs(1)
    ends = np.stack(np.meshgrid(*[[-50.0, 50.0]] * count)).reshape(count, -1)
    targets = likelihood.prepare(np.full(ends.shape[1], y), count)

    def total(outputs, own):
        return jnp.sum(likelihood.log_prob(own, outputs, targets)) + likelihood.log_prior(own)

    own = likelihood.initial_values(jnp.float32)
    value, slopes = jax.value_and_grad(total, argnums=(0, 1))(jnp.asarray(ends, jnp.float32), own)
    assert np.isfinite(value)
    assert all(bool(jnp.all(jnp.isfinite(one))) for one in jax.tree.leaves(slopes))


@pytest.mark.slow
def test_a_prior_of_a_learned_parameter_is_a_density_of_its_coordinate():
    learned = {"a": dist.Normal(1.0, 2.0), "b": dist.Gamma(3.0, 2.0)}
    likelihood = likelihoods.FromDistribution(lambda f, a, b: dist.Normal(f[0] + a, b), learned=learned)
    assert list(likelihood.leaves()) == ["likelihood.a", "likelihood.log_b"]
    found = likelihood.log_prior({"likelihood.a": jnp.asarray(0.3), "likelihood.log_b": jnp.asarray(-0.4)})
    of_a, of_b = cast("tuple[Any, Any]", (stats.norm(1, 2), stats.gamma(3, scale=0.5)))
    expected = of_a.logpdf(0.3) + of_b.logpdf(np.exp(-0.4)) - 0.4
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    drawn = jax.vmap(lambda key: likelihood.sample_prior(key, jnp.float32))(jax.random.split(jax.random.key(0), 2000))
    distance = stats.kstest(np.exp(np.asarray(drawn["likelihood.log_b"], float)), stats.gamma(3, scale=0.5).cdf)
    assert distance.statistic < 2.3 / np.sqrt(2000)
    assert list(likelihood.scales(likelihood.initial_values(jnp.float32))) == ["b"]


@pytest.mark.slow
def test_degrees_of_freedom_stay_above_2():
    likelihood = likelihoods.StudentT(scale=1.0)
    path = "likelihood.unconstrained_degrees"
    with jax.enable_x64(True):
        density = jax.jit(lambda at: jnp.exp(likelihood.log_prior({path: at})))
        mass = integrate.quad(lambda at: float(density(jnp.asarray(at))), -20, 12)[0]
    np.testing.assert_allclose(mass, 1, rtol=1e-5)
    assert likelihood.values({path: jnp.asarray(-9.0)})["degrees"] > 2


def own_negative_binomial(f, dispersion):
    return dist.NegativeBinomial2(jnp.exp(f[0]), 1 / dispersion)


def test_a_likelihood_of_ones_own_does_what_the_built_in_one_does():
    ours = likelihoods.NegativeBinomial()
    own = likelihoods.FromDistribution(own_negative_binomial, learned={"dispersion": dist.Exponential(1.0)})
    parameters, outputs = ours.initial_values(jnp.float32), jnp.asarray(F[:1])
    targets = own.prepare(COUNTS, own.num_outputs(1))
    assert own.is_discrete
    for method in ("log_prob", "mean", "variance", "scales", "leaves"):
        given = {"log_prob": (parameters, outputs, targets), "scales": (parameters,), "leaves": ()}
        arguments = given.get(method, (parameters, outputs))
        expected, found = (getattr(one, method)(*arguments) for one in (ours, own))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), expected, found)


@pytest.mark.slow
def test_without_a_distribution_function_targets_are_simulated():
    own = likelihoods.FromDistribution(lambda f: dist.ZeroInflatedPoisson(0.25, jnp.exp(f[0])))
    outputs = jnp.asarray(F[:1])
    exact = 0.25 + 0.75 * stats.poisson(MEAN).cdf(2)
    found = own.cdf({}, outputs, jnp.full_like(outputs, 2.0))
    np.testing.assert_allclose(found[0], exact, atol=4.5 * 0.5 / np.sqrt(512))
    reached = own.quantile({}, outputs, 0.7)
    assert np.all(np.asarray(own.cdf({}, outputs, reached)) >= 0.7)
    assert np.all(np.asarray(own.cdf({}, outputs, reached - 1)) < 0.7)


@pytest.mark.slow
def test_several_targets_share_the_function():
    own = likelihoods.FromDistribution(lambda f: dist.Normal(f[0], jnp.exp(f[1])), outputs=2)
    same = likelihoods.HeteroscedasticGaussian()
    outputs = jnp.asarray(np.random.default_rng(0).normal(size=(4, 5)), jnp.float32)
    y = np.random.default_rng(1).normal(size=(5, 2))
    theirs = jnp.concatenate([outputs[:2], -2 * outputs[2:]])
    assert own.num_outputs(2) == 4
    np.testing.assert_allclose(
        own.log_prob({}, outputs, own.prepare(y, 4)), same.log_prob({}, theirs, same.prepare(y, 4)), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("likelihood", "y", "complaint"),
    [
        (likelihoods.Poisson(), [0, 3, -1], r"`Poisson\(\)` must be whole numbers of at least 0; row 2 .* has -1,"),
        (likelihoods.NegativeBinomial(), [0, 1.5, 2.5], r"row 1 \(counted from 0\) has 1.5, one of 2 such rows"),
        (likelihoods.LogNormal(), [1.0, 0.0], r"must be numbers above 0; row 1 .* has 0"),
        (likelihoods.Beta(), [0.5, 0.1, 1.0], r"strictly between 0 and 1; row 2 .* has 1"),
        (likelihoods.StudentT(), np.zeros((3, 2)), r"\[rows, 1\]"),
        (likelihoods.FromDistribution(lambda f: dist.Gamma(2.0, jnp.exp(f[0]))), [1, -2], r"row 1 .* has -2"),
    ],
)
def test_impossible_targets_are_named(likelihood, y, complaint):
    with pytest.raises(DataError, match=complaint):
        likelihood.prepare(np.asarray(y), 1)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: likelihoods.FromDistribution(3), "must be a function of the outputs, got 3"),
        (lambda: likelihoods.FromDistribution(lambda f: f), "must give a NumPyro distribution"),
        (lambda: likelihoods.FromDistribution(lambda f: dist.Poisson(jnp.exp(f))), r"batch shape \[targets, rows\]"),
        (
            lambda: likelihoods.FromDistribution(own_negative_binomial, learned={"dispersion": 1.0}),
            "continuous NumPyro",
        ),
        (lambda: likelihoods.FromDistribution(lambda f: dist.Normal(f[0], 1.0), outputs=0), "at least 1, got 0"),
        (lambda: likelihoods.StudentT(degrees=2.0), "must be above 2"),
        (lambda: likelihoods.Poisson(unit=0.0), "above 0"),
        (lambda: likelihoods.Ordinal(1), "at least 2"),
    ],
)
def test_impossible_likelihoods_are_refused(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()


def test_parameters_without_conjugate_priors_have_no_gibbs_draws():
    prior = priors.NormalGamma(parametrization="centered")
    model = BayesianNetwork(MLP((1, 2, 1)), prior, likelihoods.NegativeBinomial())
    posterior = model.condition(np.zeros((3, 1)), [0, 1, 2])
    with pytest.raises(
        CapabilityError, match=r"learned parameters of NegativeBinomial \(dispersion\) have no conjugate"
    ):
        require(posterior, GibbsBlock, "GibbsHMC")


@pytest.mark.parametrize("likelihood", [likelihoods.Poisson(), likelihoods.NegativeBinomial(dispersion=0.5)], ids=str)
def test_counts_of_rows_far_out_have_finite_predictions(likelihood):
    outputs = jnp.asarray([[50.0, 300.0, 1e6, 1e30]])
    value = jnp.asarray([[3.0] * 4])
    for found in (likelihood.mean({}, outputs), likelihood.variance({}, outputs), likelihood.cdf({}, outputs, value)):
        assert np.isfinite(np.asarray(found)).all()
    np.testing.assert_allclose(likelihood.cdf({}, outputs, value), 0.0, atol=1e-6)
