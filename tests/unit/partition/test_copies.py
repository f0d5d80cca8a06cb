"""Equal copies of the posterior of a network: they have one density, and one of them is in the region."""

import math

import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, ConstrainedHMC, likelihoods, priors
from ergonet._errors import CapabilityError, SettingError
from ergonet.models.tempered import tempered
from ergonet.partition.bridge import evaluate
from ergonet.partition.copies import Layers, OneCopy, symmetry_of
from tests.sampling import gaussian_target

NETWORK = MLP((2, 3, 2, 2))


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).normal(size=(8, 25)).astype(np.float32) + np.linspace(-2, 2, 25, dtype=np.float32)


def posterior(mean):
    x = np.random.default_rng(1).normal(size=(12, 2)).astype(np.float32)
    model = BayesianNetwork(NETWORK, priors.Normal(1.0, mean), likelihoods.Categorical())
    return model.condition(x, (x[:, 0] > 0).astype(int))


@pytest.mark.parametrize(
    ("mean", "is_odd", "log_copies"), [(0.0, True, math.log(6 * 2 * 2**5)), (0.5, False, math.log(12))]
)
def test_the_symmetry_is_checked_at_draws(points, mean, is_odd, log_copies):
    """A prior that is not symmetric about 0 leaves permutations."""
    target = posterior(mean)
    layers = symmetry_of(target, points, lambda at: -evaluate(target, at))
    assert layers is not None
    assert layers.is_odd is is_odd
    assert layers.log_copies == pytest.approx(log_copies)
    same = symmetry_of(tempered(target, 1.0), points, lambda at: -evaluate(target, at))
    assert same is not None
    assert same.log_copies == layers.log_copies


@pytest.mark.parametrize("is_odd", [True, False])
def test_every_copy_of_a_point_has_the_same_one_in_the_region(points, is_odd):
    layers = Layers.of(NETWORK, is_odd=is_odd)
    region = OneCopy.around(layers, points)
    copies = region.copies(points)
    assert region.contains(copies).all()
    moved = layers.shuffled(points, np.random.default_rng(2))
    assert not np.array_equal(moved, points)
    np.testing.assert_array_equal(region.copies(moved), copies)
    assert not region.contains(moved).all()  # a random copy may be the same one


def test_other_targets_have_no_known_symmetry(points):
    target = BayesianNetwork(MLP((2, 2)), priors.Normal(1.0), likelihoods.Categorical()).condition(
        np.ones((4, 2)) * [[1], [2], [3], [4]], np.array([0, 1, 0, 1])
    )
    assert symmetry_of(target, points[:, :6], lambda at: -evaluate(target, at)) is None


def test_draws_of_a_part_of_the_space_have_no_evidence():
    target = gaussian_target()
    part = ergonet.sample(
        target, ConstrainedHMC(lower=0.0), num_chains=2, num_warmup=20, num_draws=40, seed=0, progress=False
    )
    with pytest.raises(CapabilityError, match=r"needs draws of the whole space, and those of `ConstrainedHMC`"):
        ergonet.evidence(target, part)


def test_the_evidence_of_few_draws_says_how_many_it_needs():
    target = gaussian_target()
    run = {"num_chains": 2, "num_warmup": 20, "num_draws": 30, "seed": 0, "progress": False}
    few = ergonet.sample(target, HMC(num_steps=4), **run)
    with pytest.raises(SettingError, match=r"`evidence` needs at least 40 draws of each chain, got 30\. Draw more"):
        ergonet.evidence(target, few)
