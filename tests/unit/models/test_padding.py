"""Padding of rows changes no density, and nothing that is returned shows it."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, RunningPrediction, likelihoods, priors
from ergonet.models.network_posterior import NetworkPosterior
from ergonet.target.capabilities import CenteredCurvature, GibbsBlock, NonCenteredCurvature, require
from ergonet.target.padding import padded_index, padded_size
from tests.stages import cases

ROWS = 21  # after padding 24
LIKELIHOODS = {
    "known noise": (likelihoods.Gaussian(0.5), 1),
    "learned noise": (likelihoods.Gaussian(), 2),
    "noise by row": (likelihoods.HeteroscedasticGaussian(), 2),
    "classes": (likelihoods.Categorical(), 3),
    "two classes": (likelihoods.Bernoulli(), 1),
}
GROUPS = "leaf", "incoming", "outgoing"


def pair(likelihood, outputs, prior: Any = priors.Normal(1.0)):  # noqa: B008 - immutable
    """The same posterior with and without padding, and a position; in double precision."""
    rng = np.random.default_rng(1)
    model = BayesianNetwork(MLP((3, 4, outputs)), prior, likelihood)
    if likelihood.is_classification:
        y = rng.integers(0, max(2, outputs), size=ROWS)
    else:
        y = rng.normal(size=(ROWS, outputs if isinstance(likelihood, likelihoods.Gaussian) else outputs // 2))
    padded = model.condition(rng.normal(size=(ROWS, 3)), y)
    plain = NetworkPosterior(model, padded.inputs, padded.targets, padded.reference)
    assert padded.padded_targets.shape[1] == 24
    assert plain.padded_targets.shape[1] == ROWS == plain.num_rows
    return padded, plain, jnp.asarray(0.3 * rng.normal(size=model.dim))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def evaluate(function, *arguments):
    """One quickly compiled program."""
    return jax.jit(partial(function), compiler_options={"xla_backend_optimization_level": 0})(*arguments)


def same(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), one, other)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_density_is_that_of_the_rows_alone(name):
    padded, plain, position = pair(*LIKELIHOODS[name])

    def found(posterior, position):
        reference = posterior.reference_point(0.9 * position)
        there = jax.value_and_grad(posterior.relative_to(reference).potential)(position)
        return jax.value_and_grad(posterior.potential)(position), there, reference

    ours, theirs = (evaluate(found, posterior, position) for posterior in (padded, plain))
    same(ours, theirs)
    same(evaluate(padded.minibatch_potential, position, plain.rows()), theirs[0][0])


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_nothing_that_is_returned_shows_padding(name):
    padded, plain, position = pair(*LIKELIHOODS[name])
    assert padded.num_rows == ROWS
    same(padded.rows(), plain.rows())
    same((padded.inputs, padded.targets), (plain.inputs, plain.targets))
    rows, some = evaluate(plain.log_likelihood, position), jnp.asarray([20, 0, 7])
    assert rows.shape == (ROWS,)
    same(evaluate(padded.log_likelihood, position), rows)
    same(evaluate(padded.log_likelihood, position, some), rows[some])
    same(jax.jit(lambda target: target.take(some))(padded), tuple(leaf[some] for leaf in plain.rows()))


WAYS = {f"{group}, {one}": (group, one) for group in GROUPS for one in ("centered", "non-centered")}


@pytest.mark.parametrize("way", cases(WAYS, quick=["incoming, non-centered"]))
def test_curvatures_and_gibbs_draws_are_those_of_the_rows_alone(way):
    group, parametrization = WAYS[way]
    by_unit = {"*.bias": priors.NormalGamma(0.8, 6.0, "leaf", parametrization)}
    prior = by_unit | {"*": priors.NormalGamma(0.8, 6.0, group, parametrization)}
    padded, plain, position = pair(likelihoods.Gaussian(), 2, prior)
    weights, rest = position[: padded.num_weights], position[padded.num_weights :]
    kind = CenteredCurvature if parametrization == "centered" else NonCenteredCurvature

    def found(posterior):
        curvature = require(posterior, kind, "the test")
        is_conjugate = parametrization == "centered"
        drawn = require(posterior, GibbsBlock, "the test").draw(jax.random.key(3), position) if is_conjugate else None
        return curvature.of_weights(rest), curvature.of_hyperparameters(weights), drawn

    same(*(evaluate(found, posterior) for posterior in (padded, plain)))


@pytest.mark.slow
def test_a_row_without_a_density_is_named_by_its_own_number():
    padded, _, position = pair(likelihoods.HeteroscedasticGaussian(), 2)
    hot = padded.unravel(jnp.arange(float(padded.dim)))["layers.1.bias"][1]
    at = jnp.where(jnp.arange(padded.dim) == hot, 1e3, position)  # its log precision overflows
    assert not np.isfinite(padded.potential(at))
    assert f"of {ROWS} rows in all" in padded.explain(at)


@pytest.mark.parametrize(("likelihood", "outputs"), [(likelihoods.Gaussian(0.5), 2), (likelihoods.Categorical(), 3)])
def test_running_averages_are_those_of_the_rows_alone(likelihood, outputs):
    _padded, plain, position = pair(likelihood, outputs)
    x, y = (np.asarray(part) for part in plain.rows())
    callback = RunningPrediction(plain.model, x, np.argmax(y, axis=1) if likelihood.is_classification else y)
    summary, curve = evaluate(lambda at: callback.update(callback.blank(), at, jnp.ones(())), position)
    same(curve["nll"], -evaluate(plain.log_likelihood, position).mean())
    found = callback.join([summary])
    assert found is not None
    assert found.mean.shape == (ROWS, outputs)
    if not likelihood.is_classification:
        same(curve["rmse"], np.sqrt(np.mean((found.mean - y) ** 2)))
    else:
        same(curve["error"], np.mean(np.argmax(found.mean, axis=1) != np.argmax(y, axis=1)))


def test_sizes_are_few_and_little_is_added():
    counts = np.arange(1, 20_000)
    sizes = np.asarray([padded_size(int(count)) for count in counts])
    assert len(np.unique(sizes[counts > 16])) < 100
    assert np.all(sizes >= counts)
    assert np.all(np.diff(sizes) >= 0)
    assert np.all((sizes - counts)[counts > 16] < np.maximum(48, counts[counts > 16] / 16))
    assert [padded_size(count) for count in (1, 3, 8, 16, 17, 1000, 1001)] == [1, 3, 8, 16, 24, 1032, 1032]
    assert padded_size(190) == padded_size(200) == 216
    assert padded_size(10**6) == 1015832
    assert sorted(set(padded_index(19).tolist())) == list(range(19))
    assert list(padded_index(19)[:19]) == list(range(19))
