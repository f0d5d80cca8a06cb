"""Import of ArviZ where the user has no home directory, and before NumPyro."""

import os
import pwd
import subprocess
import sys

import numpy as np

from ergonet.diagnostics.averages import estimates


def test_diagnostics_work_without_a_home_directory(monkeypatch):
    def unknown(user):
        raise KeyError(user)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in [name for name in sys.modules if name.startswith(("arviz_base", "arviz_stats"))]:
        monkeypatch.delitem(sys.modules, name)
    values = np.random.default_rng(0).normal(size=(2, 50, 1))
    assert np.isfinite(estimates().rhat(values)).all()
    assert "HOME" not in os.environ


def test_numpyro_is_whole_after_diagnostics():
    """Else `numpyro.distributions` has no `distribution`, and NumPyro's programs with bounded sites are an error."""
    program = "from ergonet._arviz import array_stats; array_stats(); import numpyro.distributions as d; d.distribution"
    subprocess.run([sys.executable, "-c", program], check=True)
