"""What is written as TOML is read back as it was."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ergonet.runs.toml import to_toml

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_round_trip(content):
    assert tomllib.loads(to_toml(content)) == content


def test_none_is_left_out_and_tuples_become_lists():
    text = to_toml({"run": {"devices": None, "hidden": (20, 20)}, "empty": {}})
    assert tomllib.loads(text) == {"run": {"hidden": [20, 20]}, "empty": {}}


def test_nan_is_kept():
    assert math.isnan(tomllib.loads(to_toml({"x": math.nan}))["x"])


def test_settings_look_as_a_person_would_write_them():
    text = to_toml({"network": {"hidden": [35], "bias": False}, "prior": {"layers.0.*": {"scale": 0.5}}})
    assert text == '[network]\nhidden = [35]\nbias = false\n\n[prior."layers.0.*"]\nscale = 0.5\n'


@pytest.mark.parametrize("value", [object(), [None], {1: 2}])
def test_what_toml_cannot_hold_is_refused(value):
    with pytest.raises(TypeError):
        to_toml({"x": value})
