"""Simulation-based calibration and Geweke's test of likelihoods with parameters of their own.

`make reliability` tests all likelihoods with all kernels.
"""

import pytest

from benchmarks.reliability.calibration import KERNELS, both_tests

FALSE_ALARM = 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["negative binomial", "t errors", "ordinal"])
def test_a_kernel_leaves_the_posterior_invariant(name):
    found = both_tests(name, "non-centered", KERNELS["MALA"], chains=256, steps=31)
    assert found is not None
    assert min(found.calibration, found.joint) > FALSE_ALARM, found
    assert 0.4 < found.acceptance < 0.95
