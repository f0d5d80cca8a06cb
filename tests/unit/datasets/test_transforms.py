"""Monotone transforms of targets: round trips, slopes and moments against numerical ones, and the record."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from ergonet import datasets
from ergonet._errors import CapabilityError, DataError, RunDirectoryError, SettingError
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.registry import TARGET_TRANSFORMS, transform_named
from ergonet.datasets.transforms import FromFunctions

CUBE = FromFunctions(
    func=lambda y: jnp.cbrt(y) if not isinstance(y, np.ndarray) else np.cbrt(y),
    inverse_func=lambda t: t**3,
    slope=lambda y: 1 / (3 * np.cbrt(y) ** 2),
)
EVERY = {name: transform_named(name) for name in TARGET_TRANSFORMS.names()} | {"cube root": CUBE}
INSIDE = {"log10": (1e-9, 1e9), "log": (1e-9, 1e9), "log1p": (-0.999, 1e9), "logit": (1e-6, 1 - 1e-6)}


@pytest.mark.parametrize("name", EVERY)
@given(st.data())
def test_the_inverse_is_exact(name, data):
    low, high = INSIDE.get(name, (-1e6, 1e6))
    y = np.array([data.draw(st.floats(low, high))])
    transform = EVERY[name]
    t = transform.forward(y)
    np.testing.assert_allclose(transform.inverse(t), y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(transform.inverse(jnp.asarray(t), jnp), y, rtol=3e-4, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_the_slope_is_the_derivative(name):
    low, high = INSIDE.get(name, (-5.0, 5.0))
    y = np.linspace(max(low, -0.9), min(high, 5.0), 42)[1:-1]
    step = 1e-6 * np.abs(y)
    transform = EVERY[name]
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(transform.log_slope(y)), np.abs(slope), rtol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("sd", [0.02, 0.3])
def test_moments_are_those_of_the_inverse_of_a_normal_variable(name, sd):
    transform, nodes = EVERY[name], norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    mean = np.array([-0.7, 0.2, 1.1])
    values = transform.inverse(mean + sd * nodes[:, None])
    found, variance = transform.moments(mean, np.full(3, sd**2))
    np.testing.assert_allclose(found, values.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(variance, values.var(axis=0), rtol=2e-3)
    unit = transform.unit(np.full(3, -30.0))
    if name in ("log10", "log"):  # far from 1, where single precision has no numbers
        small, spread = transform.moments_in_units(jnp.full(3, -30.0), jnp.full(3, sd**2), -30.0, jnp)
        scale = transform.inverse(np.full(3, -30.0))
        exact = [one * scale[0] ** power for power, one in enumerate(transform.moments(np.zeros(3), sd**2), 1)]
        np.testing.assert_allclose(np.asarray(small, float) * unit, exact[0], rtol=1e-5)
        np.testing.assert_allclose(np.asarray(spread, float) * unit**2, exact[1], rtol=1e-3)


def frame():
    x = np.arange(30.0)
    return pd.DataFrame({"x": x, "price": 10 ** np.sin(x)})


def test_a_table_learns_the_scale_of_the_transformed_target_and_goes_back():
    data = datasets.from_table(frame(), "price", test_fraction=0.2, target_transform="log10")
    scaling, price = data.preprocessing, frame()["price"].to_numpy()
    rows = np.setdiff1d(np.arange(30), data.test_rows)
    assert scaling.target_mean[0] == pytest.approx(np.log10(price[rows]).mean())
    np.testing.assert_allclose(scaling.inverse_target(data.y_test)[:, 0], price[data.test_rows], rtol=1e-6)
    slope = scaling.log_slope(price[:, None])
    np.testing.assert_allclose(slope, -np.log(price * np.log(10) * scaling.target_sd[0]))
    mean, sd = scaling.inverse_normal(np.zeros((1, 1)), np.full((1, 1), 0.5))
    spread = 0.5 * scaling.target_sd[0] * np.log(10)
    assert mean[0, 0] == pytest.approx(10 ** scaling.target_mean[0] * np.exp(spread**2 / 2))
    assert sd[0, 0] == pytest.approx(mean[0, 0] * np.sqrt(np.expm1(spread**2)))
    for method in (scaling.inverse_mean, scaling.inverse_sd):
        with pytest.raises(CapabilityError, match="would be biased"):
            method(np.zeros((1, 1)))


def test_the_record_of_a_transform_is_text_that_older_versions_refuse():
    scaling = datasets.from_table(frame(), "price", target_transform="log10").preprocessing
    record = json.loads(json.dumps(scaling.to_dict()))
    assert record["version"] == 3
    assert Preprocessing.from_dict(record).target_transform == scaling.target_transform
    assert dataclasses.replace(scaling, target_transform=None).to_dict()["version"] == 2
    with pytest.raises(RunDirectoryError, match="target_transform"):
        Preprocessing.from_dict(record | {"target_transform": "log11"})


def test_targets_outside_the_domain_are_named():
    with pytest.raises(DataError, match=r"'price'.*must be above 0.*data row 3 .*has -1"):
        datasets.from_table(
            frame().assign(price=lambda one: one["price"].where(one.index != 2, -1.0)), "price", target_transform="log"
        )


def test_a_transform_needs_numbers():
    classes = frame().assign(price=["a", "b"] * 15)
    with pytest.raises(SettingError, match="is for a regression"):
        datasets.from_table(classes, "price", target_transform="log10")
    with pytest.raises(SettingError, match="'digits' has classes"):
        datasets.load("digits", target_transform="log10")
    with pytest.raises(SettingError, match=r"Did you mean 'log10'"):
        datasets.from_table(frame(), "price", target_transform="lg10")


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ((np.reciprocal, np.reciprocal, lambda y: -1 / y**2), "rises and falls"),
        ((np.log, np.expm1, lambda y: 1 / y), "must be the exact inverse"),
        ((1.0, np.exp, np.exp), "must be a function"),
    ],
)
def test_functions_that_are_no_monotone_pair_are_refused(functions, said):
    y = np.linspace(-1, 1, 4) if "rises" in said else np.linspace(1, 2, 4)
    with pytest.raises(SettingError, match=said):
        FromFunctions(*functions).forward(y)
