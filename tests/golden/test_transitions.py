"""The code decides as it did when the record was written: the same keys and states give the same transitions.

Positions agree within 1e-5 relative to the largest coordinate, decisions and counts exactly.
"""

import json

import numpy as np
import pytest

from tests.golden import transitions

pytestmark = pytest.mark.slow  # the whole file

COUNTS = ("moved", "diverging", "num_steps", "gradients")


@pytest.fixture(scope="module")
def record():
    return json.loads(transitions.RECORD.read_text())


@pytest.mark.parametrize("case", transitions.CASES, ids=lambda case: transitions.label(*case))
def test_as_recorded(record, case):
    for field, found in transitions.found(*case).items():
        expected = np.asarray(record[f"{transitions.label(*case)} | {field}"])
        values = np.asarray(found)
        assert values.shape == expected.shape, field
        if field in COUNTS:
            np.testing.assert_array_equal(values.astype(int), expected, err_msg=field)
        else:
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0) if field == "position" else 1.0
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * scale, err_msg=field)


def test_the_record_has_every_case_and_no_other(record):
    assert {name.rsplit(" | ", 1)[0] for name in record} == {transitions.label(*case) for case in transitions.CASES}


@pytest.mark.parametrize("name", transitions.KERNELS)
def test_the_states_of_the_record_meet_both_decisions(record, name):
    """Of the 12 states some have low and some high acceptance."""
    acceptance = np.asarray(record[f"{transitions.label('transition', name, 'float64')} | acceptance"])
    assert acceptance.min() < 0.5 < acceptance.max()
