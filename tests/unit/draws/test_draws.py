"""Draws as a record: log likelihoods by rows in chunks, and no sampler behind loading and predicting."""

import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.signal import lfilter
from scipy.special import logsumexp

from ergonet import MLP, BayesianNetwork, Samples, Target, likelihoods, load, priors
from ergonet._errors import CapabilityError
from ergonet.diagnostics import ess_bulk
from ergonet.draws import diagnosis, quantities, record
from ergonet.target.capabilities import PointwiseLogLikelihood, require
from tests.stages import cases

X = np.random.default_rng(0).normal(size=(11, 2)).astype(np.float32)
Y = np.sin(X[:, 0])


def network():
    return BayesianNetwork(MLP((2, 3, 1)), priors.NormalGamma(), likelihoods.Gaussian()).condition(X, Y)


def program():
    def regression(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("rows", 11, subsample_size=4) as i:
            numpyro.sample("y", dist.Normal(x[i] @ w, jnp.ones(4)), obs=y[i])  # of exactly so many rows

    return Target.from_numpyro(regression, (X, Y))


def drawn(target, chains=2, draws=7):
    positions = np.asarray(0.3 * jax.random.normal(jax.random.key(1), (chains, draws, target.dim)))
    shape = chains, draws
    return Samples(
        positions=positions,
        stats={"lp": np.zeros(shape), "gradients": np.ones(shape, int), "nonfinite": np.zeros(shape, bool)},
        warmup_stats={},
        seconds={},
        gradients={},
        tuning={},
        about={},
        target=target,
    )


@pytest.mark.parametrize("make", [network, program])
@pytest.mark.parametrize(("rows", "draws"), [(4, 3), (256, 4096)])
def test_log_likelihoods_are_those_of_every_draw_and_row_whatever_the_chunks(make, rows, draws, monkeypatch):
    monkeypatch.setattr(quantities, "ROW_CHUNK", rows)
    monkeypatch.setattr(quantities, "DRAW_CHUNK", draws)
    target = make()
    samples = drawn(target)
    found = samples.to_datatree(log_likelihood=True)["log_likelihood"]["y"]
    assert found.dims == ("chain", "draw", "row")
    by_row = jax.jit(jax.vmap(jax.vmap(require(target, PointwiseLogLikelihood, "test").log_likelihood)))
    np.testing.assert_allclose(found, by_row(jnp.asarray(samples.positions)), rtol=1e-5, atol=1e-5)
    assert np.ptp(found.values, axis=0).min() > 0
    assert np.ptp(found.values, axis=2).min() > 0


def test_chunks_of_log_likelihoods_are_no_larger_than_allowed(monkeypatch):
    seen, evaluate = [], quantities._log_likelihood
    monkeypatch.setattr(quantities, "ROW_CHUNK", 4)
    monkeypatch.setattr(quantities, "DRAW_CHUNK", 3)

    def counted(rows, positions, numbers):
        seen.append((len(positions), len(numbers)))
        return evaluate(rows, positions, numbers)

    monkeypatch.setattr(quantities, "_log_likelihood", counted)
    assert drawn(network()).log_likelihood().shape == (2, 7, 11)
    assert set(seen) == {(3, 4), (1, 4)}


@pytest.mark.slow
def test_leave_one_out_and_predictive_groups_are_what_arviz_takes():
    import arviz_stats

    tree = drawn(network(), draws=50).to_datatree(log_likelihood=True, posterior_predictive=True)
    assert tree["posterior_predictive"]["y"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few draws estimate no shape parameter
        found: Any = arviz_stats.loo(tree)  # pyright: ignore[reportPrivateImportUsage]
    assert found.n_data_points == 11
    expected = logsumexp(tree["log_likelihood"]["y"], axis=(0, 1)).sum() - 11 * np.log(100)
    assert found.elpd < expected  # leaving a row out costs


@pytest.mark.parametrize("kind", cases(["gaussian", "two targets", "categorical", "bernoulli"], quick=["two targets"]))
def test_simulated_targets_have_the_distribution_of_the_likelihood(kind, monkeypatch):
    rng = np.random.default_rng(3)
    likelihood, outputs, y = {
        "gaussian": (likelihoods.Gaussian(noise=0.5), 1, Y),
        "two targets": (likelihoods.Gaussian(noise=0.5), 2, np.stack([Y, 2 * Y], axis=1)),
        "categorical": (likelihoods.Categorical(), 3, rng.integers(3, size=11)),
        "bernoulli": (likelihoods.Bernoulli(), 1, rng.integers(2, size=11)),
    }[kind]
    monkeypatch.setattr(quantities, "ROW_CHUNK", 4)
    monkeypatch.setattr(quantities, "DRAW_CHUNK", 1000)
    model = BayesianNetwork(MLP((2, outputs)), priors.Normal(1.0), likelihood)
    position = np.asarray(jax.random.normal(jax.random.key(1), (model.dim,)))
    samples = replace(drawn(model.condition(X, y)), positions=np.tile(position, (2, 2000, 1)))
    simulated, observed = quantities.simulations(samples, seed=0)
    np.testing.assert_allclose(observed, y, rtol=1e-6)
    weights, own = model.split(jnp.asarray(position))
    network_outputs = model.network.apply(weights, jnp.asarray(model.network.prepare(X)))
    mean, variance = (np.asarray(one(own, network_outputs)).T for one in (likelihood.mean, likelihood.variance))
    if kind == "categorical":
        simulated = np.eye(3)[simulated.astype(int)]
    if kind == "bernoulli":
        mean, variance = mean[:, 1:], variance[:, 1:]
    found = simulated.reshape(4000, 11, -1)
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=0.06)  # five standard errors and more
    np.testing.assert_allclose(found.var(axis=0), variance, atol=0.06)
    assert len(np.unique(found[:, 0])) > 1


def test_simulated_targets_need_a_model_that_simulates():
    with pytest.raises(
        CapabilityError, match="`posterior_predictive` needs simulated targets: LogDensity simulates no"
    ):
        drawn(Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))).to_datatree(
            posterior_predictive=True
        )


class OnDisk:
    """An array that refuses to be read as a whole."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __getitem__(self, index):
        assert isinstance(index, tuple), "all of it is read"
        assert isinstance(index[0], int), "more than one chain is read"
        return self.values[index]


def test_many_coordinates_are_judged_without_reading_all_of_them_at_once(monkeypatch):
    monkeypatch.setattr(diagnosis, "MOST_WEIGHTS", 5)
    samples = drawn(network(), draws=20)
    monkeypatch.setattr(record, "CHUNK_BYTES", 4 * 3 * samples.positions.shape[2])  # three draws
    found = replace(samples, positions=OnDisk(samples.positions)).diagnostics()
    some = samples.positions[:, :, :: -(-samples.positions.shape[2] // 5)]
    assert found["min_ess_bulk_weights"] == ess_bulk(some).min()


def test_only_chains_that_stay_elsewhere_are_apart():
    normal = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))
    noise = np.random.default_rng(2).normal(size=(4, 1000, 3))
    slow = np.asarray(lfilter([0.1], [1, -0.97], noise, axis=1))[:, 400:]  # each chain goes everywhere
    shifted = 0.1 * noise + np.array([-1.0, -0.5, 0.5, 1.0])[:, None, None]
    for positions, expected in ((noise, False), (slow, False), (shifted, True)):
        found = replace(drawn(normal), positions=positions.astype(np.float32)).diagnostics()
        assert found["chains_apart"] is expected
        assert (found["max_rhat_function"] > 1.05) == (positions is not noise)


def test_log_likelihoods_are_left_out_unless_they_are_wanted():
    assert "log_likelihood" not in drawn(network()).to_datatree()


def test_log_likelihoods_need_a_target_with_rows(tmp_path):
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))
    with pytest.raises(CapabilityError, match="needs the log likelihood of each row: LogDensity offers no"):
        drawn(target).to_datatree(log_likelihood=True)
    drawn(target).save(tmp_path / "draws")
    with pytest.raises(CapabilityError, match="loaded without their target"):
        load(tmp_path / "draws").log_likelihood()


LOADED = """
import sys
import numpy as np
import ergonet
from ergonet import MLP, BayesianNetwork, likelihoods, priors

x = np.zeros((11, 2), np.float32)
target = BayesianNetwork(MLP((2, 3, 1)), priors.NormalGamma(), likelihoods.Gaussian()).condition(x, x[:, 0])
samples = ergonet.load(sys.argv[1], target=target)
assert ergonet.predict(samples, x).mean.shape == (11, 1)
samples.summary(), samples.diagnostics(), samples.to_datatree(log_likelihood=True)
layers = ("hamiltonian", "trajectory", "samplers", "adaptation", "inference")
found = [name for name in sys.modules if name.startswith(tuple(f"ergonet.{one}" for one in layers))]
assert not found, found
"""


def test_loading_and_predicting_import_no_sampler(tmp_path):
    drawn(network()).save(tmp_path / "draws")
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "draws")], capture_output=True, text=True, check=False
    )
    assert not ran.returncode, ran.stderr
