"""E-BFMI against values worked out by hand."""

import numpy as np
import pytest

from ergonet._errors import SettingError
from ergonet.diagnostics import e_bfmi


def test_hand_computed_values():
    # [1, 3, 2]: steps 2 and -1 give 5; deviations from 2 are -1, 1, 0 and give 2.
    # [0, 1, 2, 3] has another length, so: [0, 1, 2]: steps 1 and 1 give 2; deviations -1, 0, 1 give 2.
    np.testing.assert_allclose(e_bfmi(np.asarray([[1.0, 3.0, 2.0], [0.0, 1.0, 2.0]])), [2.5, 1.0])


def test_independent_energies_are_near_two_and_a_slow_walk_near_zero():
    noise = np.random.default_rng(0).normal(size=(1, 4000))
    independent, slow = e_bfmi(np.concatenate([noise, np.cumsum(noise, axis=1)]))
    assert independent == pytest.approx(2.0, abs=0.2)
    assert slow < 0.1


@pytest.mark.parametrize("energy", [np.ones((2, 5)), np.ones((2, 1)), np.asarray([[1.0, np.nan, 2.0]] * 2)])
def test_what_cannot_be_told_is_nan(energy):
    result = e_bfmi(energy)
    assert result.shape == (2,)
    assert np.isnan(result).all()


def test_far_offsets_lose_nothing_in_float32():
    energy = np.asarray([[0.0, 2.0, 1.0, 3.0]], dtype=np.float32)
    np.testing.assert_allclose(e_bfmi(energy + np.float32(1e5)), e_bfmi(energy), rtol=1e-6)


def test_wrong_shape_is_named():
    with pytest.raises(SettingError, match=r"\[chain, draw\]"):
        e_bfmi(np.zeros(10))
