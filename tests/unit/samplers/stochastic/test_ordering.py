"""How the rows of minibatches are chosen, for rows on the device and on the host."""

import jax
import numpy as np
import pytest

from ergonet import SGHMC, SGLD, SGNUTS, SequentialKernel, noise_models
from ergonet.inference.feeds import DeviceFeed, HostFeed
from ergonet.samplers.stochastic.ordering import INDEPENDENT, SHUFFLED

ROWS, BATCH, EPOCHS = 24, 6, 400
FEEDS = {
    "device": lambda size: DeviceFeed({"number": np.arange(ROWS)}, jax.random.key(0), size, ordering=INDEPENDENT),
    "host": lambda size: HostFeed({"number": np.arange(ROWS)}, (0, 0), jax.devices()[0], size, ordering=INDEPENDENT),
}


def minibatches(feed, size):
    """Rows `[batch, row]` of all epochs."""
    count = EPOCHS * (ROWS // size)
    layouts = (feed.layout(number) for number in range(-(-count // feed.layout_size)))
    return np.concatenate([np.asarray(rows["number"])[np.asarray(order)] for rows, order in layouts])[:count]


@pytest.mark.parametrize("size", [BATCH, 1])
@pytest.mark.parametrize("feed", FEEDS)
def test_independent_minibatches_have_distinct_rows_and_no_memory(feed, size):
    found = minibatches(FEEDS[feed](size), size)
    assert all(len(set(batch)) == size for batch in found)
    count, share = len(found), size / ROWS
    times = np.bincount(found.ravel(), minlength=ROWS)
    assert np.max(np.abs(times - count * share)) < 4 * np.sqrt(count * share * (1 - share))
    seen = np.zeros((count, ROWS))
    np.put_along_axis(seen, found, 1.0, axis=1)
    # Two samples of n of N rows have n^2 / N in common, with a hypergeometric variance; in an epoch they have none.
    expected, variance = size * share, size * share * (1 - share) * (ROWS - size) / (ROWS - 1)
    for lag in (1, 2, 3, 4, 5):
        common = np.sum(seen[lag:] * seen[:-lag], axis=1)
        assert abs(common.mean() - expected) < 4 * np.sqrt(variance / len(common))


def test_minibatches_depend_on_the_seed_and_the_epoch_only():
    """Not on how many are laid out at once, or on what was laid out before."""
    key = jax.random.key(7)
    together = np.asarray(INDEPENDENT.epochs(key, range(6), ROWS, BATCH)).reshape(6, -1)
    for number in (5, 0, 3):
        alone = INDEPENDENT.epochs(key, range(number, number + 1), ROWS, BATCH)
        np.testing.assert_array_equal(np.ravel(alone), together[number])
    other = INDEPENDENT.epochs(jax.random.key(8), range(6), ROWS, BATCH)
    assert not np.array_equal(np.reshape(other, (6, -1)), together)
    assert len(np.unique(together, axis=0)) == 6


def test_minibatches_are_independent_where_their_noise_is_corrected_for():
    given = noise_models.GivenNoise(1.0)
    assert SGHMC(noise="estimated").ordering is SGHMC(noise=given).ordering is INDEPENDENT
    assert SGHMC(noise=given, temperature=0.0).ordering is SGHMC().ordering is SGLD().ordering is SHUFFLED
    corrected = SGHMC(noise=given)
    for first, second in ((SGNUTS(), corrected), (corrected, SGNUTS())):
        assert SequentialKernel(first, second, after=3).ordering is INDEPENDENT
    assert SequentialKernel(SGNUTS(), SGHMC(), after=3).ordering is SHUFFLED
