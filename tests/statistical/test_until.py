"""Runs that stop by a rule: what that does to the mean and to its intervals, over 200 replicas.

The chains are autoregressive, as logarithms of exponential variables, and begin in equilibrium. Where such a chain has
a small spread by chance, it has a large mean, so a rule that trusts the spread of few draws is biased.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binomtest, norm

from ergonet import Until
from ergonet.diagnostics import mcse_mean

REPLICAS, DRAWS, LEVEL = 200, 1000, 0.9
AUTOCORRELATION = 0.75  # of successive draws, before they are transformed
MEAN, SD = -np.euler_gamma, np.pi / np.sqrt(6)
PRECISION = 0.1  # of the mean, in standard deviations of the target

pytestmark = pytest.mark.statistical


@pytest.fixture(scope="module")
def positions():
    """Four chains of each replica, `[chain, draw, replica]`."""
    noise = np.random.default_rng(1).normal(size=(4, DRAWS, REPLICAS))
    noise[:, 1:] *= np.sqrt(1 - AUTOCORRELATION**2)
    return np.log(-norm.logsf(lfilter([1.0], [1.0, -AUTOCORRELATION], noise, axis=1)))


def stopped(rule, values):
    """The draws of a replica, `[chain, draw, 1]`, that a run with the rule would have made."""
    look = rule.next_look(0, DRAWS)
    while look < DRAWS and not rule.judge(values[:, :look]).is_met:
        look = rule.next_look(look + 1, DRAWS)
    return values[:, :look]


def figures(rule, positions):
    """The bias of the mean in standard deviations, and how many intervals cover the mean of the target."""
    runs = [stopped(rule, positions[:, :, [replica]]) for replica in range(REPLICAS)]
    errors = np.array([run.mean() - MEAN for run in runs])
    covers = abs(errors) < norm.ppf((1 + LEVEL) / 2) * np.array([mcse_mean(run)[0] for run in runs])
    return abs(errors.mean()) / SD, int(covers.sum())


def is_nominal(covered):
    return binomtest(covered, REPLICAS, LEVEL).pvalue > 1e-3


def test_stopped_runs_are_hardly_biased_and_their_intervals_cover_as_they_say(positions):
    bias, covered = figures(Until(mcse=PRECISION * SD), positions)
    assert bias < 0.1
    assert is_nominal(covered)


def test_without_the_minimum_length_runs_stop_where_their_errors_look_small(positions):
    _, covered = figures(Until(mcse=PRECISION * SD, minimum=4), positions)
    assert not is_nominal(covered)
