"""NumPyro programs as targets: the same density as NumPyro's, the full one of a subsampling plate, clear errors."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import potential_energy
from scipy.stats import norm

import ergonet
from ergonet import NUTS, Target
from ergonet._errors import CapabilityError, SettingError, StartError
from ergonet.target.capabilities import Monitor, PointwiseLogLikelihood, Rows, offers, require
from tests.stages import slow

X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Y = (X @ np.array([1.0, -0.5]) + 0.3).astype(np.float32)
ROWS = jnp.asarray(Y)


def linear(x, y, batch=None, prior=1.0):
    w = numpyro.sample("w", dist.Normal(0, prior).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.deterministic("precision", noise**-2)
    with numpyro.plate("rows", x.shape[0], subsample_size=batch) as i:
        mean = numpyro.deterministic("mean", x[i] @ w)
        numpyro.sample("y", dist.Normal(mean, noise), obs=y[i])


def linear_by_hand(position: Any, x: Any, y: Any):
    """Minus log N(w) + log HalfNormal(noise) + log noise (the Jacobian of exp) + rows; sites by name: noise, w."""
    noise, w = np.exp(position[0]), position[1:]
    prior = np.sum(norm.logpdf(w)) + np.log(2) + norm.logpdf(noise) + position[0]
    rows: Any = norm.logpdf((y - x @ w) / noise)
    return -(prior + np.sum(rows - np.log(noise)))


def every_support(counts):
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    bound = numpyro.sample("bound", dist.Uniform(0.0, scale))  # a support that depends on another site
    simplex = numpyro.sample("simplex", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    mean: Any = numpyro.sample("mean", dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])))
    numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
    numpyro.factor("pull", -0.5 * jnp.sum((mean - bound * share) ** 2))
    numpyro.sample("counts", dist.Multinomial(8, simplex), obs=counts)


def position_of(target, seed=1):
    return target.initial_position(jax.random.key(seed))


@eqx.filter_jit
def value_and_slope(target, position):
    return jax.value_and_grad(target.potential)(position)


def by_row(target, position, rows=None):
    return require(target, PointwiseLogLikelihood, "test").log_likelihood(position, rows)


def test_the_density_is_the_one_written_by_hand():
    target = Target.from_numpyro(linear, (X, Y))
    position = position_of(target)
    expected = linear_by_hand(np.asarray(position, np.float64), X, Y)
    np.testing.assert_allclose(value_and_slope(target, position)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("seed", [slow(0), slow(1)])
def test_the_density_on_bounded_supports_is_numpyros_own(seed):
    counts = jnp.array([3, 1, 4])
    target = Target.from_numpyro(every_support, kwargs={"counts": counts})
    assert target.dim == 1 + 1 + 1 + 2 + 2 + 3
    position = position_of(target, seed)
    example = {"bound": 0.0, "factor": jnp.zeros(3), "mean": jnp.zeros(2), "scale": 0.0, "share": 0.0}
    named = ravel_pytree(example | {"simplex": jnp.zeros(2)})[1](position)
    own = jax.jit(jax.value_and_grad(lambda p: potential_energy(every_support, (), {"counts": counts}, p)))
    expected, slope = own(named)
    found = value_and_slope(target, position)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[1], ravel_pytree(slope)[0], rtol=1e-5, atol=1e-6)
    values = eqx.filter_jit(lambda one, at: one.unravel(at))(target, position)
    assert set(values) == {"scale", "share", "bound", "simplex", "mean", "factor"}
    assert 0 < values["bound"] < values["scale"]
    np.testing.assert_allclose(values["simplex"].sum(), 1, rtol=1e-5)


def test_deterministic_sites_are_named_but_not_those_of_a_minibatch():
    values = Target.from_numpyro(linear, (X, Y)).unravel(jnp.array([0.5, 1.0, 2.0]))
    assert list(values) == ["w", "noise", "precision", "mean"]
    np.testing.assert_allclose(values["precision"], np.exp(-1.0), rtol=1e-5)
    np.testing.assert_allclose(values["w"], [1, 2])
    assert list(Target.from_numpyro(linear, (X, Y, 4)).unravel(jnp.zeros(3))) == ["w", "noise", "precision"]


@pytest.mark.parametrize("batch", [4, 5])
def test_a_subsampling_program_has_the_full_density(batch):
    full, target = Target.from_numpyro(linear, (X, Y)), Target.from_numpyro(linear, (X, Y, batch))
    position = position_of(full)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPyro warns of subsamples that are not of the plate's size
        value, slope = value_and_slope(target, position)
    expected = value_and_slope(full, position)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_row(target, position), by_row(full, position), rtol=1e-5)


def test_minibatches_average_to_the_full_density():
    target = Target.from_numpyro(linear, (X, Y, 4))
    data = require(target, Rows, "test")
    position, rows = position_of(target), data.rows()
    assert data.num_rows == len(rows) == 12
    batches = [rows[np.array(part)] for part in np.random.default_rng(2).permutation(12).reshape(3, 4)]
    part = jax.jit(jax.value_and_grad(data.minibatch_potential))
    parts = [part(position, batch) for batch in batches]
    value, slope = value_and_slope(Target.from_numpyro(linear, (X, Y)), position)
    np.testing.assert_allclose(np.mean([v for v, _ in parts]), value, rtol=1e-5)
    np.testing.assert_allclose(np.mean([s for _, s in parts], axis=0), slope, rtol=1e-4, atol=1e-5)
    assert np.ptp([v for v, _ in parts]) > 0.1  # they are different rows
    single = [part(position, rows[i : i + 1])[0] for i in range(12)]
    np.testing.assert_allclose(np.mean(single), value, rtol=1e-5)


def test_log_likelihoods_are_those_of_the_rows():
    target = Target.from_numpyro(linear, (X, Y))
    position = jnp.array([0.2, 1.0, -1.0])
    expected = dist.Normal(X @ position[1:], jnp.exp(0.2)).log_prob(Y)
    np.testing.assert_allclose(by_row(target, position), expected, rtol=1e-5)
    np.testing.assert_allclose(by_row(target, position, jnp.array([7, 2])), expected[jnp.array([7, 2])], rtol=1e-5)
    assert require(target, PointwiseLogLikelihood, "test").num_rows == 12

    def two_columns(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("rows", 5, dim=-1):
            numpyro.sample("y", dist.Normal(mean, 1).to_event(1), obs=y)

    def no_plate(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    assert by_row(Target.from_numpyro(two_columns, (X[:5],)), jnp.zeros(2)).shape == (5,)
    assert by_row(Target.from_numpyro(no_plate, (Y,)), jnp.zeros(1)).shape == (12,)
    square = Target.from_numpyro(no_plate, (X,))
    assert not offers(square, PointwiseLogLikelihood)
    with pytest.raises(CapabilityError, match="rows of the program's observed site 'y' cannot be told"):
        by_row(square, jnp.zeros(1))
    with pytest.raises(CapabilityError, match="has 0 observed sites"):
        by_row(Target.from_numpyro(lambda: numpyro.sample("a", dist.Normal(0, 1))), jnp.zeros(1))


def test_a_program_without_a_plate_says_how_to_add_one():
    target = Target.from_numpyro(linear, (X, Y))
    assert not offers(target, Rows)
    with pytest.raises(CapabilityError, match=r"`SGLD` needs .* no subsampling plate.*subsample_size=100"):
        require(target, Rows, "SGLD")
    with pytest.raises(CapabilityError, match="no predictions to monitor"):
        require(target, Monitor, "test")


def test_minibatches_of_another_size_are_refused():
    with pytest.raises(SettingError, match=r"has 4 rows, the subsample_size of its plate 'rows', got 6"):
        require(Target.from_numpyro(linear, (X, Y, 4)), Rows, "test").minibatch_potential(jnp.zeros(3), jnp.arange(6))


def test_rows_left_over_need_a_program_that_takes_any_number():
    def rigid(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", 12, subsample_size=5) as i:
            numpyro.sample("y", dist.Normal(mean * jnp.ones(5), 1), obs=y[i])

    target = Target.from_numpyro(rigid, (Y,))
    assert jnp.isfinite(require(target, Rows, "test").minibatch_potential(jnp.zeros(1), jnp.arange(5)))
    with pytest.raises(
        CapabilityError, match=r"number of rows, 12, is not a multiple of subsample_size=5 .* cannot be run with 2"
    ):
        target.potential(jnp.zeros(1))


def discrete():
    numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("which", dist.Bernoulli(0.5))


def parameter():
    numpyro.sample("a", dist.Normal(numpyro.param("shift", 0.0), 1))


def local_latent():
    with numpyro.plate("rows", 9, subsample_size=3):
        numpyro.sample("local", dist.Normal(0, 1))


def empty_plate(y=ROWS):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", 12, subsample_size=3) as i:
        pass
    numpyro.sample("y", dist.Normal(mean, 1), obs=y[i])


def two_plates(y=ROWS):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    for name in ("first", "second"):
        with numpyro.plate(name, 12, subsample_size=3) as i:
            numpyro.sample(f"y {name}", dist.Normal(mean, 1), obs=y[i])


def too_many(y=ROWS):
    with numpyro.plate("rows", 4, subsample_size=6) as i:
        numpyro.sample("y", dist.Normal(0, 1), obs=y[i])


@pytest.mark.filterwarnings("ignore:subsample_size does not match")
@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (discrete, "site 'which' is discrete"),
        (parameter, "site 'shift' of type 'param'"),
        (lambda: numpyro.sample("a", dist.Normal(0, 1), obs=0.5), "no latent site"),
        (local_latent, "site 'local' is not observed and stands inside the subsampling plate"),
        (empty_plate, "There is no observed site inside the subsampling plate 'rows'"),
        (two_plates, r"2 subsampling plates \(first, second\)"),
        (too_many, "'rows' has 4 rows, but subsample_size=6"),
    ],
)
def test_programs_that_cannot_be_sampled_are_refused(program, complaint):
    with pytest.raises(SettingError, match=complaint):
        Target.from_numpyro(program)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (X, "`args` must be a tuple"),
        ((np.array(["a", "b"]), Y), "dtype <U1"),
        ((X, {1, 2}), "A set in `args`"),
    ],
)
def test_arguments_that_are_no_data_are_refused(args, complaint):
    with pytest.raises(SettingError, match=complaint):
        Target.from_numpyro(linear, args)


@pytest.mark.filterwarnings("ignore:Out-of-support")
@pytest.mark.slow
def test_the_site_that_is_not_finite_is_named():
    y = Y.copy()
    y[7] = np.nan
    for batch in (None, 5):
        target = Target.from_numpyro(linear, (X, y, batch))
        with pytest.raises(StartError, match=r"row 7 \(counted from 0\) of the observed site 'y' is (nan|-inf)"):
            ergonet.sample(target, num_warmup=1, num_draws=1, seed=0, progress=False)
    assert "value of the site 'noise' is not finite" in target.explain(jnp.array([200.0, 0, 0]))
    assert "site 'w' is -inf" in Target.from_numpyro(linear, (X, Y)).explain(jnp.array([0, 1e30, 0]))
    assert "of every site is finite" in Target.from_numpyro(linear, (X, Y)).explain(jnp.zeros(3))


def test_data_of_a_closure_in_numpy_are_refused_in_plain_words():
    def program():
        w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("rows", 12, subsample_size=3) as i:
            numpyro.sample("y", dist.Normal(w, 1), obs=Y[i])

    with pytest.raises(SettingError, match=r"indexing a NumPy array .* Pass its data in `args`"):
        Target.from_numpyro(program)


def test_a_target_inside_another_program_keeps_its_sites_to_itself():
    from numpyro.handlers import scale, trace

    target = Target.from_numpyro(linear, (X, Y, 5))
    data, position = require(target, Rows, "test"), position_of(target)
    with trace() as outer, scale(scale=3.0):
        values = target.potential(position), data.minibatch_potential(position, jnp.arange(5))
    assert not outer
    np.testing.assert_allclose(values[0], target.potential(position), rtol=1e-6)
    np.testing.assert_allclose(values[1], data.minibatch_potential(position, jnp.arange(5)), rtol=1e-6)


def test_other_data_compile_nothing_new():
    traces = []

    def program(y, scale):
        traces.append(1)
        mean = numpyro.sample("mean", dist.Normal(0, scale))
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    evaluate = eqx.filter_jit(lambda target, position: target.potential(position))
    targets = [Target.from_numpyro(program, (Y + shift,), {"scale": 2.0}) for shift in (0, 1)]
    before = len(traces)
    values = [float(evaluate(target, jnp.ones(1))) for target in targets]
    assert len(traces) == before + 1
    assert abs(values[0] - values[1]) > 1


def test_a_flat_prior_is_taken_as_it_is():
    def program(y):
        mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    target = Target.from_numpyro(program, (Y,))
    np.testing.assert_allclose(jax.grad(target.potential)(jnp.zeros(1)), -Y.sum(), rtol=1e-5)


@pytest.mark.statistical
@pytest.mark.parametrize("batch", [None, 5])
def test_nuts_draws_the_exact_posterior_whatever_the_subsample(batch):
    """A conjugate Gaussian; a fixed subset of the rows would be wrong in every moment."""

    def program(x, y, batch):
        w = numpyro.sample("w", dist.Normal(0, 2).expand([2]).to_event(1))
        with numpyro.plate("rows", x.shape[0], subsample_size=batch) as i:
            numpyro.sample("y", dist.Normal(x[i] @ w, 0.5), obs=y[i])

    samples = ergonet.sample(
        Target.from_numpyro(program, (X, Y, batch)),
        NUTS(),
        num_chains=4,
        num_warmup=300,
        num_draws=1000,
        seed=3,
        progress=False,
    )
    precision = X.T @ X / 0.25 + np.eye(2) / 4
    covariance = np.linalg.inv(precision)
    mean = covariance @ (X.T @ Y / 0.25)
    summary = samples.summary()
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(summary["mean"] - mean) < 4 * sd / np.sqrt(summary["ess_bulk"]))
    assert np.all(np.abs(summary["sd"] / sd - 1) < 4 / np.sqrt(2 * summary["ess_tail"]))
