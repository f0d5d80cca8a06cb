"""What a minibatch kernel advises if its kinetic temperature is wrong."""

import inspect
import re

import pytest

import ergonet
from ergonet import SGHMC, SGLD, SGNUTS, NaiveSGHMC, SequentialKernel, noise_models
from ergonet.diagnostics.advice import advise

KERNELS = {
    "sgld": SGLD(),
    "sghmc": SGHMC(),
    "sghmc, one row": SGHMC(batch_size=1),
    "sghmc, estimated": SGHMC(noise="estimated"),
    "sghmc, given": SGHMC(noise=noise_models.GivenNoise(1.0)),
    "naive": NaiveSGHMC(),
    "naive, corrected": NaiveSGHMC(metropolis=True),
    "sg-nuts": SGNUTS(),
    "sequential": SequentialKernel(SGNUTS(), SGHMC(), after=3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_names_only_settings_that_it_has_and_that_are_not_set_yet(name):
    kernel = KERNELS[name]
    adviser = kernel.second if isinstance(kernel, SequentialKernel) else kernel
    settings = inspect.signature(type(adviser)).parameters
    for named in re.findall("`(.*?)`", kernel.remedies):
        if "(" in named:
            assert all(hasattr(ergonet, one) for one in re.findall(r"(\w+)\(", named))
            continue
        setting, _, value = named.partition("=")
        assert setting in settings
        if value:
            changed = type(adviser)(batch_size=adviser.batch_size, **{setting: eval(value)})
            assert changed != adviser


def test_advice_about_the_temperature_is_that_of_the_kernel():
    def sentences(kernel):
        return advise({"diagnostics": {"mean_kinetic_temperature": 4.4, "remedies": kernel.remedies}})

    (of_trees,) = sentences(KERNELS["sg-nuts"])
    assert "draws are too wide. Raise `batch_size` (a tree" in of_trees
    assert "noise=" not in of_trees
    (of_friction,) = sentences(KERNELS["sghmc"])
    assert "or set `noise='estimated'`." in of_friction
    assert sentences(KERNELS["naive, corrected"]) == []  # its draws are right at any temperature
