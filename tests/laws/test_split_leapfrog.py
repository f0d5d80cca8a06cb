"""The split leapfrog with step sizes from the other block: reversible, volume preserving, of second order in energy.

A step size from the block that moves breaks the first two; that is planted, to see that the tests would find it.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, DynamicalA, DynamicalB, likelihoods, priors
from ergonet.hamiltonian.phase import phase_at
from ergonet.samplers.base import run_transition
from ergonet.target.capabilities import BlockCurvature
from ergonet.trajectory.split import Split
from tests.stages import cases

KERNELS = {"A": (DynamicalA, "centered"), "B": (DynamicalB, "non-centered")}
NETWORK = MLP((1, 2, 1))
RATIO = 0.7
CASES = [(scheme, splits, first) for scheme in KERNELS for splits in (1, 3) for first in (False, True)]
QUICK_CASES = cases(CASES, quick=[("A", 3, True), ("B", 1, False)])


class Selfish(BlockCurvature):
    """Curvatures that read the block that moves: the planted fault."""

    right: BlockCurvature
    place: jax.Array

    @property
    def num_weights(self):
        return self.right.num_weights

    def of_weights(self, hyperparameters):
        return self.right.of_weights(hyperparameters) * (1 + self.place[: self.num_weights] ** 2)

    def of_hyperparameters(self, weights):
        return self.right.of_hyperparameters(weights)


class SelfishSplit(Split):
    def advance(self, target, curvature, step_size, trajectory):
        return super().advance(target, Selfish(curvature, trajectory.phase.position), step_size, trajectory)


def posterior_of(scheme):
    rng = np.random.default_rng(2)
    prior = priors.NormalGamma(0.8, 3.0, "leaf", KERNELS[scheme][1])
    noise = likelihoods.GammaPrecision(0.5, 4.0)
    model = BayesianNetwork(NETWORK, prior, likelihoods.Gaussian(noise))
    return model.condition(rng.normal(size=(4, 1)), rng.normal(size=(4, 1)))


def split_of(scheme, splits, kind=Split):
    made = KERNELS[scheme][0](hyperparameter_ratio=RATIO, hyperparameter_splits=splits).trajectory
    return kind(made.splits, made.ratio, made.curvature_gradients)


@cache
def start_of(scheme):
    posterior = posterior_of(scheme)
    rng = np.random.default_rng(3)
    position = np.concatenate([rng.normal(size=posterior.num_weights), rng.normal(0.3, 0.5, size=5)])
    return position, rng.normal(size=posterior.dim)


def flow(scheme, splits, kind=Split):
    """Position and momentum after a number of steps in one of the orders."""
    posterior, split = posterior_of(scheme), split_of(scheme, splits, kind)

    def run(place, step_size, num_steps, first):
        start = phase_at(posterior, place[0], place[1])
        zero = jnp.zeros((), place[0].dtype)
        moving = split.begin(
            posterior.curvature, start, jnp.asarray(num_steps, jnp.int32), hyperparameters_first=first, uniform=zero
        )
        moves = num_steps * (1 + splits)
        body = lambda _, one: split.advance(posterior, posterior.curvature, jnp.asarray(step_size), one)  # noqa: E731
        end = jax.lax.fori_loop(0, moves, body, moving)
        return jnp.stack([end.phase.position, end.phase.momentum]), end.energy - end.energy_start

    return jax.jit(run, static_argnums=2)


def there_and_back(scheme, splits, first, kind=Split):
    """Largest distance from the start after 20 steps, and after as many with momenta and order turned round."""
    run, start = flow(scheme, splits, kind), jnp.stack(start_of(scheme))
    turn = jnp.array([[1.0], [-1.0]])
    end = run(start, 0.3, 20, jnp.asarray(first))[0]
    back = turn * run(turn * end, 0.3, 20, jnp.asarray(not first))[0]
    return float(np.max(np.abs(end - start))), float(np.max(np.abs(back - start)))


def log_volume(scheme, splits, first, kind=Split):
    run, start = flow(scheme, splits, kind), jnp.stack(start_of(scheme))
    jacobian = jax.jit(jax.jacfwd(lambda z: run(z, 0.3, 4, jnp.asarray(first))[0]))(start)
    sign, log_size = np.linalg.slogdet(jacobian.reshape(start.size, start.size))
    assert sign > 0
    return float(log_size)


@pytest.mark.parametrize(("scheme", "splits", "first"), QUICK_CASES)
def test_there_and_back_in_the_other_order_ends_at_the_start(scheme, splits, first):
    moved, missed = there_and_back(scheme, splits, first)
    assert moved > 0.5
    assert missed < 1e-9


@pytest.mark.parametrize("scheme", KERNELS)
def test_the_same_order_does_not_lead_back(scheme):
    """The order matters: without its turn the way back is another."""
    run, start = flow(scheme, 1), jnp.stack(start_of(scheme))
    turn = jnp.array([[1.0], [-1.0]])
    end = run(start, 0.3, 20, jnp.asarray(False))[0]
    assert np.max(np.abs(turn * run(turn * end, 0.3, 20, jnp.asarray(False))[0] - start)) > 1e-3


@pytest.mark.parametrize(("scheme", "splits", "first"), QUICK_CASES)
def test_volume_is_preserved(scheme, splits, first):
    assert abs(log_volume(scheme, splits, first)) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "splits"), [("A", 1), ("A", 3), ("B", 1)])
def test_step_sizes_that_depend_on_the_moving_block_are_caught(scheme, splits):
    moved, missed = there_and_back(scheme, splits, False, SelfishSplit)
    assert moved > 0.5
    assert missed > 1e-3
    assert abs(log_volume(scheme, splits, False, SelfishSplit)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "splits", "first"), CASES)
def test_the_energy_error_is_of_second_order(scheme, splits, first):
    run, start = flow(scheme, splits), jnp.stack(start_of(scheme))
    errors = [abs(float(run(start, 0.8 / steps, steps, jnp.asarray(first))[1])) for steps in (128, 256)]
    assert 1e-9 < errors[1] < 1e-2
    assert 3.6 < errors[0] / errors[1] < 4.4


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "splits", "first"), CASES)
def test_two_steps_are_those_of_algorithm_4(scheme, splits, first):
    """Choo2000, Algorithm 4, one block after the other; the hyperparameters' update in k updates of eta / k."""
    posterior = posterior_of(scheme)
    position, momentum = map(np.array, start_of(scheme))
    count, eta = posterior.num_weights, 0.3
    slope = jax.jit(jax.grad(posterior.potential))

    def leapfrog(part, sizes):
        momentum[part] -= sizes / 2 * np.asarray(slope(jnp.asarray(position)))[part]
        position[part] += sizes * momentum[part]
        momentum[part] -= sizes / 2 * np.asarray(slope(jnp.asarray(position)))[part]

    def update_weights():
        curvature = np.asarray(posterior.curvature.of_weights(jnp.asarray(position[count:])))
        leapfrog(slice(None, count), eta / np.sqrt(curvature))

    def update_hyperparameters():
        curvature = np.asarray(posterior.curvature.of_hyperparameters(jnp.asarray(position[:count])))
        for _ in range(splits):
            leapfrog(slice(count, None), RATIO * eta / splits / np.sqrt(curvature))

    updates = [update_hyperparameters, update_weights] if first else [update_weights, update_hyperparameters]
    for update in updates * 2:
        update()
    ours = flow(scheme, splits)(jnp.stack(start_of(scheme)), eta, 2, jnp.asarray(first))[0]
    np.testing.assert_allclose(ours, [position, momentum], rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "splits", "cost"), [("A", 1, 2), ("A", 3, 4), ("B", 1, 3), ("B", 3, 5)])
def test_passes_are_counted_and_both_orders_are_drawn(scheme, splits, cost):
    """A costs 2 passes forward and back a step, B costs 3 (Choo2000, table 5.5)."""
    posterior = posterior_of(scheme)
    kernel = KERNELS[scheme][0](6, step_size=0.2, hyperparameter_splits=splits)
    state = kernel.init(posterior, jnp.asarray(start_of(scheme)[0]))
    tuning = kernel.tuning(posterior, state.position)
    keys = jax.random.split(jax.random.key(4), 400)
    new, info = jax.jit(jax.vmap(lambda key: run_transition(kernel, key, posterior, state, tuning)))(keys)
    whole = ~np.asarray(info.nonfinite)  # a trajectory that leaves all bounds ends early
    assert np.mean(whole) > 0.95
    np.testing.assert_array_equal(info.num_steps[whole], 6)
    np.testing.assert_array_equal(info.gradients[whole], 6 * cost)
    assert np.mean(info.moved) > 0.3
    slopes = jax.vmap(jax.grad(posterior.potential))(new.position)
    np.testing.assert_allclose(new.gradient, slopes, rtol=1e-8, atol=1e-8)
    begun = jax.vmap(lambda key: kernel.begin(key, posterior, state, tuning).hyperparameters_first)(keys)
    assert abs(float(np.mean(begun)) - 0.5) < 4 * 0.5 / 20
    worse = eqx.tree_at(lambda one: one.step_size, tuning, jnp.asarray(1e3))
    kept, info = jax.jit(lambda key: run_transition(kernel, key, posterior, state, worse))(keys[0])
    assert bool(info.diverging)
    np.testing.assert_array_equal(kept.position, state.position)
