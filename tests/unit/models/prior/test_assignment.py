"""Which prior falls on which weights: groups, names, descriptions, and what does not fit together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, DynamicalA, DynamicalB, GibbsHMC, Target, likelihoods, priors
from ergonet._errors import CapabilityError, SettingError
from ergonet.models.prior.groups import group_names
from ergonet.models.prior.simple import MOST_TOGETHER
from ergonet.target.capabilities import CenteredCurvature, GibbsBlock, NonCenteredCurvature, offers

NETWORK = MLP((2, 3, 1))
BIAS = {"*.bias": priors.Normal()}


def assigned(prior, network=NETWORK):
    return priors.assign(prior, network.leaves())


@pytest.mark.parametrize(
    ("group", "added"),
    [("leaf", 4), ("layer", 2), ("incoming", 3 + 3 + 1 + 1), ("weight", 13)],
)
def test_a_prior_adds_a_coordinate_for_each_group(group, added):
    chosen = assigned(priors.NormalGamma(1.0, 2.0, group))
    assert chosen.num_weights == 13
    assert chosen.dim == 13 + added
    assert sum(leaf.size for leaf in chosen.own().values()) == added
    position = jnp.arange(float(chosen.dim))
    flat = jnp.concatenate([value.reshape(-1) for value in chosen.hyperparameters(position).values()])
    np.testing.assert_array_equal(flat, position[13:])


@pytest.mark.parametrize("group", ["outgoing", "input"])
def test_weights_out_of_a_unit_share_a_precision(group):
    chosen = assigned(BIAS | {"*": priors.NormalGamma(1.0, 2.0, group)})
    assert {name: leaf.shape for name, leaf in chosen.own().items()} == {
        "prior.layers.0.weight.log_precision": (2,),
        "prior.layers.1.weight.log_precision": (3,),
    }
    position = jnp.zeros(chosen.dim).at[:13].set(1.0).at[13].set(2.0)
    weights = chosen.split(position)
    expected = np.tile([np.exp(-1.0), 1.0], (3, 1))
    np.testing.assert_allclose(weights["layers.0.weight"], expected, rtol=1e-6)
    np.testing.assert_allclose(weights["layers.1.bias"], 1.0)


def test_levels_are_named_from_the_top():
    below = [{"group": "incoming", "alpha": 1.0}, {"group": "weight", "alpha": 4.0}]
    chosen = assigned(BIAS | {"*": priors.NormalGamma(0.5, 1.0, "leaf", below=below)})
    names = list(chosen.own())
    assert names[:3] == [f"prior.layers.0.weight.log_precision.{group}" for group in ("leaf", "incoming", "weight")]
    assert chosen.own()["prior.layers.0.weight.log_precision.weight"].shape == (3, 2)


def test_a_description_shows_leaves_priors_and_what_they_add():
    text = priors.describe(priors.NormalGamma(0.5, 2.0, "incoming"), NETWORK)
    lines = text.splitlines()
    assert len(lines) == 4 + 4 + 1
    assert lines[0].split()[:3] == ["layers.0.weight", "[3,", "2]"]
    assert "NormalGamma(0.5, 2, 'incoming', 'non-centered')" in lines[0]
    assert lines[4].split() == ["prior.layers.0.weight.log_precision", "3", "hyperparameter"]
    assert lines[-1] == "13 weights and 8 hyperparameters: 21 coordinates"
    assert len(priors.describe(priors.Normal(), NETWORK).splitlines()) == 4
    deep = priors.describe(priors.NormalGamma(1.0, 1.0, below=[priors.Level("weight", 4.0)]), NETWORK)
    assert "> weight (alpha 4)" in deep
    assert "Horseshoe(0.1, 'incoming', 'centered')" in priors.describe(
        priors.Horseshoe(0.1, "incoming", "centered"), NETWORK
    )


def test_named_parameters_hold_weights_and_hyperparameters():
    model = BayesianNetwork(NETWORK, priors.NormalGamma(0.5, 2.0, "layer"), likelihoods.Gaussian())
    posterior = model.condition(np.zeros((4, 2)), np.zeros(4))
    named = posterior.unravel(model.sample_prior(jax.random.key(1)))
    assert list(named) == [
        *NETWORK.leaves(),
        "prior.layers.0.log_precision",
        "prior.layers.1.log_precision",
        "likelihood.log_precision",
    ]
    assert posterior.dim == 13 + 3
    assert posterior.num_weights == 13


@pytest.mark.parametrize("group", group_names())
def test_chains_start_at_the_initial_values_of_hyperparameters(group):
    vague = priors.NormalGamma(0.5, 0.02, group)
    chosen = assigned(BIAS | {"*": vague})
    starts = np.stack([chosen.sample(jax.random.key(n), jnp.float32, is_start=True) for n in range(5)])
    own = starts[:, 13:]
    assert np.all(np.abs(own - np.log(4.0)) <= 1)
    assert len(np.unique(own)) == own.size
    assert np.all(np.isfinite(starts))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: priors.NormalGamma(0.0), r"NormalGamma\(width"),
        (lambda: priors.NormalGamma(1.0, -1.0), r"NormalGamma\(alpha"),
        (lambda: priors.NormalGamma(group="unit"), r"NormalGamma\(group='unit'"),
        (lambda: priors.NormalGamma(parametrization="noncentered"), "non-centered"),
        (lambda: priors.NormalGamma(group="layer", below=[priors.Level()]), "below"),
        (lambda: priors.NormalGamma(below=[{"group": "weight", "alpha": 0.0}]), r"Level\(alpha"),
        (lambda: priors.NormalGamma(below=[{"group": "all"}]), r"Level\(group='all'"),
        (lambda: priors.NormalGamma(below=[priors.Level("leaf")]), "below"),
        (lambda: priors.NormalGamma(below=[priors.Level("layer")]), "below"),
        (lambda: priors.Horseshoe(-1.0), r"Horseshoe\(scale"),
        (lambda: priors.Horseshoe(group="units"), r"Horseshoe\(group"),
        (lambda: priors.RegularizedHorseshoe(slab_shape=0.0), r"RegularizedHorseshoe\(slab_shape"),
        (lambda: priors.RegularizedHorseshoe(slab_rate=float("nan")), r"RegularizedHorseshoe\(slab_rate"),
        (lambda: priors.RegularizedHorseshoe(parametrization="both"), r"RegularizedHorseshoe\(parametrization"),
        (lambda: priors.Uniform(1.0, 1.0), r"Uniform\(high"),
        (lambda: priors.Uniform(float("-inf"), 1.0), r"Uniform\(low"),
        (lambda: assigned(priors.NormalGamma(group="outgoing")), r"biases.*'\*\.bias'"),
        (lambda: assigned(priors.Horseshoe(group="input")), r"Horseshoe\(group='input'"),
        (
            lambda: assigned(
                priors.NormalGamma(group="incoming", below=[priors.Level("outgoing")]), MLP((2, 3), bias=False)
            ),
            "below",
        ),
        (lambda: GibbsHMC("nutz"), r"GibbsHMC\(update='nutz'"),
        (lambda: GibbsHMC(DynamicalA()), r"GibbsHMC\(update"),
        (lambda: GibbsHMC(step_sizes="neal"), r"GibbsHMC\(step_sizes"),
        (lambda: DynamicalA(0), r"DynamicalA\(num_steps"),
        (lambda: DynamicalB(hyperparameter_splits=0), r"DynamicalB\(hyperparameter_splits"),
        (lambda: DynamicalB(hyperparameter_ratio=0.0), r"DynamicalB\(hyperparameter_ratio"),
        (lambda: DynamicalA(step_size=-0.1), r"DynamicalA\(step_size"),
    ],
)
def test_impossible_settings_are_refused_by_name(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()


def posterior(prior, likelihood=None):
    model = BayesianNetwork(NETWORK, prior, likelihood or likelihoods.Gaussian())
    return model.condition(np.random.default_rng(1).normal(size=(6, 2)), np.zeros(6))


CENTERED = priors.NormalGamma(1.0, 2.0, "leaf", "centered")
OTHER = priors.NormalGamma(1.0, 2.0, "leaf", "non-centered")
LEVELS = priors.NormalGamma(1.0, 2.0, "leaf", "centered", below=[priors.Level("weight", 4.0)])


@pytest.mark.parametrize(
    ("kernel", "target", "complaint"),
    [
        (GibbsHMC(), posterior(OTHER), "`GibbsHMC` needs Gibbs draws .*parametrization='centered'"),
        (GibbsHMC(), posterior(priors.Horseshoe()), "`Horseshoe` has no conditional"),
        (GibbsHMC(), posterior(priors.Normal(), likelihoods.Gaussian(0.1)), "no hyperparameters"),
        (GibbsHMC(step_sizes="curvature"), posterior(OTHER), "needs Gibbs draws"),
        (DynamicalA(), posterior(OTHER), "`DynamicalA` needs .*parametrization='centered'"),
        (DynamicalB(), posterior(CENTERED), "`DynamicalB` needs .*parametrization='non-centered'"),
        (DynamicalA(), posterior(LEVELS), "one level"),
        (DynamicalB(), posterior(priors.RegularizedHorseshoe()), "RegularizedHorseshoe"),
        (DynamicalB(), posterior(priors.Normal()), "no weights have a learned scale .*`DynamicalA`"),
        *[
            (
                kernel,
                Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3)),
                "does not tell weights and hyperparameters apart",
            )
            for kernel in (GibbsHMC(), DynamicalA(), DynamicalB())
        ],
    ],
)
def test_kernels_refuse_targets_without_what_they_need_before_they_start(kernel, target, complaint, monkeypatch):
    monkeypatch.setattr(type(target), "initial_position", None)
    with pytest.raises(CapabilityError, match=complaint) as found:
        ergonet.sample(target, kernel, num_draws=10**6, warm_start="adam", seed=1, progress=False)
    assert "NUTS()" in str(found.value)


def test_what_a_target_offers_follows_its_priors():
    assert offers(posterior(CENTERED), GibbsBlock)
    assert offers(posterior(CENTERED), CenteredCurvature)
    assert not offers(posterior(CENTERED), NonCenteredCurvature)
    assert offers(posterior(OTHER), NonCenteredCurvature)
    assert offers(posterior(LEVELS), GibbsBlock)
    assert offers(posterior(priors.Normal()), GibbsBlock)  # of the noise
    assert not offers(posterior(OTHER), GibbsBlock)


def test_a_leaf_without_neighbors_keeps_its_own_group():
    """Two leaves with equal priors by leaf are two groups, whatever stands between them."""
    chosen = assigned({"*.weight": CENTERED, "*.bias": priors.Laplace()})
    assert list(chosen.own()) == ["prior.layers.0.weight.log_precision", "prior.layers.1.weight.log_precision"]
    layers = assigned({"layers.0.*": priors.NormalGamma(group="layer"), "*": priors.NormalGamma(2.0, group="layer")})
    assert list(layers.own()) == ["prior.layers.0.log_precision", "prior.layers.1.log_precision"]


@pytest.mark.parametrize(
    "prior",
    [
        {"*.weight": priors.NormalGamma(1.0, 2.0, "layer"), "*.bias": priors.NormalGamma(0.1, 2.0, "layer")},
        {"*.weight": priors.Horseshoe(1.0, "layer"), "*.bias": priors.Horseshoe(0.5, "layer")},
    ],
)
def test_two_priors_in_one_group_by_layer_are_refused(prior):
    with pytest.raises(SettingError, match=r"layers\.0\.\w+ and layers\.0\.\w+ would both have 'prior\.layers\.0\."):
        BayesianNetwork(NETWORK, prior, likelihoods.Gaussian())


def test_a_description_counts_the_learned_noise():
    model = BayesianNetwork(NETWORK, CENTERED, likelihoods.Gaussian())
    assert f"{model.dim} coordinates" in model.describe()
    assert "likelihood.log_precision" in model.describe()
    known = BayesianNetwork(NETWORK, CENTERED, likelihoods.Gaussian(0.1))
    assert known.describe() == known.prior.describe()


def test_a_slab_is_part_of_what_a_prior_is_called():
    assert "slab_shape=3, slab_rate=12" in repr(priors.RegularizedHorseshoe(slab_shape=3.0, slab_rate=12.0))


def test_leaves_that_are_drawn_together_get_what_each_would_get_by_its_key():
    """One call of the generator for all leaves with normal priors, but for large ones."""
    rows = {"layers.0.*": priors.Normal(2.0, mean=1.0), "layers.1.bias": priors.Laplace(), "*": priors.FanInNormal()}
    network = MLP((300, 300, 3, 2))
    chosen = assigned(rows, network)
    assert max(leaf.size for leaf in chosen.leaves) > MOST_TOGETHER > sorted(leaf.size for leaf in chosen.leaves)[-2]
    key = jax.random.key(3)
    drawn = chosen.split(chosen.sample(key, jnp.float32))
    parts = zip(chosen.paths, chosen.leaves, chosen.priors, jax.random.split(key, len(chosen.leaves)), strict=True)
    for path, leaf, prior, one in parts:
        np.testing.assert_array_equal(drawn[path], prior.draw(one, {}, leaf, jnp.float32), err_msg=path)


class Shifted(priors.Normal):
    """Somebody's own prior."""

    def sample(self, key, leaf, dtype):
        return 5.0 + super().sample(key, leaf, dtype)


def test_a_prior_with_draws_of_its_own_is_asked_for_them():
    drawn = assigned({"layers.0.*": Shifted(0.1, 0.0), "*": priors.Normal(0.1)}).sample(jax.random.key(0), jnp.float32)
    assert np.all(np.asarray(drawn[:9]) > 4)
    assert np.all(np.asarray(drawn[9:]) < 1)
