"""The summary and the diagnostics count draws as predictions do: a weight of two is the same as being there twice."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, Samples, Target, likelihoods, priors
from ergonet._errors import SettingError
from ergonet.cli.evaluation import MOST_SCALE_DRAWS, learned_scales
from ergonet.diagnostics import function_space
from ergonet.diagnostics.chains import ess_bulk
from ergonet.draws import diagnosis
from ergonet.draws.quantities import spread_draws
from ergonet.target.logdensity import LogDensity

CHAINS, DRAWS = 2, 400
WEIGHTS = np.tile(np.array([0.0, 1.0, 2.0, 1.0], np.float32), (CHAINS, DRAWS // 4))
X = np.random.default_rng(0).normal(size=(11, 2)).astype(np.float32)


def drawn(target, weights=WEIGHTS):
    """Draws of which those without weight are far off, as in the large steps of a cycle."""
    positions = np.array(0.3 * jax.random.normal(jax.random.key(1), (CHAINS, DRAWS, target.dim)))
    positions[:, 0::4] += 2.0
    stats = {"lp": 0 * weights, "gradients": np.ones(weights.shape, int), "nonfinite": weights < 0, "weight": weights}
    return Samples(
        positions=positions, stats=stats, warmup_stats={}, seconds={}, gradients={}, tuning={}, about={}, target=target
    )


def gaussian():
    return Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))


def network():
    return BayesianNetwork(MLP((2, 3, 1)), priors.NormalGamma(), likelihoods.Gaussian()).condition(X, np.sin(X[:, 0]))


def copies(samples):
    """The same draws, each as often as its weight says, and all of the same weight."""
    repeated = [np.repeat(one, WEIGHTS[0].astype(int), axis=0) for one in samples.positions]
    return replace(samples, positions=np.stack(repeated), stats={k: v for k, v in samples.stats.items() if k == "lp"})


@pytest.mark.parametrize("make", [gaussian, network])
def test_the_summary_of_weighted_draws_is_that_of_copies(make):
    samples = drawn(make())
    found, expected = samples.summary(), copies(samples).summary()
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["sd"], expected["sd"], rtol=1e-4)
    np.testing.assert_allclose(found[["q5", "q95"]], expected[["q5", "q95"]], rtol=0.05, atol=0.02)
    np.testing.assert_allclose(found["mcse_mean"], expected["mcse_mean"], rtol=0.3)
    np.testing.assert_allclose(found["mcse_mean"].mean(), expected["mcse_mean"].mean(), rtol=0.06)
    np.testing.assert_allclose(found["r_hat"], expected["r_hat"], atol=5e-3)
    assert (found["sd"] < 0.7 * replace(samples, stats={}).summary()["sd"]).any()


def test_diagnostics_count_weights():
    samples = drawn(network())
    found, expected = samples.diagnostics(), copies(samples).convergence()
    unweighted = {k: v for k, v in samples.stats.items() if k != "weight"}
    plain = replace(samples, stats=unweighted, about={"thin": 3}).diagnostics()
    assert found["max_rhat_function"] == pytest.approx(expected.max_rhat, abs=5e-3)
    assert found["median_ess_bulk_function"] == pytest.approx(expected.median_ess_bulk, rel=0.1)
    for name in ("min_ess_bulk_scales", "min_ess_bulk_weights", "min_ess_tail_function"):
        assert found[name] != plain[name], name
    assert (found["mean_gradients_per_draw"], plain["mean_gradients_per_draw"]) == (1, 3)  # of three epochs


class OnDisk:
    """Positions that may not be read as a whole; counts the numbers that are read."""

    def __init__(self, values):
        self.values, self.shape, self.num_read = values, values.shape, 0

    def __getitem__(self, index):
        found = self.values[index]
        assert found.shape[2] == 1
        self.num_read += found.size
        return found


def test_positions_that_are_judged_are_read_once_and_in_parts(monkeypatch):
    samples = drawn(gaussian())
    expected = samples.convergence()
    monkeypatch.setattr(function_space, "_NUMBERS_AT_ONCE", CHAINS * DRAWS)
    positions = OnDisk(samples.positions)
    found = replace(samples, positions=positions).convergence()
    for name, figures in vars(expected).items():
        np.testing.assert_allclose(getattr(found, name), figures, rtol=1e-12)
    assert positions.num_read == samples.positions.size


def test_of_many_coordinates_evenly_spaced_ones_have_an_ess(monkeypatch):
    samples = replace(drawn(gaussian()), stats={})
    monkeypatch.setattr(diagnosis, "MOST_WEIGHTS", samples.positions.shape[2] - 1)
    found = diagnosis._weights_ess(samples)
    np.testing.assert_array_equal(found, ess_bulk(samples.positions[:, :, ::2]))


def test_draws_of_which_none_counts_have_no_summary():
    samples = drawn(gaussian(), 0 * WEIGHTS)
    for ask in (samples.weights, samples.summary, samples.convergence):
        with pytest.raises(SettingError, match="Every stored draw has weight 0"):
            ask()


def test_scales_in_the_report_are_spread_over_the_weights():
    samples = drawn(network())
    shown = learned_scales(samples, network().model, ["a", "b"])["scale_draws"]
    noise = samples.scales()
    of_summary = samples.summary()["mean"]
    assert shown.shape == (CHAINS, DRAWS, len(noise))
    for index, name in enumerate(noise):
        assert shown[..., index].mean() == pytest.approx(of_summary[f"scale of {name}"], rel=0.01)
    many = np.ones((1, 2 * MOST_SCALE_DRAWS))
    assert spread_draws(many, MOST_SCALE_DRAWS).shape == (1, MOST_SCALE_DRAWS)
    np.testing.assert_array_equal(spread_draws(np.ones((2, 7)), 500), np.tile(np.arange(7), (2, 1)))


def test_parameters_compile_once_for_a_target(monkeypatch):
    traces = []

    def unravel(self, position):
        traces.append(1)
        return self.layout.unravel(position)

    monkeypatch.setattr(LogDensity, "unravel", unravel)
    samples = drawn(gaussian())
    first = samples.parameters()["x"]
    np.testing.assert_array_equal(samples.parameters()["x"], first)
    np.testing.assert_array_equal(first, samples.positions)
    assert len(traces) == 1
