"""`ergonet prior-check` and `ergonet.prior_predictive`: what a model believes before any data."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, likelihoods, plots, priors
from ergonet._errors import SettingError
from ergonet.assembly.settings import resolve
from ergonet.cli.prior_check import run

pytestmark = pytest.mark.slow  # the whole file


def check(source, tmp_path, **tables):
    out = tmp_path / "prior.png"
    told = run(resolve(source, {}, tables), num_draws=40, out=str(out), overwrite=True)
    assert out.stat().st_size > 5000
    return told


def test_a_prior_that_fits_the_data_gets_no_advice(tmp_path, capsys):
    told = check("diabetes", tmp_path, network={"hidden": [50]})
    assert "that of progression is 78" in told
    assert "--prior-scale" not in told
    assert "layers.0.weight" in capsys.readouterr().out


@pytest.mark.parametrize(("scale", "expected"), [(40.0, "Use a smaller"), (0.05, "Use a larger")])
def test_a_prior_far_from_the_data_is_said_to_be(scale, expected, tmp_path):
    told = check("diabetes", tmp_path, network={"hidden": [50]}, prior={"scale": scale})
    assert expected in told


@pytest.mark.parametrize("source", ["diabetes", "digits"])
def test_nobody_is_told_to_change_the_default(source, tmp_path):
    assert "--prior-scale" not in check(source, tmp_path)


def test_classes_and_hyperparameters(tmp_path, capsys):
    told = check("digits", tmp_path, network={"hidden": [35]}, prior={"name": "normal-gamma", "width": 3.0})
    assert "sure of itself nearly everywhere" in told
    assert "prior.layers.0.weight.log_precision" in capsys.readouterr().out
    assert "sure of itself" not in check(
        "digits", tmp_path, network={"hidden": [35]}, prior={"name": "normal", "scale": 0.1}
    )


@pytest.mark.parametrize("source", ["diabetes", "two-moons"])
def test_the_axis_says_that_inputs_are_standardized(source, tmp_path, monkeypatch):
    given, drawn = [], plots.prior_functions

    def named(*args, name, **more):
        given.append(name)
        return drawn(*args, name=name, **more)

    monkeypatch.setattr(plots, "prior_functions", named)
    check(source, tmp_path, network={"hidden": [5]})
    assert len(given) == 1
    assert given[0].endswith(" (standardized)")


def test_a_picture_of_another_kind_is_refused_before_any_work(tmp_path):
    with pytest.raises(SettingError, match=r"`--out` must be a picture, .png, .svg or .pdf, got 'prior.txt'"):
        run(resolve("no-such-file.csv", {}, {}), num_draws=1, out="prior.txt", overwrite=False)


def test_the_command(tmp_path):
    def ergonet_command(*arguments):
        command = [Path(sys.executable).with_name("ergonet"), "prior-check", "two-moons", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    answer = ergonet_command("--draws", "10", "--seed", "3")
    assert answer.returncode == 0, answer.stderr
    assert "Picture: prior-check.png" in answer.stdout
    picture = (tmp_path / "prior-check.png").read_bytes()
    again = ergonet_command("--draws", "10", "--seed", "4")
    assert again.returncode == 1
    assert "exists already" in again.stderr
    assert (tmp_path / "prior-check.png").read_bytes() == picture
    assert ergonet_command("--draws", "10", "--seed", "4", "--overwrite").returncode == 0
    assert (tmp_path / "prior-check.png").read_bytes() != picture
    refused = ergonet_command("--draws", "0", "--out", "other.png")
    assert refused.returncode == 1
    assert "num_draws" in refused.stderr


def test_prior_predictive_has_the_moments_of_a_linear_network():
    x = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
    model = BayesianNetwork(MLP((2, 1), bias=False), priors.Normal(2.0), likelihoods.Gaussian(noise=0.5))
    found = ergonet.prior_predictive(model, x, num_draws=4000, seed=0)
    assert found.mean.shape == found.targets.shape == (4000, 3, 1)
    variance = 4 * np.sum(x**2, axis=1)
    np.testing.assert_allclose(found.mean[..., 0].var(axis=0), variance, rtol=0.1)
    np.testing.assert_allclose((found.targets - found.mean)[..., 0].std(axis=0), 0.5, rtol=0.05)
    assert np.all(found.noise_sd == 0.5)


def test_prior_predictive_of_classes_and_its_errors():
    model = BayesianNetwork(MLP((2, 3)), priors.Normal(1.0), likelihoods.Categorical())
    found = ergonet.prior_predictive(model, np.zeros((5, 2)), num_draws=7, seed=0)
    assert found.mean.shape == (7, 5, 3)
    assert found.noise_sd is None
    np.testing.assert_allclose(found.mean.sum(axis=2), 1, rtol=1e-5)
    assert set(np.unique(found.targets)) <= {0, 1, 2}
    with pytest.raises(
        SettingError, match=r"`prior_predictive\(num_draws=...\)` must be an integer of at least 1, got 0"
    ):
        ergonet.prior_predictive(model, np.zeros((5, 2)), num_draws=0, seed=0)


@pytest.mark.parametrize("source", ["diabetes", "digits"])
def test_a_prior_beyond_what_numbers_can_say_is_far_too_wide(source, tmp_path):
    told = check(source, tmp_path, prior={"name": "normal-gamma", "alpha": 0.002})
    assert "of the functions from the prior are not finite" in told
    assert "Use a smaller" in told or "sure of itself nearly everywhere" in told
    assert "nan" not in told
