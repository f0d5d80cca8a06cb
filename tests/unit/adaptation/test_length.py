"""Learned lengths: which length the scores choose, for one chain and for several."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC
from ergonet.adaptation import length
from tests.sampling import gaussian_target


@pytest.mark.slow
@pytest.mark.parametrize(("quarter", "chosen"), [(24, (16, 24)), (4, (3, 4))])
def test_length_scores_pick_a_quarter_period(quarter, chosen):
    """Harmonic oscillators: after half a period, values alternate around their mean, but squares are what they were."""
    rng, scores, position = np.random.default_rng(0), length.blank(jnp.zeros(4)), np.full(4, 50.0)
    observe = jax.jit(length.observe)
    for turn in range(1500):
        angle = int(length.candidate(jnp.asarray(turn))) / quarter * np.pi / 2
        after = 50 + np.cos(angle) * (position - 50) + np.sin(angle) * rng.normal(size=4)
        scores = observe(scores, jnp.asarray(turn), jnp.asarray(position, jnp.float32), jnp.asarray(after, jnp.float32))
        position = after
    assert length.CANDIDATES[length.best(length.moves(scores))] in chosen


def test_chains_share_the_length_that_is_best_on_average():
    """Each of three chains is misled about one length; that with which all do well is the best of none."""
    found = np.full((3, 2, len(length.CANDIDATES)), 0.01)
    found[:, :, length.CANDIDATES.index(8)] = 0.5
    misleading = np.array([2, 24, 32])
    for chain, (steps, moved) in enumerate(zip(misleading, (0.3, 1.0, 1.0), strict=True)):
        found[chain, :, length.CANDIDATES.index(steps)] = moved
    learned = np.array([length.CANDIDATES[length.best(one)] for one in found])
    np.testing.assert_array_equal(learned, misleading)
    blank = jax.tree.map(lambda leaf: np.stack([leaf] * 3), length.blank(jnp.zeros(2)))
    memory = eqx.tree_at(lambda one: one.found, blank, found)
    assert length.LengthLearner().shared(memory, learned) == 8
    assert length.LengthLearner().shared(blank, np.array([2, 4, 8])) == pytest.approx(4)


def test_every_candidate_gets_a_turn_and_a_stuck_chain_has_not_moved():
    tried = {int(length.candidate(jnp.asarray(turn))) for turn in range(len(length.TURNS))}
    assert tried == set(length.CANDIDATES)
    stuck = length.observe(length.blank(jnp.zeros(2)), jnp.asarray(0), jnp.ones(2), jnp.ones(2))
    np.testing.assert_array_equal(length.moves(stuck), 0.0)  # and not NaN, which would be the best of all


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "longest"), [(1.0, 4), (30.0, 128)])
def test_a_length_is_tuned_to_the_target(ratio, longest):
    """Isotropic: a few steps are a quarter period. With one stiff direction the others need many more."""
    target = gaussian_target(np.array([1.0, ratio, ratio, ratio], np.float32))
    samples = ergonet.sample(
        target, HMC(metric="identity"), num_chains=2, num_warmup=6000, num_draws=5, seed=3, progress=False
    )
    assert np.all(samples.tuning["num_steps"] <= longest)
    assert np.all(samples.tuning["num_steps"] >= (1 if ratio == 1 else 16))
