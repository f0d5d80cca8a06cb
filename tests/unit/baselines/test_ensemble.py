"""Ensembles of networks trained with early stopping."""

import numpy as np
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet._errors import CapabilityError, DivergedError, SamplingWarning, SettingError
from ergonet.baselines import SGD, Adam, EarlyStoppingEnsemble
from tests.minibatches import classification


def ensemble(**settings):
    chosen = {"size": 3, "optimizer": Adam(learning_rate=0.05, batch_size=8), "patience": 5, "most_epochs": 200}
    return EarlyStoppingEnsemble(**(chosen | settings))


def posterior(rows=60):
    model, x, y = classification(rows=rows)
    return model.condition(x, y)


def test_members_stop_early_and_keep_the_weights_of_their_best_epoch():
    target = posterior()
    found = ensemble().fit(target, seed=1)
    assert found.positions.shape == (1, 3, target.dim)
    assert np.all((found.best_epoch > 1) & (found.best_epoch < 200))
    epochs = found.stats["gradients"][0] // (48 // 8)
    np.testing.assert_array_equal(epochs, np.minimum(found.best_epoch + 5, 200))
    assert np.all(found.validation_nll < np.log(3))  # nats of a guess
    assert len(np.unique(found.positions[0], axis=0)) == 3
    model, x, y = classification(rows=60)
    del model
    assert (ergonet.predict(found, x).mean.argmax(1) == y).mean() > 0.8


def test_a_member_depends_only_on_the_seed_and_its_index():
    target = posterior()
    one, two = (ensemble(size=size).fit(target, seed=2) for size in (1, 2))
    np.testing.assert_array_equal(one.positions[0, 0], two.positions[0, 0])
    assert np.all(ensemble(size=1).fit(target, seed=3).positions != one.positions)


def test_members_stop_after_most_epochs():
    found = ensemble(most_epochs=2).fit(posterior(), seed=1)
    np.testing.assert_array_equal(found.stats["gradients"], 2 * 6)


def test_members_that_never_improve_are_reported():
    wild = SGD(learning_rate=1e38, batch_size=8)
    with pytest.raises(DivergedError, match=r"No member improved .* Lower the learning rate of `optimizer`, 1e\+38"):
        ensemble(optimizer=wild).fit(posterior(), seed=1)
    with pytest.warns(SamplingWarning, match="1 of 3 members never improved"):
        ensemble()._report_untrained(1)


def test_invalid_settings_and_targets_are_rejected():
    with pytest.raises(SettingError, match="leaves 7 rows for training and 2 for validation; a batch takes 8"):
        ensemble().fit(posterior(rows=9), seed=0)
    for settings in ({"size": 0}, {"patience": True}, {"validation": 1.0}):
        with pytest.raises(SettingError, match=r"EarlyStoppingEnsemble\("):
            ensemble(**settings)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 1)).astype(np.float32)
    model = BayesianNetwork(MLP((1, 2, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.3))
    with pytest.raises(CapabilityError, match="must not be streamed"):
        ensemble().fit(ergonet.stream(model, x, y[:, 0]), seed=0)
