"""Few weighted draws keep the predictive mean and variance of many."""

import jax
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import SettingError
from ergonet.prediction.compression import compress, fewest
from ergonet.prediction.loss import PredictiveLoss
from ergonet.prediction.predictive import Prediction, Predictor, predict

REAL = BayesianNetwork(MLP((3, 4, 1)), priors.Normal(0.7), likelihoods.Gaussian(noise=0.2))
X = np.random.default_rng(2).normal(size=(60, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def samples():
    keys = jax.random.split(jax.random.key(0), 300)
    positions = np.asarray(jax.vmap(REAL.sample_prior)(keys)).reshape(3, 100, -1)
    return Samples(positions, {}, {}, {}, {}, {}, {})


def test_a_mean_of_two_points_is_found():
    points = np.random.default_rng(0).normal(size=(50, 10))
    weights = np.zeros(50)
    weights[[7, 30]] = 0.25, 0.75
    chosen, found = fewest(points, weights, 5)
    np.testing.assert_array_equal(chosen, [7, 30])
    np.testing.assert_allclose(found, [0.25, 0.75], atol=1e-9)


def test_draws_of_weight_0_are_never_chosen():
    points = np.random.default_rng(0).normal(size=(50, 10))
    weights = np.where(np.arange(50) < 25, 0.04, 0.0)
    chosen, found = fewest(points, weights, 8)
    assert chosen.max() < 25
    assert found.min() > 0
    assert found.sum() == pytest.approx(1)


def test_moments_are_kept_and_the_loss_is_that_of_the_predictions(samples):
    found = compress(Predictor(samples, REAL), X, 20)
    assert found.positions.shape == (1, 20, REAL.dim)
    every = samples.positions.reshape(-1, REAL.dim).tolist()
    assert all(one in every for one in found.positions[0].tolist())
    whole, few = (predict(one, X, model=REAL, levels=()) for one in (samples, found))
    loss = PredictiveLoss.of_record(found.about["compressed"])
    shift = np.abs(few.mean - whole.mean) / whole.sd
    assert loss.largest_mean == pytest.approx(shift.max(), rel=1e-4)
    assert loss.mean == pytest.approx(np.sqrt(np.mean(shift**2)), rel=1e-4)
    assert loss.largest_sd == pytest.approx(np.max(np.abs(few.sd / whole.sd - 1)), rel=1e-3)
    thin = Samples(samples.positions.reshape(1, 300, -1)[:, ::15], {}, {}, {}, {}, {}, {})
    thinned = PredictiveLoss.between(whole, predict(thin, X, model=REAL, levels=()))
    assert loss.mean < thinned.mean / 2
    assert loss.sd < thinned.sd / 2


@pytest.mark.parametrize("k", [0, 301, 2.5, None])
def test_impossible_counts_are_refused(samples, k):
    with pytest.raises(SettingError, match=r"k must be an integer from 1 to the number of draws, 300; got"):
        compress(Predictor(samples, REAL), X, k)


def test_the_loss_of_classes_is_in_probability():
    none = dict.fromkeys(("sd", "noise_sd", "quantiles", "log_density", "entropy", "expected_entropy"))
    one, other = (
        Prediction(mean=np.array([[p, 1 - p]]), function_sd=np.full((1, 2), sd), levels=(), **none)
        for p, sd in ((0.5, 0.1), (0.4, 0.3))
    )
    loss = PredictiveLoss.between(one, other)
    assert (loss.unit, loss.mean, loss.largest_sd) == ("probability", pytest.approx(0.1), pytest.approx(0.2))
    assert "in probability" in str(loss)
