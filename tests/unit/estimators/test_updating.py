"""New rows without starting over: against closed forms, against fits of all rows at once, and where it cannot work."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, BayesianClassifier, BayesianRegressor, DelayedRejectionHMC, priors
from ergonet._errors import CapabilityError, DataError, SamplingWarning
from ergonet.assembly.settings import RunSettings
from ergonet.diagnostics.chains import ess_bulk, mcse_mean
from ergonet.inference import updating
from tests.sampling import gaussian_target

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
NOISE = 0.3
LINEAR: dict[str, Any] = {
    "hidden": (),
    "prior": priors.Normal(1.0),
    "noise": NOISE,
    "kernel": {"name": "hmc", "num_steps": 8},
    "num_chains": 2,
    "num_warmup": 150,
    "num_draws": 250,
    "standardize": False,
    "random_state": 1,
}
NETWORK: dict[str, Any] = {
    "hidden": (6,),
    "kernel": {"name": "hmc", "num_steps": 12},
    "likelihood": "gaussian",
    "num_chains": 4,
    "num_warmup": 300,
    "num_draws": 300,
    "standardize": False,
    "random_state": 0,
}


def line(count=60):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(count, 2))
    return x, x @ [0.7, -1.1] + 0.4 + NOISE * rng.normal(size=count)


def posterior(x, y):
    """Mean and covariance of weights and bias, with prior N(0, 1)."""
    design = np.column_stack([x, np.ones(len(x))])
    covariance = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(3))
    return covariance @ design.T @ y / NOISE**2, covariance


@pytest.mark.statistical
@pytest.mark.parametrize("first", [6, 40])  # few rows at first: the new ones are tempered
def test_a_linear_network_has_the_posterior_of_all_rows(first):
    x, y = line()
    model = BayesianRegressor(**LINEAR).fit(x[:first], y[:first])
    assert model.update(x[first:], y[first:]) is model
    assert model.update_["method"] == "moved"
    assert model.update_["exponents"][-1] == 1
    assert (model.update_["effective_share"] < 0.5) == (len(model.update_["exponents"]) > 1)
    assert (model.update_["new_rows"], model.update_["rows"]) == (60 - first, 60)
    mean, covariance = posterior(x, y)
    draws = np.asarray(model.samples_.positions, float).reshape(-1, 3)
    effective = 150  # of 500 draws, which share ancestors and are moved ten times
    scores = (draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / effective)
    assert np.abs(scores).max() < 4, scores
    ratio = draws.var(axis=0) / np.diag(covariance)
    assert np.abs(np.log(ratio)).max() < 4 * np.sqrt(2 / effective), ratio
    assert model.diagnostics_["max_rhat_function"] < 1.1


def functions(model, x):
    """Outputs at new rows, `[chain, draw, row]`."""
    inputs = jnp.asarray(x.T, jnp.float32)
    each = jax.jit(jax.vmap(jax.vmap(lambda position: model.model_.outputs(position, inputs)[0])))
    return np.asarray(each(jnp.asarray(model.samples_.positions)), np.float64)


@pytest.mark.statistical
def test_halves_of_a_network_predict_as_all_rows_at_once():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(80, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=80)
    new = np.linspace(-2, 2, 9)[:, None]
    at_once = functions(BayesianRegressor(**NETWORK).fit(x, y), new)
    halves = BayesianRegressor(**NETWORK).fit(x[:40], y[:40])
    before = functions(halves, new)
    halves.update(x[40:], y[40:])
    assert halves.update_["method"] == "moved"
    after = functions(halves, new)
    between = after.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(after))  # populations are independent
    error = np.sqrt(mcse_mean(at_once) ** 2 + np.maximum(mcse_mean(after), between) ** 2)
    difference = after.mean(axis=(0, 1)) - at_once.mean(axis=(0, 1))
    assert np.abs(difference / error).max() < 4, difference / error
    ratio = np.log(after.std(axis=(0, 1)) / at_once.std(axis=(0, 1)))
    assert (np.abs(ratio) < 4 * np.sqrt(0.5 / ess_bulk(at_once) + 0.5 / 60)).all(), ratio
    assert (before.std(axis=(0, 1)) > 1.1 * after.std(axis=(0, 1))).all()  # the new rows matter


class Ratio:
    """Normal draws at 0 of unit variance, and a target at `shift`."""

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, positions):
        return positions[:, :, 0] * self.shift


@pytest.mark.parametrize("shift", [0.5, 4.0])
def test_powers_are_as_large_as_half_of_the_draws_allow(shift):
    rng = np.random.default_rng(0)
    ratio = Ratio(shift)(rng.normal(size=(2, 4000, 1)))
    power = updating._largest_power(ratio, 1.0)
    share = updating._shares(power * ratio).min()
    if power == 1:
        assert share >= 0.5
        assert shift == 0.5  # exp(-shift^2) = 0.78 of the draws are effective
    else:
        assert share == pytest.approx(0.5, abs=1e-3)
        assert power == pytest.approx(np.sqrt(np.log(2)) / shift, rel=0.1)


@pytest.mark.statistical
def test_draws_that_stand_still_are_weighted():
    positions = np.random.default_rng(0).normal(size=(2, 1500, 2)).astype(np.float32)
    tuning = {"step_size": np.full(2, 1e-4), "num_steps": np.ones(2, int), "inverse_mass_matrix": np.ones((2, 2))}
    found = updating.anneal(
        positions,
        log_ratio=lambda draws: 0.6 * draws[:, :, 0],
        target_at=lambda power: gaussian_target(np.ones(2)),
        kernel=HMC(num_steps=1, metric="identity"),
        tuning=tuning,
        seed=0,
    )
    assert found.exponents == (1.0,)
    assert found.share == pytest.approx(np.exp(-(0.6**2)), abs=0.08)
    error = np.sqrt(1 / (1500 * found.share))
    np.testing.assert_allclose(found.positions.mean(axis=1), [[0.6, 0.0]] * 2, atol=4 * error)


def test_resampling_keeps_the_order_and_the_expected_numbers():
    positions = np.arange(8.0).reshape(1, 8, 1)
    one = updating._Population.__new__(updating._Population)
    one.positions = positions
    weights = np.array([[0.5, 0, 0, 0.25, 0, 0.125, 0.125, 0]])
    one.resample(weights, np.random.default_rng(0))
    assert np.bincount(one.positions[0, :, 0].astype(int), minlength=8).tolist() == [4, 0, 0, 2, 0, 1, 1, 0]
    assert (np.diff(one.positions[0, :, 0]) >= 0).all()


@pytest.mark.statistical
def test_where_draws_cannot_be_moved_chains_are_run_again_from_them(monkeypatch):
    x, y = line(40)
    model = BayesianRegressor(**LINEAR | {"num_draws": 60}).fit(x[:6], y[:6])
    starts = np.asarray(model.samples_.positions[:, -1])
    monkeypatch.setattr(updating, "MOST_STEPS", 0)
    begun = []
    from ergonet.estimators import updating as glue

    real = glue.sample
    monkeypatch.setattr(glue, "sample", lambda *a, **b: begun.append(b["init"]) or real(*a, **b))
    with pytest.warns(SamplingWarning, match="could not be moved to the new rows, because more than 0 tempered steps"):
        model.update(x[6:], y[6:])
    np.testing.assert_array_equal(begun[0], starts)
    assert model.update_["method"] == "sampled"
    mean, covariance = posterior(x, y)
    draws = np.asarray(model.samples_.positions, float).reshape(-1, 3)
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(covariance) / 20)).all()


@pytest.mark.statistical
def test_weights_are_those_of_the_rows():
    x, y = line(30)
    twice = BayesianRegressor(**LINEAR).fit(x[:20], y[:20])
    twice.update(x[20:], y[20:], sample_weight=np.full(10, 2.0))
    mean, covariance = posterior(np.concatenate([x, x[20:]]), np.concatenate([y, y[20:]]))
    draws = np.asarray(twice.samples_.positions, float).reshape(-1, 3)
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(covariance) / 100)).all()


@pytest.mark.statistical
def test_a_classifier_takes_labels_that_it_knows_and_files_know_no_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    labels = np.array(["no", "yes"])[(x[:, 0] > 0).astype(int)]
    settings = {name: one for name, one in LINEAR.items() if name != "noise"} | {"num_draws": 60, "num_warmup": 60}
    model = BayesianClassifier(**settings).fit(x[:30], labels[:30])
    before = model.predict_proba(x).copy()
    with pytest.raises(DataError, match="'perhaps', which no row"):
        model.update(x[30:32], ["yes", "perhaps"])
    model.update(x[30:], labels[30:])
    assert (model.predict_proba(x) != before).any()
    assert model.score(x, labels) > 0.85
    again = pickle.loads(pickle.dumps(model))
    with pytest.raises(CapabilityError, match="which files and pickles do not have"):
        again.update(x[30:], labels[30:])


def test_copies_have_the_rows_and_files_and_pickles_say_that_they_have_none(tmp_path, monkeypatch):
    settings = {name: one for name, one in LINEAR.items() if name != "noise"}
    settings |= {"num_draws": 4, "num_warmup": 4, "prior": "normal"}
    labels = np.array(["no", "yes"] * 6)
    model = BayesianClassifier(**settings).fit(np.arange(12.0)[:, None], labels)
    model.save(tmp_path / "saved")
    for other in (BayesianClassifier.load(tmp_path / "saved"), pickle.loads(pickle.dumps(model))):
        with pytest.raises(CapabilityError, match="which files and pickles do not have"):
            other.update([[1.0]], ["yes"])

    def updated(fit, old, new, *, seed):
        return replace(fit.samples, about={"update": len(old.x) + len(new.x)})

    monkeypatch.setattr("ergonet.estimators.updating.updated", updated)
    before = model.samples_
    for other in (copy.copy(model), copy.deepcopy(model), model.compress(2)):
        assert other.update([[1.0]], ["yes"]).update_ == 13
    assert model.samples_ is before
    assert copy.deepcopy(model).kernel is not model.kernel


def test_chains_that_run_again_have_the_stop_rule(monkeypatch):
    from ergonet.estimators import updating as glue

    begun: list[Any] = []

    def begin(*_, until, **__):
        begun.append(until)
        raise SamplingWarning

    monkeypatch.setattr(glue, "sample", begin)
    run = RunSettings(num_chains=2, num_warmup=4, num_draws=100, until_ess=40.0)
    fit = object.__new__(glue.Fit)
    samples = SimpleNamespace(positions=np.zeros((2, 3, 1)))
    fit.__dict__.update(run=run, samples=samples, kernel=None, devices=None, progress=False)
    with pytest.raises(SamplingWarning):
        glue._sampled(fit, None, seed=0)
    assert begun[0].ess == 40


def test_kernels_for_which_rows_have_no_weights_run_again(monkeypatch):
    from ergonet.estimators import updating as glue

    def refuse(*_, **__):
        raise CapabilityError("rows have weights")

    monkeypatch.setattr(glue, "_moved", refuse)
    x, y = line(40)
    model = BayesianRegressor(**LINEAR | {"num_warmup": 4, "num_draws": 4}).fit(x[:30], y[:30])
    with pytest.warns(SamplingWarning, match="could not be moved to the new rows, because rows have weights"):
        model.update(x[30:], y[30:])
    assert model.update_["method"] == "sampled"


def test_draws_of_delayed_rejection_have_all_of_its_statistics():
    kernel = DelayedRejectionHMC(num_steps=3, metric="identity")
    found = updating.anneal(
        np.random.default_rng(0).normal(size=(2, 30, 2)).astype(np.float32),
        log_ratio=lambda draws: 0.6 * draws[:, :, 0],
        target_at=lambda power: gaussian_target(np.ones(2)),
        kernel=kernel,
        tuning={"step_size": np.full(2, 0.5), "num_steps": np.full(2, 3), "inverse_mass_matrix": np.ones((2, 2))},
        seed=0,
    )
    wanted = {one.name for one in kernel.statistics() if "energy" not in one.name}
    assert wanted <= set(found.stats)
    assert all(found.stats[name].shape == (2, 30) for name in wanted)
    assert set(np.unique(found.stats["n_proposals"])) <= {1, 2}
