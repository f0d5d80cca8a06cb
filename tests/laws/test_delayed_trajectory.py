"""Delayed rejection balances exactly, and leaves out only ways back that could change nothing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, DelayedRejectionHMC, Target
from ergonet.hamiltonian.box import FreeSpace
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import DiagonalMetric, IdentityMetric
from ergonet.hamiltonian.phase import phase_at
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers.base import Tuning
from ergonet.trajectory.delayed import Delayed
from tests.laws.static import coupled, integers

REDUCTION = 2.0


class Hop(Composition):
    """An integrator on the integers: `step_size` places along the momentum, which is -1 or 1."""

    def __init__(self):
        self.coefficients = (0.5, 1.0, 0.5)
        self.space = FreeSpace()

    def step(self, target, metric, step_size, phase):
        return phase_at(target, phase.position + step_size * phase.momentum, phase.momentum)


def kernel_with(steps):
    kernel = DelayedRejectionHMC(REDUCTION, num_steps=3, step_size=1.0)
    return eqx.tree_at(lambda one: one.trajectory, kernel, Delayed(steps, REDUCTION))


@eqx.filter_jit
def transition(kernel, target, metric, phase, settings):
    """The trajectory when it is done, and what it leaves."""
    step_size, num_steps, uniform = settings
    begun = kernel.trajectory.begin(phase, step_size, num_steps, uniform)
    tuning = Tuning(step_size=step_size, metric=metric, num_steps=num_steps)
    done = jax.lax.while_loop(lambda t: ~kernel.finished(t), lambda t: kernel.advance(target, t, tuning), begun)
    return done, *kernel.conclude(done)


def followed(kernel, target, metric, phase, settings):
    """Ends of both proposals, with their momenta negated, and their probabilities.

    `settings` are step size and number of steps. The uniform is just not below the first probability, so that every
    trajectory is taken that may ever be needed.
    """
    settings = [jnp.asarray(one) for one in settings]
    first, _, _ = transition(kernel, target, metric, phase, (*settings, jnp.asarray(0.0)))
    at = first.probabilities[0]
    if at == 0:
        first, _, _ = transition(kernel, target, metric, phase, (*settings, jnp.asarray(-1.0)))
    second, _, _ = transition(kernel, target, metric, phase, (*settings, at))
    return (first.phase, second.second), tuple(map(float, second.probabilities)), int(second.taken)


def places_of(ends):
    """Places and signs of the ends of both proposals; the first is not negated yet, the second is."""
    return [
        (round(float(end.position[0])), turn * round(float(end.momentum[0])))
        for end, turn in zip(ends, (-1, 1), strict=True)
    ]


@pytest.mark.parametrize("num_steps", [1, 3])
def test_balance_on_integers_with_planted_divergences(num_steps):
    """From every state, with the momentum negated after a proposal and after a rejection."""
    energies = 2.0 * np.random.default_rng(4).normal(size=64)
    energies[[25, 36, 40]] = [np.inf, np.nan, 4000.0]
    places = [place for place in range(16, 48) if np.isfinite(energies[place])]
    states = {(place, sign): row for row, (place, sign) in enumerate((p, v) for p in places for v in (-1, 1))}
    kernel, target, size = kernel_with(Hop()), integers(energies), len(states)
    matrices = np.zeros((2, size, size + 1))  # of first and second proposals; the last column: outside
    for (place, sign), row in states.items():
        begin = phase_at(target, jnp.array([float(place)]), jnp.array([float(sign)]))
        ends, probabilities, _ = followed(kernel, target, IdentityMetric(), begin, (REDUCTION, num_steps))
        for matrix, end, probability in zip(matrices, places_of(ends), probabilities, strict=True):
            matrix[row, states.get(end, -1)] += probability
    weights = np.array([np.exp(-energies[place]) for place, _ in states])
    for matrix in matrices:
        flow = weights[:, None] * matrix[:, :-1]
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12 * flow.max())
        assert np.count_nonzero(matrix) > size / 5
    assert np.all(matrices.sum(axis=(0, 2)) <= 1 + 1e-14)


@pytest.mark.parametrize("name", ["leapfrog", "minimal-norm"])
def test_the_second_proposal_is_an_involution_and_balances(name):
    steps = INTEGRATORS.make(name)
    kernel = kernel_with(steps)
    target, metric = Target.from_logdensity(coupled, jnp.zeros(3)), DiagonalMetric(scale=jnp.array([0.7, 1.4, 1.0]))
    rng, seen = np.random.default_rng(7), []
    for _ in range(20):
        begin = phase_at(target, *(jnp.asarray(rng.normal(size=3)) for _ in range(2)))
        (_, second), there, taken = followed(kernel, target, metric, begin, (0.5, 5))
        (_, back), again, _ = followed(kernel, target, metric, second, (0.5, 5))
        np.testing.assert_allclose(back.position, begin.position, rtol=0, atol=1e-9)
        np.testing.assert_allclose(back.momentum, begin.momentum, rtol=0, atol=1e-9)
        flows = [one[1] * np.exp(-total_energy(z)) for one, z in ((there, begin), (again, second))]
        np.testing.assert_allclose(flows[0], flows[1], rtol=1e-9)
        seen.append(there)
        assert taken == 15
    assert np.ptp([second for _, second in seen]) > 0.3


def test_one_uniform_decides_and_a_way_back_is_left_out_only_where_it_could_change_nothing():
    kernel, target = kernel_with(INTEGRATORS.make("leapfrog")), Target.from_logdensity(coupled, jnp.zeros(3))
    rng, counts = np.random.default_rng(8), set()
    for _ in range(16):
        begin = phase_at(target, *(jnp.asarray(rng.normal(size=3)) for _ in range(2)))
        ends, (first, second), _ = followed(kernel, target, IdentityMetric(), begin, (0.6, 5))
        for uniform in (*np.linspace(0, 0.999, 12), first + 0.9 * second, min(first + 1.1 * second, 0.999)):
            settings = (jnp.asarray(0.6), jnp.asarray(5), jnp.asarray(uniform))
            done, state, info = transition(kernel, target, IdentityMetric(), begin, settings)
            wanted = ends[0] if uniform < first else ends[1] if uniform < first + second else begin
            np.testing.assert_array_equal(state.position, wanted.position)
            np.testing.assert_array_equal(state.gradient, wanted.gradient)
            assert bool(info.moved) == (uniform < first + second)
            assert int(info.num_proposals) == 1 + (uniform >= first)
            assert int(info.gradients) == int(done.taken)
            np.testing.assert_allclose(info.energy - done.energy_start, info.energy_error, atol=1e-12)
            counts.add(int(done.taken))
    assert counts == {5, 10, 15}


def narrow(q):
    return -0.5e4 * jnp.sum(q**2)


def test_a_chain_goes_on_where_long_steps_diverge():
    """Steps of 0.5 are unstable where the standard deviation is 0.01; those of 0.01 are not."""
    target, found = Target.from_logdensity(narrow, jnp.zeros(2)), {}
    settings = {"num_steps": 8, "step_size": 0.5, "metric": "identity"}
    for kernel in (HMC(**settings), DelayedRejectionHMC(50.0, **settings)):
        samples = ergonet.sample(
            target,
            kernel,
            num_chains=2,
            num_warmup=0,
            num_draws=400,
            init=np.full((2, 2), 0.01),
            seed=3,
            progress=False,
        )
        found[type(kernel)] = samples
    stuck, going = found[HMC], found[DelayedRejectionHMC]
    assert stuck.stats["diverging"].mean() > 0.9
    assert not stuck.stats["moved"].any()
    assert not going.stats["diverging"].any()
    assert going.stats["moved"].mean() > 0.8
    assert going.stats["acceptance_rate"].max() < 0.01  # of the first proposals
    assert 0.8 < 1e4 * np.mean(going.positions**2) < 1.2


def test_both_proposals_can_diverge():
    target = Target.from_logdensity(lambda q: -0.5e8 * jnp.sum(q**2), jnp.zeros(2))
    kernel = DelayedRejectionHMC(2.0, num_steps=4, step_size=1.0, metric="identity")
    samples = ergonet.sample(
        target, kernel, num_chains=1, num_warmup=0, num_draws=5, init=np.full((1, 2), 1e-4), seed=3, progress=False
    )
    assert samples.stats["diverging"].all()
    assert not samples.stats["moved"].any()
    assert (samples.stats["n_proposals"] == 2).all()
