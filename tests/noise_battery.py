"""What a generator of normal numbers is tested by, and generators with a defect that the tests must find.

Every check returns z-scores. False alarm of one |z| < 5: 6e-7; about 200 of them in all, so below 1e-3 for each key.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ergonet.samplers.stochastic import noise

Generator = Callable[[Any, int], Any]
LIMIT = 5.0
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def usual(key, dim):
    return noise.normals(key, dim)


def threefry_numpy(key, left, right, rounds):
    """Threefry-2x32 as the paper's pseudo-code has it, in 64-bit integers with explicit remainders."""
    word = 2**32
    keys = [int(key[0]), int(key[1]), int(key[0]) ^ int(key[1]) ^ 0x1BD11BDA]
    x0 = (np.asarray(left, np.uint64) + np.uint64(keys[0])) % word
    x1 = (np.asarray(right, np.uint64) + np.uint64(keys[1])) % word
    for d in range(rounds):
        x0 = (x0 + x1) % word
        turn = ROTATIONS[d % 8]
        x1 = ((x1 * np.uint64(2**turn)) % word + x1 // np.uint64(2 ** (32 - turn))) ^ x0
        if (d + 1) % 4 == 0:
            s = (d + 1) // 4
            x0 = (x0 + np.uint64(keys[s % 3])) % word
            x1 = (x1 + np.uint64((keys[(s + 1) % 3] + s) % word)) % word
    return x0.astype(np.uint32), x1.astype(np.uint32)


def moment_scores(values):
    """z of the moments 1 to 6 and of E|x|."""
    x = np.asarray(values, np.float64).ravel()
    double = [math.prod(range(2 * k - 1, 0, -2)) for k in range(13)]  # E x^(2k)
    scores, product = [], np.ones_like(x)
    for power in range(1, 7):
        product *= x  # NumPy's `**` takes several times as long
        expected = 0.0 if power % 2 else double[power // 2]
        variance = double[power] - expected**2
        scores.append((np.mean(product) - expected) / math.sqrt(variance / x.size))
    mean = math.sqrt(2 / math.pi)
    scores.append((np.mean(np.abs(x)) - mean) / math.sqrt((1 - mean**2) / x.size))
    return np.array(scores)


def tail_scores(values, limits=(3.0, 4.0, 4.5, 5.0)):
    """z of the counts beyond +-3, 4, 4.5 and 5 standard deviations, by the exact Poisson tail."""
    x = np.asarray(values).ravel()
    scores = []
    for limit in limits:
        for count in (int(np.sum(x > limit)), int(np.sum(x < -limit))):
            expected = x.size * stats.norm.sf(limit)
            above = stats.poisson.sf(count - 1, expected)
            below = stats.poisson.cdf(count, expected)
            scores.append(stats.norm.isf(min(1.0, 2 * min(above, below)) / 2))
    return np.array(scores)


def distribution_scores(values, cells=100):
    """|z| of the Kolmogorov distance to N(0, 1) and of chi-square over equiprobable cells."""
    x = np.asarray(values, np.float64).ravel()
    kolmogorov = stats.kstest(x, "norm").pvalue
    edges = stats.norm.ppf(np.arange(1, cells) / cells)
    counts = np.bincount(np.searchsorted(edges, x), minlength=cells)
    chi_square = np.sum((counts - x.size / cells) ** 2) / (x.size / cells)
    cell = stats.chi2.sf(chi_square, cells - 1)
    return stats.norm.isf(np.maximum([kolmogorov, cell], 1e-300) / 2)


def correlation_score(first, second):
    """z of the correlation of two series of known mean 0 (squares: 1 is taken off)."""
    first, second = np.atleast_2d(first, second)
    product, *squares = (np.einsum("ij,ij->", *pair) for pair in ((first, second), (first, first), (second, second)))
    return product * math.sqrt(first.size / math.prod(squares))


def neighbor_scores(values, lags=range(1, 17)):
    """z of the correlations between neighbors `[..., dim]` at each lag, of the numbers and of their squares."""
    x = np.asarray(values, np.float64)
    scores = []
    for series in (x, x**2 - 1):
        scores += [correlation_score(series[..., :-lag], series[..., lag:]) for lag in lags]
    return np.array(scores)


def any_lag_score(values):
    """z of the largest correlation within the streams `[step, dim]` at any lag, after Bonferroni's correction."""
    x = np.asarray(values, np.float64)
    num_steps, dim = x.shape
    power = sum(np.abs(np.fft.rfft(row, 2 * dim)) ** 2 for row in x)
    lags = np.arange(1, dim - 100)
    scores = np.fft.irfft(power)[lags] / np.sqrt(num_steps * (dim - lags))
    return stats.norm.isf(max(1e-300, min(1.0, 2 * stats.norm.sf(np.max(np.abs(scores))) * lags.size)) / 2)


def streams(generator: Generator, key, first, count, dim):
    """Numbers of the streams fold_in(key, step), `[step, dim]`."""
    steps = jnp.arange(first, first + count)
    return np.asarray(jax.jit(jax.vmap(lambda step: generator(jax.random.fold_in(key, step), dim)))(steps))


def stream_scores(values):
    """z of the correlations between the streams `[step, dim]` of steps 1, 2 and 3 apart, at the same place."""
    x = np.asarray(values, np.float64)
    scores = []
    for series in (x, x**2 - 1):
        scores += [correlation_score(series[:-lag], series[lag:]) for lag in (1, 2, 3)]
        scores.append(correlation_score(series[:-1, :-1], series[1:, 1:]))
    return np.array(scores)


def battery(generator: Generator, key, *, num_steps, dim):
    """Every score by name; `num_steps` streams of `dim` numbers."""
    values = streams(generator, key, 0, num_steps, dim)
    return {
        "moments": moment_scores(values),
        "tails": tail_scores(values),
        "distribution": distribution_scores(values.ravel()[:2_000_000]),
        "neighbors": neighbor_scores(values),
        "any lag": np.array([any_lag_score(values)]),
        "streams": stream_scores(values),
        "stream sums": moment_scores(values.sum(axis=1) / math.sqrt(dim)),
        "place sums": moment_scores(values.sum(axis=0) / math.sqrt(num_steps)),
    }


def worst(scores):
    """The largest |z| and what it is of."""
    name = max(scores, key=lambda one: np.max(np.abs(scores[one])))
    return float(np.max(np.abs(scores[name]))), name


def long_sums(generator: Generator, key, dim, num_steps):
    """z of the mean, the mean square and the mean product with the step before, over dim x num_steps numbers."""

    @jax.jit
    def run():
        def step(index, carry):
            sums, before = carry
            x = generator(jax.random.fold_in(key, index), dim)
            found = jnp.stack([jnp.sum(x), jnp.sum(x**2 - 1), jnp.sum(x * before)])
            total, lost = sums  # Kahan's sum: 1e8 float32 terms, a step's sum at a time
            corrected = found - lost
            new = total + corrected
            return (new, (new - total) - corrected), x

        blank = jnp.zeros(3), jnp.zeros(3)
        return jax.lax.fori_loop(0, num_steps, step, (blank, jnp.zeros(dim)))[0][0]

    sums = np.asarray(run(), np.float64)
    return sums / np.sqrt(np.array([1.0, 2.0, 1.0]) * dim * num_steps)


def with_rounds(rounds) -> Generator:
    """The generator with another number of rounds."""

    def generate(key, dim):
        before = noise.NUM_ROUNDS
        noise.NUM_ROUNDS = rounds
        try:
            return noise.normals(key, dim)
        finally:
            noise.NUM_ROUNDS = before

    return generate


def same_stream(key, dim):
    """Each step starts where the one before has started, but for one place."""
    step = jax.random.key_data(key)[1] % 7
    return jax.lax.dynamic_slice_in_dim(noise.normals(jax.random.key(5), dim + 7), step, dim)


def used_twice(key, dim):
    """A counter that serves two numbers."""
    half = noise.normals(key, (dim + 1) // 2)
    return jnp.concatenate([half, half])[:dim]


def coarse_radius(key, dim):
    """A uniform number of 12 bits makes the radius: there is nothing beyond 4.3."""
    first, second = noise.key_words(key)
    counter = jax.lax.iota(jnp.uint32, dim)
    left, right = noise.threefry(first, second, counter, jnp.zeros_like(counter))
    uniform = ((left >> 20).astype(jnp.float32) + 0.5) / 2**12
    return jnp.sqrt(-2 * jnp.log(uniform)) * noise._cosine(right)


def slightly_wide(key, dim):
    """For the long run alone: 1e7 numbers do not show it."""
    return 1.001 * noise.normals(key, dim)


DEFECTS: dict[str, Generator] = {
    "3 rounds": with_rounds(3),
    "5 rounds": with_rounds(5),
    "the same stream": same_stream,
    "a counter used twice": used_twice,
    "a coarse radius": coarse_radius,
}
