"""`ergonet.checking.check`: right models pass, planted faults fail where they are.

A right model fails one time in a hundred, by Bonferroni's bound, and the seed is fixed; planted faults must be found
with p < 1e-6.
"""

import numpy as np
import pytest

from ergonet import HMC, MLP, BayesianNetwork, checking, likelihoods, priors
from ergonet.models.likelihood import LOG_PRECISION
from tests.statistical import geweke

pytestmark = pytest.mark.statistical
FOUND = 1e-6


class WrongPrior(priors.Normal):
    """The planted fault: draws are wider than the density says."""

    def scaled(self, noise, leaf):
        return 1.4 * super().scaled(noise, leaf)


class WithoutJacobian(likelihoods.Gaussian):
    """The planted fault: the density of a precision for that of its logarithm."""

    def log_prior(self, parameters):
        return super().log_prior(parameters) - parameters[LOG_PRECISION]


class WrongLikelihood(likelihoods.Gaussian):
    """The planted fault: targets are noisier than their density says."""

    def sample(self, key, parameters, outputs):
        return outputs + 1.4 * (super().sample(key, parameters, outputs) - outputs)


def checked(prior=priors.Normal, likelihood=likelihoods.Gaussian, **settings):
    model = BayesianNetwork(MLP((1, 2, 1)), prior(1.0), likelihood(geweke.NOISE))
    posterior = model.condition(geweke.INPUTS, np.zeros((len(geweke.INPUTS), 1), np.float32))
    return checking.check(posterior, HMC(num_steps=5, metric="identity"), num_replicas=256, **settings)


def test_a_right_model_passes():
    found = checked()
    assert found.passes, str(found)
    assert found.sentences()[0].startswith("Passes: p = ")
    assert 0.5 < found.about["acceptance"] < 0.9
    assert next(iter(found.sizes)) == "layers.0.weight"


@pytest.mark.parametrize(
    ("fault", "where", "meaning"),
    [
        ({"prior": WrongPrior}, "layers.", "Usually the log density of layers."),
        ({"likelihood": WithoutJacobian}, LOG_PRECISION, "the Jacobian of a transformed parameter is missing"),
        ({"likelihood": WrongLikelihood}, "residuals", "`sample` and `log_prob` of the likelihood differ"),
    ],
    ids=["prior", "jacobian", "likelihood"],
)
def test_planted_faults_fail_where_they_are(fault, where, meaning):
    found = checked(**fault)
    assert not found.passes
    assert found.p_value < FOUND, str(found)
    failing = found.frame().query("fails").index
    assert any(where in name for name in failing), str(found)
    assert meaning in str(found)
    assert "a wrong model fails with every one" in str(found)
