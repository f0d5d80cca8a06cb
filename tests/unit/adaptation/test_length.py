"""Learned lengths: which length the scores choose, for one chain and for several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, WindowedHMC
from ergonet.adaptation import length
from ergonet.samplers.common import FIRST_NUM_STEPS
from tests.sampling import draw, gaussian_target


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
    assert best(scores) in chosen


def best(scores):
    return length.CANDIDATES[length.efficiency(length.moves(scores)).argmax()]


def tries(turns):
    """Indices of the candidates in their turns."""
    return [length.TURNS[turn % len(length.TURNS)] for turn in range(turns)]


def oscillations(rng, quarter, *, turns, center=0.0):
    """Values `[turns + 1, 4]` of harmonic oscillators around `center`, whose quarter period takes so many steps."""
    path = [center + rng.normal(size=4)]
    for angle in np.asarray(length.CANDIDATES)[tries(turns)] / quarter * np.pi / 2:
        path.append(center + np.cos(angle) * (path[-1] - center) + np.sin(angle) * rng.normal(size=4))
    return np.stack(path)


@jax.jit
def scored(values):
    def observe(scores, seen):
        return length.observe(scores, *seen), None

    turns = jnp.arange(len(values) - 1)
    return jax.lax.scan(observe, length.blank(values[0]), (turns, values[:-1], values[1:]))[0]


def oscillating(*arguments, **settings):
    return scored(jnp.asarray(oscillations(*arguments, **settings), jnp.float32))


def stacked(chains):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *chains)


def test_the_sums_of_all_chains_are_those_of_their_values_around_one_pivot():
    rng = np.random.default_rng(1)
    paths = [oscillations(rng, 8, turns=70, center=center) for center in (-1.0, 0.0, 3.0)]
    found = length.together(stacked([scored(jnp.asarray(path, jnp.float32)) for path in paths]))
    before, after = (np.concatenate(part) - found.pivot for part in ([p[:-1] for p in paths], [p[1:] for p in paths]))
    is_of = np.equal.outer(range(len(length.CANDIDATES)), np.tile(tries(70), 3)).astype(float)
    jump, both = (after - before) ** 2, after + before
    np.testing.assert_allclose(found.powers, [np.sum(after**order, axis=0) for order in (1, 2, 3, 4)], rtol=1e-3)
    np.testing.assert_allclose(found.jumps, [is_of @ (jump * both**order) for order in (0, 1, 2)], rtol=1e-3, atol=0.1)
    np.testing.assert_array_equal(found.tries, is_of.sum(axis=1))
    assert found.count == 210


def test_chains_together_find_a_length_better_than_each_alone():
    """Of the logarithms of lengths, the spread around that of a quarter period."""
    rng, learner, alone, shared = np.random.default_rng(2), length.LengthLearner(), [], []
    for _ in range(12):
        chains = [oscillating(rng, 16, turns=45) for _ in range(4)]
        learned = np.array([best(one) for one in chains])
        alone += [*np.log(learned / 16)]
        shared.append(np.log(learner.shared(stacked(chains), learned) / 16))
    assert np.std(shared) < 0.7 * np.std(alone)
    assert abs(np.mean(shared)) < np.log(1.6)


def test_chains_in_different_places_take_longer_trajectories():
    """Each chain alone believes that it has seen everything."""
    rng, learner = np.random.default_rng(3), length.LengthLearner()
    near = [oscillating(rng, 16, turns=200) for _ in range(4)]
    apart = [
        oscillating(rng, 16, turns=200, center=np.array([0, 0, 3.0 * number, 3.0 * number])) for number in range(4)
    ]
    learned = np.full(4, 16)
    assert learner.shared(stacked(apart), learned) > learner.shared(stacked(near), learned)


def test_chains_that_have_learned_nothing_share_the_mean_of_their_lengths():
    blank = length.blank(jnp.zeros(2))
    stuck = length.observe(blank, jnp.asarray(0), jnp.ones(2), jnp.ones(2))
    for scores in (blank, stuck):
        assert length.LengthLearner().shared(stacked([scores] * 3), np.array([2, 4, 8])) == pytest.approx(4)


@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
@pytest.mark.parametrize(("num_warmup", "scale"), [(3, 1.0), (40, 1e-12)])
def test_a_warmup_that_learns_nothing_leaves_the_first_length(num_warmup, scale):
    """It has a single transition to learn from, or fourth powers that underflow."""
    target = gaussian_target(np.full(5, scale, np.float32))
    samples = draw(HMC(), target=target, num_warmup=num_warmup, init=np.full(5, scale))
    np.testing.assert_array_equal(samples.tuning["num_steps"], FIRST_NUM_STEPS)


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


@pytest.mark.slow
def test_the_length_of_windowed_trajectories_counts_the_steps_of_their_windows():
    """Candidates below 15 take 15 steps all the same, and would be the best if they cost as little as they say."""
    target = gaussian_target(np.array([1, 1, 10, 20], np.float32))
    samples = ergonet.sample(
        target, WindowedHMC(16, metric="identity"), num_chains=2, num_warmup=1000, num_draws=5, seed=0, progress=False
    )
    assert np.all(samples.tuning["num_steps"] >= 12)
