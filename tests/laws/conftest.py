"""Laws hold to rounding, so they are checked in double precision."""

import jax
import pytest


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield
