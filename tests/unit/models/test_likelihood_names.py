"""The names of `ergonet.likelihoods`, which are loaded when they are first used."""

import subprocess
import sys

import pytest

from ergonet import likelihoods


@pytest.mark.parametrize("name", likelihoods.__all__)
def test_every_name_is_there(name):
    assert getattr(likelihoods, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'ergonet.models.likelihoods' has no attribute 'Cauchy'"):
        likelihoods.Cauchy  # noqa: B018


def test_a_network_of_classes_and_a_kernel_do_not_load_numpyro():
    program = (
        "import sys\n"
        "import ergonet\n"
        "ergonet.sample, ergonet.HMC()\n"
        "ergonet.BayesianNetwork(ergonet.MLP((2, 3)), ergonet.priors.Normal(1.0), ergonet.likelihoods.Categorical())\n"
        "assert 'numpyro' not in sys.modules\n"
        "ergonet.likelihoods.Poisson()\n"
        "assert 'numpyro' in sys.modules\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
