"""Draws as a record: log likelihoods by rows in chunks, and no sampler behind loading and predicting."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from ergonet import MLP, BayesianNetwork, Samples, Target, likelihoods, load, priors
from ergonet._errors import CapabilityError
from ergonet.draws import quantities
from ergonet.target.capabilities import PointwiseLogLikelihood, require

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
