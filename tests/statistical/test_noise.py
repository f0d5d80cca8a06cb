"""The generator of `samplers/stochastic/noise.py` on some hundred million numbers, and planted defects."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet.samplers.stochastic import noise
from tests import noise_battery as check

pytestmark = pytest.mark.statistical

SEEDS = (0, 1)
MNIST = 784 * 100 + 100 + 100 * 10 + 10  # weights of the network whose noise has to be cheap


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("num_steps", "dim"), [(50, 200_000), (4000, 2590)])
def test_the_noise_passes_the_battery(seed, num_steps, dim):
    scores = check.battery(check.usual, jax.random.key(seed), num_steps=num_steps, dim=dim)
    assert check.worst(scores)[0] < check.LIMIT, scores


@pytest.mark.parametrize("defect", check.DEFECTS)
def test_the_battery_finds_a_defect(defect):
    scores = check.battery(check.DEFECTS[defect], jax.random.key(0), num_steps=50, dim=200_000)
    value, name = check.worst(scores)
    assert value > 1.5 * check.LIMIT, (value, name)


@pytest.mark.parametrize(("dim", "num_steps"), [(100_000, 1000), (MNIST, 2000)])
def test_sums_of_noise_over_a_long_run_have_the_right_moments(dim, num_steps):
    scores = check.long_sums(check.usual, jax.random.key(3), dim, num_steps)
    assert np.max(np.abs(scores)) < check.LIMIT, scores


def test_a_long_run_detects_an_error_of_a_tenth_of_a_percent():
    scores = check.long_sums(check.slightly_wide, jax.random.key(3), 100_000, 1000)
    assert abs(scores[1]) > 2 * check.LIMIT, scores


def test_streams_of_chains_steps_and_momenta_are_uncorrelated():
    """Chains beside each other, steps far into a run, and the keys of momenta, as the kernels derive them."""
    chains = [jax.random.fold_in(jax.random.key(7), chain) for chain in range(4)]
    late = [check.streams(check.usual, key, 2**31 - 50, 40, 50_000) for key in chains]
    for one, other in itertools.pairwise(late):
        assert abs(check.correlation_score(one.astype(float), other.astype(float))) < check.LIMIT
    early = check.streams(check.usual, chains[0], 0, 40, 50_000)
    folded = check.streams(
        lambda key, dim: noise.normals(jax.random.fold_in(key, 0x510E527F), dim), chains[0], 0, 40, 50_000
    )
    for first, second in ((early, late[0]), (early, folded)):
        assert abs(check.correlation_score(first.astype(float), second.astype(float))) < check.LIMIT
        squares = first.astype(float) ** 2 - 1, second.astype(float) ** 2 - 1
        assert abs(check.correlation_score(*squares)) < check.LIMIT
    assert check.worst({"late": check.stream_scores(late[0])})[0] < check.LIMIT


def test_every_bit_is_as_often_0_as_1_and_turns_with_every_bit_of_the_counter_and_the_key():
    size = 2**18
    counter = jnp.arange(size, dtype=jnp.uint32)
    first, second = noise.key_words(jax.random.key(11))
    words = np.stack(noise.threefry(first, second, counter, jnp.zeros_like(counter)))
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    frequency = (bits.mean(axis=1) - 0.5) * 2 * np.sqrt(size)
    assert np.max(np.abs(frequency)) < check.LIMIT, frequency
    bits = bits.transpose(0, 2, 1).reshape(64, size) * 2.0 - 1
    pairs = (bits @ bits.T / np.sqrt(size))[np.triu_indices(64, 1)]
    assert np.max(np.abs(pairs)) < 5.5, pairs  # 2016 of them
    few = counter[: 2**12]
    for change in range(32):
        turned = jnp.uint32(1 << change)
        for other in (
            noise.threefry(first, second, few ^ turned, jnp.zeros_like(few)),
            noise.threefry(first ^ turned, second, few, jnp.zeros_like(few)),
            noise.threefry(first, second ^ turned, few, jnp.zeros_like(few)),
        ):
            flips = (np.stack(other) ^ words[:, : len(few)])[:, :, None] >> np.arange(32, dtype=np.uint32) & 1
            scores = (flips.mean(axis=1) - 0.5) * 2 * np.sqrt(len(few))
            assert np.max(np.abs(scores)) < 5.5, (change, scores)  # 6144 of them
