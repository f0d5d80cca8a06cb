"""What a callback of a run sees: every draw by its weight, whatever is stored; and chains that diverge."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import (
    MLP,
    SGHMC,
    SGLD,
    BayesianNetwork,
    RunningPrediction,
    Target,
    likelihoods,
    priors,
    retention,
    schedules,
)
from ergonet._errors import DivergedError, SamplingWarning, StartError
from ergonet.draws.callback import AbstractCallback
from tests.minibatches import classification, exact_gaussian, run
from tests.unit.inference.test_minibatch_runs import set_chunks

pytestmark = pytest.mark.slow  # the whole file

MODELS = {
    "categorical": classification,
    "bernoulli": lambda: (
        BayesianNetwork(MLP((3, 4, 1)), priors.Normal(1.0), likelihoods.Bernoulli()),
        classification()[1],
        (classification()[2] > 0).astype(int),
    ),
    "gaussian": lambda: (
        BayesianNetwork(MLP((3, 4, 2)), priors.Normal(1.0), likelihoods.Gaussian()),
        classification()[1],
        classification()[1][:, :2] ** 2,
    ),
    "gaussian, known noise": lambda: (
        BayesianNetwork(MLP((3, 4, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.3)),
        classification()[1],
        classification()[1][:, 0],
    ),
}
FIELDS = ("mean", "sd", "noise_sd", "function_sd", "log_density", "entropy", "expected_entropy")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_chains", [1, 2])
def test_a_running_prediction_is_that_of_the_stored_draws(name, num_chains):
    model, x, y = MODELS[name]()
    x_new, y_new = x[:11] + 0.1, y[:11]
    found = run(
        model.condition(x, y),
        SGHMC(learning_rate=0.0001, momentum_decay=0.1, batch_size=8),
        num_chains=num_chains,
        num_warmup=30,
        num_draws=25,
        callback=RunningPrediction(model, x_new, y_new),
    )
    expected = ergonet.predict(found, x_new, y=y_new)
    for field in FIELDS:
        mine, theirs = getattr(found.running_summary, field), getattr(expected, field)
        assert (mine is None) == (theirs is None), field
        if mine is not None:
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-5, err_msg=field)
    score = "error" if model.likelihood.is_classification else "rmse"
    assert {score, f"{score} of the draw", "nll"} <= set(found.curve or {})
    assert found.curve["nll"].shape == (num_chains, 55)
    assert np.isnan(found.curve["nll"][:, :30]).all()  # nothing is averaged in the warm-up
    assert np.isfinite(found.curve[f"{score} of the draw"]).all()
    if num_chains == 1:
        np.testing.assert_allclose(found.curve["nll"][0, -1], -expected.log_density.mean(), rtol=1e-3)
        if score == "error":
            np.testing.assert_allclose(
                found.curve["error"][0, -1], np.mean(expected.mean.argmax(1) != y_new), atol=1e-6
            )
        else:
            difference = expected.mean - np.asarray(y_new).reshape(expected.mean.shape)
            np.testing.assert_allclose(found.curve["rmse"][0, -1], np.sqrt(np.mean(difference**2)), rtol=1e-3)


def test_a_running_prediction_counts_draws_by_weight():
    model, x, y = classification()
    found = run(
        model.condition(x, y),
        SGLD(learning_rate=0.01, schedule=schedules.Cyclical(period=20, exploration=0.5), batch_size=8),
        num_chains=2,
        num_draws=16,
        callback=RunningPrediction(model, x, y),
    )
    weights = found.stats["weight"].reshape(-1).astype(float)
    assert 0 < np.sum(weights == 0) < weights.size
    positions = found.positions.reshape(32, -1)
    outputs = jax.vmap(lambda q: jax.nn.softmax(model.outputs(q, jnp.asarray(model.network.prepare(x))), axis=0))(
        jnp.asarray(positions)
    )
    mean = np.average(np.asarray(outputs, float), axis=0, weights=weights).T
    np.testing.assert_allclose(found.running_summary.mean, mean, rtol=1e-3, atol=1e-5)
    picked = np.asarray(outputs)[:, y, np.arange(len(y))]
    np.testing.assert_allclose(
        found.running_summary.log_density, np.log(np.average(picked, axis=0, weights=weights)), rtol=1e-3
    )


def test_a_running_prediction_of_no_draws_is_none():
    model, x, y = classification()
    kernel = SGLD(learning_rate=0.01, schedule=schedules.Cyclical(period=10_000), batch_size=8)
    assert (
        run(model.condition(x, y), kernel, num_draws=4, callback=RunningPrediction(model, x, y)).running_summary is None
    )


class Mean(AbstractCallback):
    """The weighted sum of positions."""

    def blank(self):
        return jnp.zeros(2), jnp.zeros(())

    def update(self, summary, position, weight):
        total = summary[0] + weight * position, summary[1] + weight
        return total, {"first": position[0]}

    def join(self, summaries):
        return sum(np.asarray(one[0]) for one in summaries) / sum(float(one[1]) for one in summaries)


def test_a_callback_of_ones_own_sees_every_draw_and_its_weight():
    kernel = SGLD(learning_rate=0.2, schedule=schedules.Polynomial(scale=5.0), batch_size=2)
    found = run(
        exact_gaussian([1.0, 2.0]),
        kernel,
        num_chains=2,
        num_warmup=3,
        num_draws=20,
        callback=Mean(),
        retention=retention.Last(20),
    )
    weights = found.stats["weight"]
    assert weights.min() < 0.5 * weights.max()
    expected = np.einsum("cd,cdi->i", weights, found.positions) / weights.sum()
    np.testing.assert_allclose(found.running_summary, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.curve["first"][:, 3:], found.positions[:, :, 0])


# Chains that diverge


def tanh_network(scale=1.0, likelihood=None):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    model = BayesianNetwork(MLP((3, 6, 1)), priors.Normal(scale), likelihood or likelihoods.Gaussian(noise=0.5))
    y = rng.integers(0, 2, size=200) if likelihood else np.sin(x[:, 0])  # noise, so that the gradient stays
    return model.condition(x, y)


def test_a_chain_whose_potential_is_not_finite_is_stopped(monkeypatch):
    set_chunks(monkeypatch, 10)
    with pytest.raises(DivergedError, match=r"Chain 0 diverged .*not finite: `SGLD\(learning_rate=10\)` is too large"):
        run(tanh_network(), SGLD(learning_rate=10.0, batch_size=20), num_draws=10**6)


@pytest.mark.parametrize("steps_per_draw", [10, 10**6])
def test_a_chain_that_is_hot_but_finite_is_stopped(monkeypatch, steps_per_draw):
    """A wide prior and a bounded activation keep it finite; one draw may last longer than many chunks."""
    set_chunks(monkeypatch, 50, 0.01)
    kernel = SGHMC(learning_rate=30.0, momentum_decay=0.05, batch_size=20, steps_per_draw=steps_per_draw)
    said = r"kinetic temperature is .*: lower `SGHMC\(learning_rate=30\)`, raise"
    with pytest.raises(DivergedError, match=said) as error:
        run(tanh_network(100.0, likelihoods.Bernoulli()), kernel, num_warmup=10**6, time_limit=60.0)
    assert int(str(error.value).split(" diverged after ")[1].split()[0]) < 20_000


class TurnsBad(eqx.Module):
    """Normal until q[1], which counts the steps up by its slope, is beyond a limit."""

    limit: Any

    def __call__(self, q):
        return jnp.where(jnp.abs(q[0]) > self.limit, jnp.nan, 1.0) * q[0]


def test_a_run_that_diverges_keeps_the_draws_before(monkeypatch):
    """The slope drives q[0] up by the step size each step; beyond the limit there is NaN."""
    set_chunks(monkeypatch, 10, 1e-9)
    target = Target.from_terms(TurnsBad(jnp.asarray(20.0)), lambda q, rows: 0 * rows, jnp.zeros(4), jnp.zeros(2))
    kernel = SGLD(learning_rate=0.1, temperature=0.0, batch_size=2, steps_per_draw=5)
    with pytest.warns(SamplingWarning, match=r"a chain that diverged \(chain 0: .*SGLD\(learning_rate=0.1\)"):
        found = run(target, kernel, num_draws=1000, init=np.zeros(2), callback=Mean())
    assert 30 <= found.num_draws <= 40
    assert np.isfinite(found.positions).all()
    np.testing.assert_allclose(found.positions[0, :, 0], 0.5 * np.arange(1, found.num_draws + 1), rtol=1e-4)
    np.testing.assert_allclose(found.running_summary, found.positions[0].mean(0), rtol=1e-4)  # without the bad chunk
    assert "diverged" in found.about["stopped_by"]


def test_a_cold_or_tempered_run_is_not_divergence():
    kernel = SGHMC(learning_rate=1e-5, momentum_decay=0.5, temperature=0.0, batch_size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        run(tanh_network(), kernel, num_warmup=50, num_draws=200)
    kernel = SGHMC(learning_rate=1e-5, momentum_decay=0.5, temperature=0.01, batch_size=20)
    run(tanh_network(), kernel, num_warmup=50, num_draws=200)  # hot at first, beside its own noise


def test_a_schedule_that_falls_to_nothing_is_not_divergence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        kernel = SGHMC(
            learning_rate=1e-5,
            momentum_decay=0.05,
            schedule=schedules.Cyclical(period=500),
            batch_size=20,
            steps_per_draw=5,
        )
        run(tanh_network(), kernel, num_warmup=1000, num_draws=500)


def test_a_bad_start_is_refused():
    target = Target.from_terms(TurnsBad(jnp.asarray(1.0)), lambda q, rows: 0 * rows, jnp.zeros(4), jnp.zeros(2))
    with pytest.raises(StartError, match="no initial values had a finite minibatch potential"):
        run(target, SGLD(learning_rate=0.1, batch_size=2), init=np.full(2, 5.0))
