"""Targets made of what is no density, no array or no row: one error that names the argument."""

import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import Target
from ergonet._errors import SettingError

ROWS = np.arange(3.0)
Q = jnp.ones(2)


def bowl(q):
    return -0.5 * jnp.sum(q**2)


def rowwise(q, row):
    return -0.5 * (row - q[0]) ** 2


@pytest.mark.parametrize(
    ("example", "said"),
    [
        (np.zeros(0), r"`example`: it has shape \(0,\), so nothing to sample"),
        ({"a": np.zeros(2), "b": np.zeros((3, 0))}, r"`example`: \['b'\] has shape \(3, 0\)"),
        (jnp.zeros(2, jnp.float16), "`example`: it has dtype float16; .* of 32 or 64 bits"),
        ({"a": np.zeros(2), "b": jnp.zeros(2, jnp.bfloat16)}, r"`example`: \['b'\] has dtype bfloat16"),
        (np.array([1.0, "a"], object), "`example`: it has dtype object; it must be an array of numbers"),
        (np.array(["a"]), "`example`: it has dtype <U1"),
        (np.zeros(2, "M8[s]"), r"`example`: it has dtype datetime64\[s\]"),
        (np.zeros(2, np.longdouble), "`example`: it has dtype float128"),
        (np.zeros(2, "V8"), r"`example`: it has dtype \|V8"),
        ([1.0, {1, 2}], r"`example`: \[1\] is \{1, 2\}"),
        ([np.ma.masked_array([1.0, 2.0], [True, False])], r"`example`: \[0\] is a masked array"),
        (np.broadcast_to(np.float32(0), (2**31,)), "`example` has 2147483648 numbers"),
    ],
)
def test_leaves_that_cannot_be_sampled_are_named(example, said):
    with pytest.raises(SettingError, match=said):
        Target.from_logdensity(bowl, example)


def test_arrays_of_other_machines_are_taken():
    target = Target.from_terms(bowl, rowwise, ROWS.astype(">f8"), np.ones(2, ">f4"))
    assert float(target.potential(Q)) == 1.0 + 0.5 * (1 + 0 + 1)


@pytest.mark.parametrize("function", [3, None, "x", lambda: 0.0, lambda q, other: 0.0])
def test_what_is_no_density_is_named(function):
    for make, argument in (
        (lambda: Target.from_logdensity(function, Q), "logdensity_fn"),
        (lambda: Target.from_terms(function, rowwise, ROWS, Q), "log_prior_fn"),
    ):
        with pytest.raises(SettingError, match=rf"`{argument}` (must be a function|cannot be called with 1 argument)"):
            make()


def test_what_is_no_likelihood_or_program_is_named():
    with pytest.raises(SettingError, match=r"`log_likelihood_fn` cannot be called with 2 argument"):
        Target.from_terms(bowl, bowl, ROWS, Q)
    with pytest.raises(SettingError, match=r"`model` cannot be called with 0 argument.*'x'"):
        Target.from_numpyro(lambda x: None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "a scalar, got None"),
        ("x", "a scalar, got 'x'"),
        (Q, r"a scalar, got an array of shape \(2,\). Sum"),
        (1j, "real numbers, got complex64"),
    ],
)
def test_what_is_no_log_density_is_named(value, said):
    with pytest.raises(SettingError, match=f"`logdensity_fn` must return {said}"):
        Target.from_logdensity(lambda q: value, Q).potential(Q)
    with pytest.raises(SettingError, match=f"`log_prior_fn` must return {said}"):
        Target.from_terms(lambda q: value, rowwise, ROWS, Q).potential(Q)


@pytest.mark.parametrize("value", [0.0, np.zeros(5), np.zeros((3, 3)), np.zeros((3, 1))])
def test_log_likelihoods_are_one_number_per_row(value):
    target = Target.from_terms(bowl, lambda q, rows: jnp.asarray(value), ROWS, Q)
    said = r"`log_likelihood_fn` must return an array of shape \(3,\), one number per row, got an array of shape"
    with pytest.raises(SettingError, match=said):
        target.potential(Q)
    with pytest.raises(SettingError, match=r"shape \(2,\), one number"):
        target.minibatch_potential(Q, jnp.zeros(2))


@pytest.mark.parametrize("data", [np.array([1, "a"], object), np.array(["a"]), np.zeros(3, "M8[s]"), [{1}, 2]])
def test_rows_that_are_no_numbers_are_named(data):
    with pytest.raises(SettingError, match=r"`data`: (it|\[0\]) (has dtype|is)"):
        Target.from_terms(bowl, rowwise, data, Q)
