"""The parts of a trajectory that are faster than JAX's own give the same results."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ergonet.trajectory.packing import packed_while_loop
from ergonet.trajectory.uniforms import threefry, uniform_pair


@pytest.mark.parametrize("seed", [0, 1, 2**31 + 7, 2**32 - 1])
def test_threefry_is_that_of_jax_bit_for_bit(seed):
    from jax.extend.random import threefry_2x32

    key = jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))
    words = jnp.asarray(np.random.default_rng(seed).integers(0, 2**32, size=(50, 2), dtype=np.uint32))
    expected = np.stack([np.asarray(threefry_2x32(key, pair)) for pair in words])
    ours = jax.vmap(lambda pair: jnp.stack(threefry(key, pair[0], pair[1])))(words)
    np.testing.assert_array_equal(ours, expected)


def test_uniform_pairs_are_uniform_and_independent():
    key = jax.random.key_data(jax.random.key(3))
    pairs = jax.vmap(lambda n: jnp.stack(uniform_pair(key, n, jnp.float32)))(jnp.arange(20000))
    pairs = np.asarray(pairs)
    assert pairs.min() >= 0
    assert pairs.max() < 1
    counts = np.histogram2d(pairs[:, 0], pairs[:, 1], bins=10, range=[[0, 1], [0, 1]])[0]
    assert np.sum((counts - 200) ** 2 / 200) < 99 + 4 * np.sqrt(2 * 99)  # chi-square with 99 degrees of freedom
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 4 / np.sqrt(20000)


class Record(eqx.Module):
    total: jax.Array
    count: jax.Array
    bits: jax.Array
    flag: jax.Array
    vector: jax.Array
    key: jax.Array
    inner: tuple


def record():
    return Record(
        total=jnp.asarray(0.5),
        count=jnp.asarray(0, jnp.int32),
        bits=jnp.asarray(2**32 - 5, jnp.uint32),
        flag=jnp.asarray(False),
        vector=jnp.arange(3.0),
        key=jax.random.key(1),
        inner=(jnp.asarray(-2, jnp.int32), jnp.asarray(jnp.nan)),
    )


def body(r):
    total = r.total + jnp.sum(r.vector) * 0.1
    return Record(
        total=total,
        count=r.count + 1,
        bits=r.bits * jnp.uint32(1664525) + jnp.uint32(1),
        flag=total > 1,
        vector=r.vector * 0.9 + jax.random.uniform(r.key, (3,)),
        key=jax.random.fold_in(r.key, r.count),
        inner=(r.inner[0] - r.count, r.inner[1]),
    )


def words(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@pytest.mark.parametrize("turns", [0, 1, 9])
def test_a_packed_loop_is_a_while_loop(turns):
    ours = jax.jit(lambda r: packed_while_loop(lambda s: s.count < turns, body, r))(record())
    theirs = jax.jit(lambda r: lax.while_loop(lambda s: s.count < turns, body, r))(record())
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(words(one), words(other))


@pytest.mark.parametrize("count", [1, 8, 9, 17])
def test_any_number_of_scalars_travels_packed(count):
    start = [jnp.asarray(place, dtype) for dtype in (jnp.float32, jnp.int32, jnp.uint32) for place in range(count)]

    def turn(scalars):
        return [scalar + 2 for scalar in scalars[:-1]] + [scalars[-1] * 3]

    ours = jax.jit(lambda s: packed_while_loop(lambda s: s[0] < 9, turn, s))(start)
    theirs = jax.jit(lambda s: lax.while_loop(lambda s: s[0] < 9, turn, s))(start)
    assert [one.dtype for one in ours] == [one.dtype for one in start]
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_a_packed_loop_in_batches():
    def run(start):
        return packed_while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (start, jnp.asarray(1.0)))

    counts, values = jax.vmap(run)(jnp.arange(7))
    np.testing.assert_array_equal(counts, [5, 5, 5, 5, 5, 5, 6])
    np.testing.assert_array_equal(values, [32, 16, 8, 4, 2, 1, 1])


def test_scalars_of_two_floating_dtypes_are_refused():
    mixed = (jnp.asarray(1.0, jnp.float32), jnp.asarray(1.0, jnp.float16))
    with pytest.raises(TypeError, match="one floating dtype"):
        packed_while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), mixed)


def test_flags_do_not_disturb_each_other_in_a_packed_loop():
    start = (jnp.asarray(0, jnp.int32), [jnp.asarray(place % 3 == 0) for place in range(31)])

    def turn(carry):
        count, flags = carry
        return count + 1, [flags[-1], *flags[:-1]]

    _, flags = packed_while_loop(lambda s: s[0] < 5, turn, start)
    assert all(flag.dtype == bool for flag in flags)
    np.testing.assert_array_equal(flags, np.roll([place % 3 == 0 for place in range(31)], 5))


def test_more_flags_than_an_integer_holds_are_refused():
    flags = [jnp.asarray(False)] * 32
    with pytest.raises(TypeError, match="at most 31 boolean"):
        packed_while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), (jnp.asarray(0, jnp.int32), flags))
