"""What the priors have learned, in reports: scales against their priors, and the relevance of inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, likelihoods, plots, priors
from ergonet.models.network_posterior import RELEVANCE
from ergonet.report import RunRecord
from ergonet.report.hyperparameters import pictures


def model(first):
    rest = priors.NormalGamma(2.0, below=(priors.Level("incoming", 1.0),))
    return BayesianNetwork(MLP((3, 4, 1)), {"layers.0.weight": first, "*": rest}, likelihoods.Gaussian())


def test_scales_are_inverse_roots_of_precisions():
    network = model(priors.NormalGamma(1.0, 0.5, "input"))
    position = network.sample_prior(jax.random.key(0))
    named, scales = network.hyperparameters(position), network.scales(position)
    of_inputs = np.exp(-0.5 * np.asarray(named["prior.layers.0.weight.log_precision"]))
    np.testing.assert_allclose(scales["layers.0.weight by input"], of_inputs, rtol=1e-6)
    noise = network.split(position)[1]["likelihood.log_precision"]
    np.testing.assert_allclose(scales["noise"], np.exp(-0.5 * noise), rtol=1e-6)
    assert {"layers.1.weight", "layers.1.weight incoming", "layers.0.bias by incoming"} <= set(scales)


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (priors.NormalGamma(group="input"), "layers.0.weight by input"),
        (priors.NormalGamma(group="leaf", below=(priors.Level("input"),)), "layers.0.weight by input"),
        (priors.NormalGamma(group="input", below=(priors.Level("weight"),)), "layers.0.weight by input"),
        (priors.Horseshoe(group="outgoing"), "layers.0.weight by outgoing"),
        (priors.NormalGamma(), ""),
        (priors.Horseshoe(), ""),
        (priors.Normal(), ""),
    ],
)
def test_relevance_is_told_where_every_input_has_a_scale(prior, expected):
    network = model(prior)
    assert network.relevance == expected
    if expected:
        assert network.scales(jnp.zeros(network.dim))[expected].shape == (3,)


def test_a_posterior_tells_one_scale_for_a_prior_and_one_for_every_input():
    network = model(priors.NormalGamma(1.0, 0.5, "input"))
    posterior = network.condition(np.ones((5, 3)), np.arange(5.0))
    position = network.sample_prior(jax.random.key(2))
    told, every = posterior.scales(position), network.scales(position)
    assert {name for name, one in told.items() if one.ndim} == {RELEVANCE}
    np.testing.assert_allclose(told[RELEVANCE], every["layers.0.weight by input"], rtol=1e-6)
    for name, one in every.items():
        np.testing.assert_allclose(told[name], np.sqrt(np.mean(np.square(one))), rtol=1e-5)


def test_horseshoe_scales_are_those_of_the_weights():
    network = BayesianNetwork(MLP((3, 2, 1), bias=False), priors.Horseshoe(0.5, "input"), likelihoods.Gaussian(0.1))
    position = network.sample_prior(jax.random.key(1))
    weights = network.split(position)[0]["layers.0.weight"]
    standard = position[:6].reshape(2, 3)
    np.testing.assert_allclose(weights, standard * network.scales(position)["layers.0.weight by input"], rtol=1e-5)


def test_the_slab_of_a_horseshoe_is_one_of_its_scales():
    network = model(priors.RegularizedHorseshoe(group="input"))
    position = network.sample_prior(jax.random.key(3))
    square = network.hyperparameters(position)["prior.layers.0.weight.log_slab_variance"]
    np.testing.assert_allclose(network.scales(position)["layers.0.weight slab"], np.exp(0.5 * square), rtol=1e-6)


def record(**evaluation):
    return RunRecord(settings={}, metrics={}, evaluation=evaluation)


def test_no_picture_where_nothing_was_learned():
    assert pictures(record()) == []


def test_pictures_name_every_scale_and_the_most_relevant_input():
    draws = np.exp(np.random.default_rng(0).normal(size=(2, 50, 2)))
    inputs = draws * np.array([1.0, 0.001])
    made = pictures(
        record(
            scale_names=np.array(["layers.0.weight by input", "noise"]),
            scale_draws=draws,
            scale_prior=draws[0],
            input_names=np.array(["age", "height"]),
            input_draws=inputs,
        )
    )
    assert [one.title for one in made] == ["What did the data say about the scales?", "Which inputs matter?"]
    assert "noise" in made[0].svg
    assert "prior, 90 %" in made[0].svg
    assert "The largest: age" in made[1].alternative
    assert "Below a tenth of the largest: 1." in made[1].alternative
    assert "mathdefault" not in made[0].svg + made[1].svg


def test_relevance_is_in_order_and_cut_at_twenty():
    draws = np.ones((4, 30)) * np.arange(1, 31)
    axes = plots.relevance_plot([f"x{number}" for number in range(30)], draws)
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == ["x29", "x28", "x27"]
    assert len(axes.get_yticks()) == 20
    assert plots.scales_plot([], np.ones((4, 0))).texts[0].get_text() == "No scales were learned."
