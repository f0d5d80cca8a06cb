"""The generator of the minibatch kernels' noise: the cipher itself, and a short battery."""

import jax
import jax.extend.random as extend
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet.samplers.stochastic import noise
from tests import noise_battery as check

COUNTERS = np.array([0, 1, 2, 79509, 2**31, 2**32 - 1], np.uint32)
KEYS = np.array([[0, 0], [0xFFFFFFFF, 0xFFFFFFFF], [0x13198A2E, 0x03707344], [1, 0], [0, 1]], np.uint32)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key[0]:x}-{key[1]:x}")
def test_the_cipher_is_threefry_of_13_rounds(key):
    left, right = COUNTERS, COUNTERS[::-1]
    expected = check.threefry_numpy(key, left, right, 13)
    found = noise.threefry(jnp.asarray(key[0]), jnp.asarray(key[1]), jnp.asarray(left), jnp.asarray(right))
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))


def test_the_reference_is_threefry():
    """The test's own cipher against the known answers of Random123 (13 and 20 rounds) and against JAX's 20 rounds."""
    zero, one = np.uint32(0), np.uint32(0xFFFFFFFF)
    pi = np.array([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], np.uint32)
    known = [
        ((zero, zero), zero, zero, 13, (0x9D1C5EC6, 0x8BD50731)),
        ((one, one), one, one, 13, (0xFD36D048, 0x2D17272C)),
        ((pi[2], pi[3]), pi[0], pi[1], 13, (0xBA3E4725, 0xF27D669E)),
        ((zero, zero), zero, zero, 20, (0x6B200159, 0x99BA4EFE)),
        ((one, one), one, one, 20, (0x1CB996FC, 0xBB002BE7)),
        ((pi[2], pi[3]), pi[0], pi[1], 20, (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, left, right, rounds, answer in known:
        found = check.threefry_numpy(key, left, right, rounds)
        assert tuple(int(word) for word in found) == answer, (rounds, [hex(int(word)) for word in found])
    for key in KEYS:
        theirs = extend.threefry2x32_p.bind(*(jnp.asarray(one) for one in (*key, COUNTERS, COUNTERS[::-1])))
        np.testing.assert_array_equal(check.threefry_numpy(key, COUNTERS, COUNTERS[::-1], 20), np.stack(theirs))


def test_a_number_depends_on_the_key_and_its_place_alone():
    key = jax.random.key(2)
    long, short = np.asarray(noise.normals(key, 1000)), np.asarray(jax.jit(noise.normals, static_argnums=1)(key, 100))
    np.testing.assert_allclose(short, long[:100], rtol=1e-5, atol=1e-6)
    assert not np.allclose(noise.normals(jax.random.fold_in(key, 1), 100), short)
    assert len(np.unique(long)) == 1000
    many = jax.vmap(lambda one: noise.normals(one, 100))(jax.random.split(key, 3))
    assert many.shape == (3, 100)
    np.testing.assert_allclose(many[1], noise.normals(jax.random.split(key, 3)[1], 100), rtol=1e-5, atol=1e-6)


def test_the_largest_number_and_the_smallest(monkeypatch):
    corners = jnp.asarray([0, 1, 2**31, 2**32 - 2, 2**32 - 1], jnp.uint32)
    monkeypatch.setattr(noise, "threefry", lambda *_: (corners, jnp.zeros_like(corners)))
    values = np.asarray(noise.normals(jax.random.key(0), 5), np.float64)
    expected = np.sqrt(-2 * np.log((np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1]) + 0.5) / 2**32))
    np.testing.assert_allclose(values, expected, atol=3e-4)  # float32 near 1
    assert values[0] < 6.77


def test_the_angle_is_uniform_over_the_circle():
    bits = np.arange(0, 2**32, 2**18, dtype=np.uint64) + 2**17
    cosines = np.asarray(noise._cosine(jnp.asarray(bits.astype(np.uint32))), np.float64)
    expected = np.cos(2 * np.pi * bits / 2**32)
    np.testing.assert_allclose(np.sort(cosines), np.sort(expected), atol=3e-7)


def test_precisions():
    key = jax.random.key(4)
    single = np.asarray(noise.normals(key, 50))
    assert single.dtype == np.float32
    with jax.enable_x64(True):
        double = np.asarray(noise.normals(key, 50, jnp.float64))
    assert double.dtype == np.float64
    np.testing.assert_allclose(double, single, rtol=1e-5, atol=1e-6)


def test_a_short_battery():
    scores = check.battery(check.usual, jax.random.key(1), num_steps=20, dim=20_000)
    assert check.worst(scores)[0] < check.LIMIT, scores
    assert np.max(np.abs(check.long_sums(check.usual, jax.random.key(1), 20_000, 100))) < check.LIMIT


@pytest.mark.parametrize("defect", ["3 rounds", "the same stream", "a counter used twice"])
def test_a_short_battery_finds_a_defect(defect):
    scores = check.battery(check.DEFECTS[defect], jax.random.key(1), num_steps=20, dim=20_000)
    assert check.worst(scores)[0] > 2 * check.LIMIT, scores
