"""The parts of the reproductions of Lau2018 that figures rest on: the printed sampler, ensembles, verdicts."""

import math
import re
import shutil
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet.samplers.stochastic.base import Pace, minibatch_gradient
from ergonet.samplers.stochastic.noise import normals
from experiments import page, runner
from experiments.lau2018 import digits, ensemble, precision, sghmc, sghmc_grid
from experiments.lau2018.printed_sghmc import PrintedSGHMC, PrintedState
from experiments.record import Quantity, Table
from experiments.sizes import SIZES

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
KEPT = sorted(file.stem for file in RESULTS.glob("lau-*.json"))


@pytest.fixture(scope="module")
def tiny():
    return digits.target((2,), 1.0, is_double=False)


def printed(**changed):
    settings = {"learning_rate": 0.01, "velocity_scale": 0.5, "length": 3, "momentum_decay": 0.1, "batch_size": 100}
    return PrintedSGHMC(**{**settings, **changed})


def stepped(tiny, number, **changed):
    """A step from given places, with what goes into it."""
    kernel, key = printed(**changed), jax.random.key(1)
    position, velocity = (jax.random.normal(jax.random.key(seed), (tiny.dim,)) for seed in (2, 3))
    rows = jax.tree.map(lambda leaf: leaf[:100], tiny.rows())
    pace = Pace(step_size=jnp.asarray(0.01), number=jnp.asarray(number, jnp.int32))
    state, _ = eqx.filter_jit(kernel.step)(key, tiny, PrintedState(position, velocity), rows, pace)
    return state, position, velocity, rows, normals(key, tiny.dim)


def test_the_printed_step_drops_the_velocity_and_scales_its_noise_by_the_decay_alone(tiny):
    state, position, velocity, rows, noise = stepped(tiny, 1)
    np.testing.assert_allclose(state.position, position + velocity, rtol=1e-5)
    _, gradient = minibatch_gradient(tiny, state.position, rows)
    expected = -0.01 * gradient - 0.1 * velocity + math.sqrt(0.2) * noise
    np.testing.assert_allclose(state.velocity, expected, rtol=1e-3, atol=1e-4)


def test_the_printed_velocity_is_drawn_with_its_own_scale_at_the_start_of_every_draw(tiny):
    moved = {number: np.asarray(stepped(tiny, number)[0].position) for number in (0, 2, 3)}
    np.testing.assert_array_equal(moved[0], moved[3])
    assert not np.allclose(moved[0], moved[2])
    _, position, *_ = stepped(tiny, 0)
    fresh = moved[0] - np.asarray(position)
    assert fresh.std() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2 * tiny.dim))


@pytest.mark.slow
def test_a_runaway_has_no_error_and_says_how_hot_it_was():
    found = sghmc_grid.measure_variant(sghmc_grid.MEANT, 200, 1.0, (SIZES["smoke"], 0))
    assert math.isnan(found[sghmc_grid.MEANT.single.name])
    assert found[sghmc_grid.MEANT.temperature.name] > sghmc_grid.HOTTEST


@pytest.mark.parametrize(
    ("message", "expected"),
    [("its kinetic temperature is 46148, which should be near 1: lower", 46148.0), ("is not finite", math.inf)],
)
def test_the_temperature_of_a_stopped_run_is_read_from_its_message(message, expected):
    assert sghmc_grid.stopped_at(message) == expected


def test_ensembles_are_disjoint_and_average_probabilities():
    sure, unsure = np.array([[0.9, 0.1], [0.1, 0.9]]).T, np.array([[0.4, 0.6], [0.6, 0.4]]).T  # [class, row]
    members, truth = np.stack([sure, unsure, unsure, unsure, sure]), np.array([0, 1])
    np.testing.assert_allclose(ensemble.ensemble_errors(members, truth, 1), [0, 100, 100, 100, 0])
    np.testing.assert_allclose(ensemble.ensemble_errors(members, truth, 2), [0, 100])
    np.testing.assert_allclose(ensemble.ensemble_errors(members, truth, 5), [0])


def sghmc_table(*, diverged, shift=0.0):
    """A table in which the printed algorithm gives the thesis's figures, and the sampler errs as full HMC does."""
    random = np.random.default_rng(0)
    noisy = lambda value: (value + 0.1 * random.normal(size=3)).tolist()  # noqa: E731
    row = {digits.SINGLE.name: noisy(23.4), digits.PREDICTIVE.name: noisy(9.0)}
    values, sources = {sghmc.REFERENCE: row}, {}
    for length, rate in sghmc_grid.grid(SIZES["full"]):
        label = sghmc_grid.label(length, rate)
        sources[label] = sghmc_grid.printed_figures(length, rate)
        values[label] = {}
        for variant in sghmc_grid.VARIANTS:
            is_out = (label in diverged) and variant.scale is not None
            mean = sources[label].get(variant.single.name, 50.0) if variant.scale is not None else 23.4 + shift
            predictive = mean if variant.scale is not None else 9.0 + shift
            values[label] |= {
                variant.single.name: [math.nan] * 3 if is_out else noisy(mean),
                variant.sd.name: [math.nan] * 3 if is_out else noisy(2.5),
                variant.predictive.name: [math.nan] * 3 if is_out else noisy(predictive),
            }
            if variant.scale is None:
                values[label][variant.temperature.name] = noisy(1.0)
    return Table(values, sources)


def verdicts(table):
    return {claim.text: claim.survives for claim in sghmc.judge(table)}


def test_the_figures_of_the_thesis_make_its_conclusions_on_sghmc_survive():
    found = verdicts(sghmc_table(diverged=sghmc.DIVERGED))
    assert found["the best test error is at L = 50, eta = 0.1"] is True
    assert found["L = 50 is best whatever e is"] is True
    assert found["runs diverge at L = 10 with eta of 0.01 and 0.1, and nowhere else"] is True
    assert found["the printed test errors are what single draws of the printed algorithm give"] is True
    (better,) = (value for text, value in found.items() if text.startswith("SGHMC can predict better"))
    assert better is False


def test_other_figures_do_not():
    found = verdicts(sghmc_table(diverged={sghmc_grid.label(50, 0.1)}, shift=-3.0))
    assert found["the best test error is at L = 50, eta = 0.1"] is False
    assert found["L = 50 is best whatever e is"] is False
    assert found["runs diverge at L = 10 with eta of 0.01 and 0.1, and nowhere else"] is False
    (better,) = (value for text, value in found.items() if text.startswith("SGHMC can predict better"))
    assert better is True
    (at_one,) = (value for text, value in found.items() if "kinetic temperature" in text)
    assert at_one is False


def test_what_was_measured_and_is_no_number_is_not_left_blank():
    quantity = Quantity("error, %", 1)
    table = Table({"a": {quantity.name: [math.nan, math.nan]}, "b": {quantity.name: [1.0, math.nan]}, "c": {}}, {})
    shown = page._table(table, (quantity,))
    assert "| a | NA |" in shown
    assert "| b | 1.0, 1 NA |" in shown
    assert "| c |" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_the_page_of_a_kept_result_can_be_written_again(name, tmp_path):
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    record = runner.rewrite(name, tmp_path)
    assert record["rows"]
    assert re.match("(Survives|Does not survive|Undecided): ", record["verdict"])


def test_a_result_without_rows_of_the_learned_scale_is_judged_without_them():
    rng = np.random.default_rng(0)
    runs = {precision.FLOATS[precision.NORMAL].label, precision.DOUBLES[precision.NORMAL].label}
    of_runs = (digits.SINGLE, digits.SINGLE_SD, digits.PREDICTIVE, digits.MIN_ESS, digits.MEDIAN_ESS)
    values = {label: {one.name: list(20 + rng.random(3)) for one in of_runs} for label in runs}
    lengths = precision.LENGTH_LABELS[precision.NORMAL]
    values |= {label: {one.name: list(rng.random(3)) for one in precision.DIFFERENCES} for label in lengths}
    rounding = (precision.ROUNDING, precision.ROUNDING_AROUND)
    rows = map(precision.rows_label, precision.MANY_ROWS)
    values |= {label: {one.name: list(1 + rng.random(3)) for one in rounding} for label in rows}
    assert not any("NIG" in claim.text for claim in precision.judge(Table(values, {})))
