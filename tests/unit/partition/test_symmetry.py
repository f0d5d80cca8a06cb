"""Halves of the same mass: the sign of an outgoing weight of a network whose activation is odd."""

import jax
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, partition, priors
from ergonet import likelihoods as of
from ergonet._errors import CapabilityError, SettingError
from tests.sampling import gaussian_target
from tests.stages import slow


def posterior(activation="tanh", prior=None, sizes=(2, 3, 4, 2)):
    rng = np.random.default_rng(1)
    model = BayesianNetwork(MLP(sizes, activation=activation), prior or priors.Normal(1.0), of.Gaussian(0.5))
    return model.condition(rng.normal(size=(8, 2)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32))


def test_the_images_of_positions_are_in_the_part_and_as_probable():
    target = posterior()
    parts = partition.split_by_sign(target, (1, 2))
    np.testing.assert_array_equal(parts.shares, np.full(4, 0.25))
    positions = np.random.default_rng(2).normal(size=(6, target.dim)).astype(np.float32)
    potential = jax.jit(jax.vmap(target.potential))
    for number in range(4):
        images = parts.moved_to(number, positions)
        np.testing.assert_array_equal(parts.part_of(images), number)
        np.testing.assert_allclose(potential(images), potential(positions), rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", slow("sigmoid")])
def test_other_activations_are_refused(activation):
    with pytest.raises(SettingError, match=r"changes by .* odd activation"):
        partition.split_by_sign(posterior(activation))


@pytest.mark.parametrize(
    ("target", "units", "error", "message"),
    [
        (gaussian_target(), (0,), CapabilityError, "needs the posterior of an `MLP`"),
        (posterior(sizes=(2, 2)), (0,), CapabilityError, "with a hidden layer"),
        (posterior(), (4,), SettingError, "from 0 to 3"),
        (posterior(), (), SettingError, "from 0 to 3"),
    ],
)
def test_what_has_no_such_unit_is_refused(target, units, error, message):
    with pytest.raises(error, match=message):
        partition.split_by_sign(target, units)
