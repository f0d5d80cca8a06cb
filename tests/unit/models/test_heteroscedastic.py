"""Noise that depends on the row: what its floor, ceiling and reach keep finite, and which are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import likelihoods
from ergonet._errors import SettingError


def test_a_floor_bounds_the_density_of_targets_that_are_met_exactly():
    grades = jnp.array([[3.0, 5.0, 5.0]])
    largest = jnp.concatenate([grades, jnp.full_like(grades, 60.0)])
    for floor, bound in ((0.3, -np.log(0.3 * np.sqrt(2 * np.pi))), (None, np.inf)):
        likelihood = likelihoods.HeteroscedasticGaussian(floor=floor)
        targets = likelihood.prepare(np.asarray(grades[0]), 2)
        reached = likelihood.log_prob({}, largest, targets)
        assert np.all(reached <= bound + 1e-5)
        assert (reached > 25).all() == (floor is None)
        slopes = jax.grad(lambda outputs, one=likelihood, y=targets: one.log_prob({}, outputs, y).sum())(largest)
        assert np.isfinite(slopes).all()


@pytest.mark.parametrize("kind", [likelihoods.HeteroscedasticGaussian, likelihoods.HeteroscedasticStudentT])
def test_a_ceiling_keeps_what_any_output_states_finite(kind):
    outputs = jnp.asarray([[0.0, 0.0, 0.0], [-1e4, -200.0, 200.0]])
    likelihood = kind(floor=1e-3, ceiling=10.0)
    assert np.isfinite(likelihood.variance({}, outputs)).all()
    assert np.isfinite(likelihood.quantile({}, outputs, 0.999)).all()
    assert np.max(likelihood.variance({}, outputs)) <= 2 * (10.0**2 + 1e-6) * 1.0001
    slopes = jax.grad(lambda one: likelihood.log_prob({}, one, jnp.ones((1, 3))).sum())(outputs)
    assert np.isfinite(slopes).all()
    assert np.isinf(kind().variance({}, outputs)).any()


@pytest.mark.parametrize("kind", [likelihoods.HeteroscedasticGaussian, likelihoods.HeteroscedasticStudentT])
def test_locations_are_the_outputs_up_to_the_reach_and_never_twice_as_far(kind):
    likelihood = kind(reach=10.0)
    near, far = jnp.linspace(-10.0, 10.0, 1001), jnp.asarray([-1e30, -1e6, -10.5, 10.5, 1e6, 1e30])

    def location(value):
        return likelihood.mean({}, jnp.stack([value, jnp.zeros_like(value)]))[0]

    np.testing.assert_array_equal(location(near), near)
    assert np.all(np.diff(location(far)) >= 0)
    assert np.all(np.abs(location(far)) <= 20.0)
    slopes = jax.vmap(jax.grad(lambda value: location(value[None])[0]))
    np.testing.assert_allclose(slopes(near[1:-1]), 1.0)
    np.testing.assert_allclose(slopes(far), (10.0 / far) ** 2, rtol=1e-5)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), [], [1.0, 0.0]])
@pytest.mark.parametrize("name", ["floor", "ceiling", "reach"])
def test_a_bound_must_be_positive(name, bound):
    with pytest.raises(SettingError, match=rf"{name}=...\)` must be .* above 0, or one for each target"):
        likelihoods.HeteroscedasticGaussian(**{name: bound})


@pytest.mark.parametrize("name", ["floor", "ceiling", "reach"])
def test_bounds_of_other_targets_are_refused(name):
    with pytest.raises(SettingError, match="3 numbers for 2 targets"):
        likelihoods.HeteroscedasticGaussian(**{name: [1.0, 2.0, 3.0]}).prepare(np.zeros((4, 2)), 4)
