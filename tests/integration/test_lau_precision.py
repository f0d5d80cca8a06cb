"""The reproduction of Lau2018 in both precisions: rows that differ, energies around a start, verdicts on drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.lau2018 import energies, precision
from experiments.record import Table

UNITS, ROWS, POINTS = 2, 1200, 3


@pytest.fixture(scope="module")
def problem():
    return energies.different_rows(UNITS, ROWS, POINTS, 0)


def test_no_two_rows_are_the_same(problem):
    both, _ = problem
    assert len(np.unique(np.asarray(both.single.inputs), axis=1).T) == ROWS
    np.testing.assert_array_equal(both.single.inputs, both.double.inputs)
    assert both.classes.shape == (POINTS, ROWS)


def test_classes_come_from_the_network_with_the_weights_of_their_point(problem):
    both, positions = problem
    for position, classes in zip(positions, both.classes, strict=True):
        probability = np.asarray(
            jax.nn.softmax(both.single.model.outputs(jnp.asarray(position), both.single.inputs), axis=0)
        )
        picked = probability[classes, np.arange(ROWS)]
        expected, spread = np.sum(probability**2, axis=0), np.sum(probability**3, axis=0)
        error = np.sqrt(np.sum(spread - expected**2)) / ROWS
        assert abs(np.mean(picked - expected)) < 4 * error


def test_energies_around_the_start_have_the_differences_of_whole_ones(problem):
    both, positions = problem
    momenta = np.ones_like(positions)
    with jax.enable_x64(True):
        found = energies.follow(both.double, both.classes, (positions, momenta), np.float64(0.01), (3,))
    np.testing.assert_allclose(found[3].whole - found[0].whole, found[3].around - found[0].around, atol=1e-9)
    np.testing.assert_allclose(found[0].around, 0.5 * positions.shape[1], rtol=1e-9)


@pytest.mark.parametrize(
    ("rate", "change", "expected"), [(0.8, 1e-4, True), (0.8, 0.01, False), (1.0, 0.0, None), (0.1, 0.0, None)]
)
def test_the_verdict_on_drift_needs_acceptances_that_a_change_would_show_in(rate, change, expected):
    labels = [precision.rows_label(rows) for rows in precision.MANY_ROWS]
    quantities = {precision.ACCEPTANCE: rate, precision.ACCEPTANCE_CHANGE: change, precision.WHOLE_CHANGE: change}
    values = {label: {one.name: [value] * 2 for one, value in quantities.items()} for label in labels}
    assert precision._drift(Table(values, {}), labels).survives is expected
