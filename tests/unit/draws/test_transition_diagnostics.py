"""What a transition says of itself: energy errors under ArviZ's names, divergences, proposals without a density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, MALA, MAMS, NUTS, DelayedRejectionHMC, RandomWalk, Target, WindowedHMC, diagnostics
from ergonet.draws.statistics import FURTHEST
from ergonet.samplers.base import run_transition
from ergonet.trajectory.packing import packed_while_loop
from tests.sampling import draw, gaussian_target

KERNELS = {
    "nuts": NUTS(step_size=0.8, max_doublings=4),
    "hmc": HMC(num_steps=5, step_size=0.8),
    "delayed rejection": DelayedRejectionHMC(num_steps=5, step_size=0.8),
    "windowed": WindowedHMC(3, num_steps=5, step_size=0.8),
    "mams": MAMS(num_steps=5, step_size=0.8),
    "mala": MALA(step_size=0.8),
    "random walk": RandomWalk(step_size=0.8),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_energy_error_is_that_of_the_returned_state_and_the_largest_is_another(name):
    kernel, target = KERNELS[name], gaussian_target()
    state = kernel.init(target, jnp.ones(5))
    tuning = kernel.tuning(target, state.position)

    def transition(key):
        begun = kernel.begin(key, target, state, tuning)
        start = state.potential if name == "random walk" else begun.energy_start
        ended = packed_while_loop(lambda t: ~kernel.finished(t), lambda t: kernel.advance(target, t, tuning), begun)
        return start, *kernel.conclude(ended)

    starts, states, infos = jax.jit(jax.vmap(transition))(jax.random.split(jax.random.key(1), 64))
    energies = infos.energy if hasattr(infos, "energy") else states.potential
    if name == "mams":  # its energy at the end is not stored
        starts, energies = 0.0, np.where(infos.moved, infos.max_energy_error, 0.0)
    np.testing.assert_allclose(infos.energy_error, energies - starts, atol=1e-5)
    assert np.all(np.abs(infos.max_energy_error) >= np.abs(infos.energy_error) - 1e-6)
    stays = ~np.asarray(infos.moved)
    assert np.all(infos.energy_error[stays] == 0)
    assert np.ptp(infos.energy_error) > 0.1
    if name in ("hmc", "mams", "mala", "random walk"):
        acceptance = np.minimum(1, np.exp(-np.asarray(infos.max_energy_error)))
        np.testing.assert_allclose(infos.acceptance, acceptance, rtol=1e-5, atol=1e-30)
        assert stays.any()


def test_thinning_keeps_the_largest_error_and_arviz_finds_both():
    samples = draw(HMC(num_steps=5, step_size=0.8), thin=4, num_warmup=0)
    groups = samples.to_datatree()
    for name in ("energy_error", "max_energy_error"):
        np.testing.assert_array_equal(groups["sample_stats"][name], samples.stats[name])
    assert np.all(np.abs(samples.stats["max_energy_error"]) >= np.abs(samples.stats["energy_error"]))
    for values, kept in (((-3.0, 2.0), -3.0), ((1.0, 2.0), 2.0), ((jnp.nan, 9.0), jnp.nan), ((9.0, jnp.nan), jnp.nan)):
        total = FURTHEST.blank(jnp.float32)
        for value in values:
            total = FURTHEST.add(total, jnp.asarray(value))
        np.testing.assert_equal(float(FURTHEST.finish(total, jnp.asarray(2))), kept)


@pytest.mark.parametrize(("outside", "alarms"), [(jnp.inf, False), (-jnp.inf, True), (jnp.nan, True)])
def test_a_random_walk_rejects_what_has_no_density_and_alarms_only_where_there_is_no_potential(outside, alarms):
    """Steps are so wide that all proposals lie beyond the box."""
    target = Target.from_logdensity(lambda q: jnp.where(jnp.all(jnp.abs(q) < 1), 0.0, -outside), jnp.zeros(2))
    kernel = RandomWalk(step_size=1e4)
    state = kernel.init(target, jnp.zeros(2))
    tuning = kernel.tuning(target, state.position)
    run = jax.jit(jax.vmap(lambda key: run_transition(kernel, key, target, state, tuning)))
    states, infos = run(jax.random.split(jax.random.key(3), 20))
    np.testing.assert_array_equal(states.position, 0)
    np.testing.assert_array_equal(infos.acceptance, 0)
    np.testing.assert_array_equal(infos.diverging, alarms)
    np.testing.assert_array_equal(infos.nonfinite, alarms)
    assert not np.any(infos.moved)


def test_energies_are_judged_where_there_is_a_momentum():
    assert draw(KERNELS["mala"], num_warmup=0).diagnostics()["min_ebfmi"] > 0
    walk = draw(KERNELS["random walk"], num_warmup=0)
    assert "min_ebfmi" not in walk.diagnostics()
    assert "min_ebfmi" not in draw(KERNELS["mala"], num_warmup=0, thin=4).diagnostics()
    assert not any("energy" in sentence for sentence in diagnostics.advise({"diagnostics": walk.diagnostics()}))


def test_a_random_walk_in_a_box_is_uniform_and_raises_no_alarm():
    target = Target.from_logdensity(lambda q: jnp.where(jnp.all(jnp.abs(q) < 1), 0.0, -jnp.inf), jnp.zeros(2))
    settings = {"init": np.zeros(2), "num_warmup": 200, "num_draws": 1000, "thin": 5}
    samples = draw(RandomWalk(), target=target, **settings)
    assert samples.stats["diverging"].sum() == samples.stats["nonfinite"].sum() == 0
    assert np.abs(samples.positions).max() < 1
    np.testing.assert_allclose(samples.positions.var(axis=(0, 1)), 1 / 3, atol=0.04)
