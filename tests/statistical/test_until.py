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


def chains(autocorrelation, draws):
    """Four chains of each replica, which share nothing, `[chain, draw, replica]`."""
    noise = np.random.default_rng(1).normal(size=(4, draws, REPLICAS))
    noise[:, 1:] *= np.sqrt(1 - autocorrelation**2)
    return np.log(-norm.logsf(lfilter([1.0], [1.0, -autocorrelation], noise, axis=1)))


@pytest.fixture(scope="module")
def positions():
    return chains(AUTOCORRELATION, DRAWS)


def stopped(rule, values):
    """The draws of a replica, `[chain, draw, 1]`, that a run with the rule would have made."""
    most = values.shape[1]
    look = rule.next_look(0, most)
    while look < most and not rule.judge(values[:, :look]).is_met:
        look = rule.next_look(look + 1, most)
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


@pytest.mark.parametrize(("rule", "draws"), [(Until(ess=100), 1500), (Until(ess=400), 4500)])
def test_slow_chains_are_drawn_for_longer_and_are_as_good(rule, draws):
    """Chains with an autocorrelation time of 15 draws, of which few stop at the minimum length."""
    bias, covered = figures(rule, chains(14 / 16, draws))
    assert bias < 0.1
    assert is_nominal(covered)


def test_a_rule_for_errors_waits_for_effective_draws():
    """Chains of 200 draws with a time of 60 are worth 13 draws, and seem to meet this bound where they err."""
    found, bound = chains(59 / 61, 3000), 0.2 * SD

    def error(rule):
        errors = [stopped(rule, found[:, :, [replica]]).mean() - MEAN for replica in range(REPLICAS)]
        return np.sqrt(np.mean(np.square(errors)))

    assert error(Until(mcse=bound)) < 0.13 * SD  # 0.1, and the error of an error from 200 replicas is a twentieth
    assert error(Until(mcse=bound, ess=1)) > 0.17 * SD


def test_without_the_minimum_length_runs_stop_where_their_errors_look_small(positions):
    _, covered = figures(Until(mcse=PRECISION * SD, ess=1, minimum=4), positions)
    assert not is_nominal(covered)
