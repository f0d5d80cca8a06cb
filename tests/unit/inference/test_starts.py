"""Start states: drawn until one is finite, and the culprit named where none is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MLP, NUTS, BayesianNetwork, Target, likelihoods, priors
from ergonet._errors import CapabilityError, DataError, SettingError, StartError
from ergonet.target.capabilities import Monitor, PointwiseLogLikelihood, Rows, Scales, offers, require
from tests.sampling import draw, gaussian_target


def network(likelihood=None, prior=None, sizes=(2, 3, 1)):
    return BayesianNetwork(MLP(sizes), prior or priors.Normal(), likelihood or likelihoods.Gaussian(noise=0.5))


def rows(count=9, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, columns)).astype(np.float32), rng.normal(size=count).astype(np.float32)


def test_a_density_that_is_never_finite_is_named():
    target = Target.from_logdensity(lambda q: jnp.sum(q) * jnp.nan, jnp.zeros(2))
    with pytest.raises(StartError, match=r"Chain 0: none of 100 initial values .* the log density itself is nan"):
        draw(NUTS(), target=target)


def test_starts_are_drawn_until_one_is_finite():
    target = Target.from_logdensity(lambda q: jnp.where(q[0] > 1.5, -0.5 * jnp.sum(q**2), -jnp.inf), jnp.zeros(2))
    samples = draw(NUTS(max_doublings=3), target=target, num_warmup=0, num_draws=3)
    assert np.all(samples.positions[..., 0] > 1.5)


def test_the_first_bad_row_of_the_likelihood_is_named():
    x, y = rows()
    y[4:6] = 3e38
    target = network().condition(x, y)
    with pytest.raises(StartError, match=r"Gaussian.* of row 4 \(counted from 0\) is .*2 rows in all.*standardized"):
        draw(NUTS(), target=target)


def test_the_prior_and_its_leaf_are_named():
    prior = {"layers.1.weight": priors.Normal(1e-30), "*": priors.Normal()}
    target = network(prior=prior).condition(*rows())
    with pytest.raises(StartError, match=r"the prior Normal.* of the leaf layers.1.weight is -inf"):
        draw(NUTS(), target=target, init=np.ones(target.dim, np.float32))


def test_the_leaf_that_is_not_finite_is_named():
    target = network().condition(*rows())
    start = np.zeros(target.dim, np.float32)
    start[7] = np.nan
    with pytest.raises(StartError, match=r"`init` of chain 0 .* the leaf layers.0.bias contains values"):
        draw(NUTS(), target=target, init=start)


def test_the_prior_of_the_noise_is_named():
    target = network(likelihoods.Gaussian()).condition(*rows())
    start = np.zeros(target.dim, np.float32)
    start[-1] = 1e4
    with pytest.raises(StartError, match=r"parameters of Gaussian.* is not finite"):
        draw(NUTS(), target=target, init=start)


def test_the_row_of_ones_own_likelihood_is_named():
    target = Target.from_terms(
        lambda p: -0.5 * jnp.sum(p["w"] ** 2), lambda p, x: jnp.log(x) * p["w"], jnp.array([1.0, -1.0]), {"w": 0.5}
    )
    with pytest.raises(StartError, match=r"log likelihood of row 1 \(counted from 0\) is nan"):
        draw(NUTS(), target=target)
    bad_prior = Target.from_terms(lambda p: p["w"] / 0.0, lambda p, x: x * p["w"], jnp.ones(2), {"w": 0.5})
    with pytest.raises(StartError, match="log prior is"):
        draw(NUTS(), target=bad_prior)


def test_chains_start_where_they_are_told_to():
    init = np.array([[1, 1, 1, 1, 1], [-1, -1, -1, -1, -1]], np.float32)
    samples = draw(NUTS(max_doublings=1, step_size=1e-4), num_warmup=0, num_draws=2, init=init)
    np.testing.assert_allclose(samples.positions, np.repeat(init[:, None], 2, axis=1), atol=0.01)
    same = draw(NUTS(max_doublings=1, step_size=1e-4), num_warmup=0, num_draws=2, init=init[0])
    np.testing.assert_allclose(same.positions, 1, atol=0.01)


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 4), (1, 2, 5)])
def test_starts_of_another_shape_are_refused(shape):
    with pytest.raises(SettingError, match=r"`init` must have shape \[5\] or \[2, 5\]"):
        draw(init=np.zeros(shape, np.float32))


@pytest.mark.parametrize("init", [[[0.0] * 5, [0.0] * 4], ["a"] * 5, "zeros", np.full(5, 1j), {"w": 1.0}])
def test_starts_that_are_no_real_numbers_are_refused(init):
    with pytest.raises(SettingError, match=r"`init` must be an array of real numbers, of shape \[5\] or \[2, 5\]"):
        draw(init=init)


@pytest.mark.parametrize(
    ("x", "y", "complaint"),
    [
        (np.zeros((0, 2)), np.zeros(0), "at least 1 row"),
        (np.zeros(3), np.zeros(3), r"shape \[rows, features\]"),
        (np.zeros((3, 2)), np.zeros(4), r"`x` has 3 rows, but `y` has shape \[4\]"),
        (np.zeros((3, 2)), np.array(1.0), "They must match"),
        (np.zeros((3, 2)), np.array([0, np.nan, 1]), "`y` contains NaN"),
        (np.zeros((3, 2)), np.array(["a", "b", "a"]), "`y` must have numbers, .* Give classes as integers from 0"),
        (np.array([["a", "b"]] * 3), np.zeros(3), "`x` must have numbers"),
        (
            np.array([[0, 1], [np.inf, 0], [np.nan, 1]]),
            np.zeros(3),
            r"contains 2 NaN or infinite values, .* first at row 1, column 0",
        ),
        (np.zeros((3, 2)), np.zeros((3, 2)), r"\[rows, 1\]"),
    ],
)
def test_data_that_do_not_fit_are_refused(x, y, complaint):
    with pytest.raises(DataError, match=complaint):
        network().condition(x, y)


@pytest.mark.parametrize("condition", [BayesianNetwork.condition, ergonet.stream])
def test_rows_of_half_precision_have_a_posterior_of_single_precision(condition):
    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float16)
    target = condition(network(likelihoods.Gaussian()), x, np.full(30, 7e4))
    assert target.initial_position(jax.random.key(0)).dtype == np.float32
    assert np.isfinite(target.rows()[1]).all()  # 7e4 is beyond half precision


def test_inputs_of_another_width_are_refused():
    with pytest.raises(SettingError, match=r"x of shape \[rows, 2\], got \[3, 5\]"):
        network().condition(np.zeros((3, 5)), np.zeros(3))


def test_a_network_posterior_is_prior_plus_rows():
    x, y = rows()
    model = network(likelihoods.Gaussian(), priors.Laplace(0.7))
    target = model.condition(x, y)
    position = jnp.asarray(np.random.default_rng(1).normal(size=target.dim), jnp.float32)
    terms = target.log_likelihood(position)
    assert terms.shape == (9,)
    np.testing.assert_allclose(target.potential(position), -(model.log_prior(position) + terms.sum()), rtol=1e-5)
    part = target.minibatch_potential(position, jax.tree.map(lambda one: one[:3], target.rows()))
    np.testing.assert_allclose(part, -(model.log_prior(position) + 3 * terms[:3].sum()), rtol=1e-5)
    assert list(target.unravel(position)) == list(model.leaves())
    assert target.monitor(position).shape == (9,)  # one output on every row: there are fewer than twenty


def test_terms_scale_their_minibatches():
    data = jnp.arange(6.0)
    target = Target.from_terms(lambda w: -0.5 * w[0] ** 2, lambda w, x: -0.5 * (x - w[0]) ** 2, data, jnp.zeros(1))
    position = jnp.array([0.7])
    rows_ = -0.5 * (np.arange(6.0) - 0.7) ** 2
    np.testing.assert_allclose(target.potential(position), 0.5 * 0.49 - rows_.sum(), rtol=1e-6)
    np.testing.assert_allclose(
        target.minibatch_potential(position, data[2:4]), 0.5 * 0.49 - 3 * rows_[2:4].sum(), rtol=1e-6
    )
    np.testing.assert_allclose(target.log_likelihood(position), rows_, rtol=1e-6)


def test_what_a_target_does_not_offer_is_said():
    for kind in (Monitor, PointwiseLogLikelihood, Rows, Scales):
        with pytest.raises(CapabilityError, match=rf"`test` needs {kind.title}: LogDensity offers no"):
            require(gaussian_target(), kind, "test")
        assert not offers(gaussian_target(), kind)


@pytest.mark.parametrize(
    ("example", "complaint"),
    [({}, "contains no arrays"), ({"n": jnp.zeros(2, int), "w": jnp.zeros(2)}, r"\['n'\] has dtype int32")],
)
def test_examples_that_cannot_be_sampled_are_refused(example, complaint):
    with pytest.raises(SettingError, match=complaint):
        Target.from_logdensity(lambda q: jnp.zeros(()), example)


def test_a_density_must_be_a_scalar():
    target = Target.from_logdensity(lambda q: -(q**2), jnp.zeros(3))
    with pytest.raises(SettingError, match=r"must return a scalar, got an array of shape \(3,\)"):
        ergonet.sample(target, num_warmup=1, num_draws=1, seed=1, progress=False)
