"""The Monte Carlo error of a score is the spread of the scores of replicas."""

import numpy as np
import pytest

from ergonet._errors import SettingError
from ergonet.diagnostics import mcse_score


def log_densities(replicas, draws, seed=0):
    """Log densities of three rows given means that are drawn in autoregressive chains, `[replica, 2, draw, row]`."""
    random = np.random.default_rng(seed)
    means = random.normal(size=(replicas, 2, draws, 1))
    for draw in range(1, draws):
        means[:, :, draw] = 0.5 * means[:, :, draw - 1] + np.sqrt(0.75) * means[:, :, draw]
    return -0.5 * (np.array([0.0, 0.5, 1.5]) - means) ** 2


def test_it_is_the_spread_of_the_scores_of_replicas():
    found = log_densities(400, 300)
    scores = np.log(np.exp(found).mean(axis=(1, 2))).mean(axis=1)
    errors = np.array([mcse_score(one) for one in found])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(scores.std(), rel=0.12)  # three standard errors


def test_rows_count_by_their_means_and_weights_as_they_say():
    found = log_densities(1, 100)[0]
    assert mcse_score(found - 2000.0) == pytest.approx(mcse_score(found))
    assert mcse_score(found, np.full((2, 100), 3.0)) == pytest.approx(mcse_score(found))
    twice = np.ones((2, 100))
    twice[0, :50] = 0.0
    assert mcse_score(found, twice) > mcse_score(found)


def test_without_figures_it_is_unknown():
    found = log_densities(1, 100)[0]
    assert np.isnan(mcse_score(found[:, :3]))
    assert np.isnan(mcse_score(found[:, :, :0]))
    for value in (np.nan, np.inf):
        assert np.isnan(mcse_score(np.where(np.arange(3) == 1, value, found)))
    assert np.isnan(mcse_score(np.where(np.arange(3) == 1, -np.inf, found)))
    assert mcse_score(np.where(np.arange(100)[:, None] == 1, -np.inf, found)) > 0
    with pytest.raises(SettingError, match="must have shape"):
        mcse_score(found[0])
