"""Predictions from draws on disk, in chunks; what is refused; what simulation repeats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zarr

from ergonet import MLP, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import DataError, SettingError
from ergonet.prediction import chunks
from ergonet.prediction.predictive import predict, prior_predictive, sample_predictive

MODEL = BayesianNetwork(MLP((3, 4, 2)), priors.Normal(0.7), likelihoods.Categorical())
REAL = BayesianNetwork(MLP((3, 4, 1)), priors.Normal(0.7), likelihoods.Gaussian(noise=0.2))


class Reads:
    """An array on disk that records how many draws each access has read."""

    def __init__(self, array):
        self._array, self.shape, self.dtype, self.draws = array, array.shape, array.dtype, []

    def __getitem__(self, index):
        values = self._array[index]
        self.draws.append(values.size // self.shape[2])
        return values


def samples_of(model, *, chains=3, draws=100, positions=None):
    if positions is None:
        keys = jax.random.split(jax.random.key(0), chains * draws)
        positions = np.asarray(jax.vmap(model.sample_prior)(keys)).reshape(chains, draws, -1)
    empty = {}
    return Samples(positions, empty, empty, empty, empty, empty, empty)


@pytest.fixture
def stored(tmp_path):
    positions = samples_of(REAL).positions
    return zarr.create_array(str(tmp_path / "draws.zarr"), data=positions, chunks=(1, 50, positions.shape[2]))


@pytest.fixture
def x():
    return np.random.default_rng(2).normal(size=(300, 3)).astype(np.float32)


def test_draws_on_disk_give_the_same_predictions(stored, x):
    held, lazy = samples_of(REAL), samples_of(REAL, positions=stored)
    assert np.array_equal(predict(held, x, model=REAL).quantiles, predict(lazy, x, model=REAL).quantiles)
    first, second = [sample_predictive(s, x, num_samples=5, seed=1, model=REAL) for s in (held, lazy)]
    assert np.array_equal(first, second)


def test_large_draws_are_never_read_as_a_whole(stored, x, monkeypatch):
    monkeypatch.setattr(chunks, "IN_MEMORY_BYTES", 1000)
    reads = Reads(stored)
    lazy = samples_of(REAL, positions=reads)
    many = np.concatenate([x, x])
    prediction = predict(lazy, many, model=REAL)
    assert max(reads.draws) == chunks.DRAW_CHUNK
    assert sum(reads.draws) == 2 * 300  # every draw once for each of the two chunks of rows
    reads.draws.clear()
    sample_predictive(lazy, x, num_samples=20, seed=0, model=REAL)
    assert reads.draws == [1] * 20
    np.testing.assert_allclose(prediction.mean, predict(samples_of(REAL), many, model=REAL).mean, atol=1e-6)


def test_one_program_serves_all_chunks_and_calls(x):
    traces = []

    class Watched(likelihoods.Gaussian):
        def variance(self, parameters, outputs):
            traces.append("moments")
            return super().variance(parameters, outputs)

        def cdf(self, parameters, outputs, value):
            traces.append("quantiles")
            return super().cdf(parameters, outputs, value)

    watched = BayesianNetwork(MLP((3, 4, 1)), priors.Normal(0.7), Watched(noise=0.2))
    predict(samples_of(watched), x, model=watched)
    assert set(traces) == {"moments", "quantiles"}
    traces.clear()
    predict(samples_of(watched), x[:299], model=watched)
    predict(samples_of(watched), np.concatenate([x, x]), model=watched)
    assert not traces
    predict(samples_of(watched, chains=2, draws=37), x, model=watched, levels=())  # moments of any number of draws
    assert not traces


def test_many_draws_make_small_chunks_of_rows():
    rows = chunks.Rows(REAL, np.zeros((1000, 3)))
    assert rows.chunk_size() == 512
    assert rows.chunk_size(most_outputs=100) == 100
    assert rows.chunk_size(most_outputs=0) == 1
    assert chunks.Rows(MODEL, np.zeros((1000, 3))).chunk_size(most_outputs=100) == 50
    assert chunks.Rows(REAL, np.zeros((7, 3))).chunk_size() == 8


def test_certain_draws_have_no_epistemic_part(x):
    one = samples_of(MODEL, chains=1, draws=1)
    prediction = predict(one, x, model=MODEL)
    assert np.all(prediction.mutual_information >= 0)
    assert np.allclose(prediction.mutual_information, 0, atol=1e-6)


def test_impossible_targets_have_a_finite_log_density_while_any_draw_allows_them():
    samples = samples_of(REAL)
    far = predict(samples, np.zeros((2, 3)), model=REAL, y=np.array([5.0, 1e3]))
    assert np.isfinite(far.log_density).all()
    assert far.log_density[1] < far.log_density[0] < -1


@pytest.mark.parametrize("seed", [0, 2**40])
def test_simulation_repeats_with_its_seed(x, seed):
    samples = samples_of(REAL)
    first = sample_predictive(samples, x, num_samples=20, seed=seed, model=REAL)
    assert np.array_equal(first, sample_predictive(samples, x, num_samples=20, seed=seed, model=REAL))
    assert not np.array_equal(first, sample_predictive(samples, x, num_samples=20, seed=seed + 1, model=REAL))
    prior = prior_predictive(REAL, x, num_samples=3, seed=seed)
    assert np.array_equal(prior, prior_predictive(REAL, x, num_samples=3, seed=seed))


def test_no_draw_is_simulated_twice_before_all_were(x):
    nearly_exact = BayesianNetwork(MLP((3, 4, 1)), priors.Normal(0.7), likelihoods.Gaussian(noise=1e-4))
    samples = samples_of(nearly_exact, chains=2, draws=10)
    inputs = nearly_exact.network.prepare(jnp.asarray(x[:1]))
    functions = [float(nearly_exact.outputs(jnp.asarray(p), inputs)[0, 0]) for p in samples.positions.reshape(20, -1)]
    drawn = sample_predictive(samples, x[:4], num_samples=40, seed=3, model=nearly_exact)[:, 0, 0]
    assert np.allclose(np.sort(drawn[:20]), np.sort(functions), atol=1e-3)
    assert np.allclose(np.sort(drawn[20:]), np.sort(functions), atol=1e-3)
    assert np.abs(np.sort(drawn[:20]) - np.sort(drawn[20:])).max() > 1e-6  # the same function with other noise


def test_prior_predictive_has_the_spread_of_the_prior():
    linear = BayesianNetwork(MLP((1, 1), bias=False), priors.Normal(2.0), likelihoods.Gaussian(noise=0.5))
    drawn = prior_predictive(linear, np.array([[3.0]]), num_samples=2000, seed=0)[:, 0, 0]
    assert abs(drawn.std() / np.hypot(6.0, 0.5) - 1) < 4 / np.sqrt(2 * 2000)


@pytest.mark.parametrize(
    ("model", "x", "y", "error", "message"),
    [
        (MODEL, np.array([[1.0, 2, 3], [1, np.nan, 3]]), None, DataError, "row 1, column 1"),
        (MODEL, np.zeros((2, 4)), None, SettingError, r"\[rows, 3\]"),
        (MODEL, np.zeros((300, 3)), np.repeat([0, 5], [290, 10]), DataError, "row 290"),
        (BayesianNetwork(MLP((3, 2)), priors.Normal(), likelihoods.Categorical()), np.zeros((2, 3)), None, SettingError,
         "other network|another network"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(model, x, y, error, message):
    with pytest.raises(error, match=message):
        predict(samples_of(MODEL), x, model=model, y=y)


@pytest.mark.parametrize(
    ("settings", "message"), [((0, 1), "num_samples"), ((-3, 1), "num_samples"), ((1, -1), "seed")]
)
def test_simulation_refuses_impossible_counts_and_seeds(x, settings, message):
    num_samples, seed = settings
    with pytest.raises(SettingError, match=message):
        sample_predictive(samples_of(REAL), x, num_samples=num_samples, seed=seed, model=REAL)
    with pytest.raises(SettingError, match=message):
        prior_predictive(REAL, x, num_samples=num_samples, seed=seed)
