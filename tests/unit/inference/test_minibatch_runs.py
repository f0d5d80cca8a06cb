"""Runs of minibatch kernels: chunks, what is stored, what is refused."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import (
    NUTS,
    SGHMC,
    SGLD,
    SGNUTS,
    NaiveSGHMC,
    Target,
    noise_models,
    retention,
    schedules,
)
from ergonet._errors import CapabilityError, SettingError, StartError, TimeLimitError
from ergonet.adaptation.recipes import stan_windows
from ergonet.draws.statistics import statistics
from ergonet.inference import minibatch_jobs
from ergonet.inference.validation import validate_target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, GradientInfo, Pace, one_gradient
from ergonet.samplers.stochastic.schedule import Constant
from tests.minibatches import exact_gaussian, linear_regression, network, run
from tests.sampling import gaussian_target

pytestmark = pytest.mark.slow  # the whole file

KERNELS = {
    "sgld": lambda **more: SGLD(learning_rate=0.002, batch_size=6, **more),
    "sghmc": lambda **more: SGHMC(learning_rate=0.002, momentum_decay=0.1, batch_size=6, **more),
    "sghmc, estimated": lambda **more: SGHMC(
        learning_rate=0.002, momentum_decay=0.1, noise="estimated", resample_every=7, batch_size=6, **more
    ),
    "naive": lambda **more: NaiveSGHMC(learning_rate=0.0002, num_steps=5, metropolis=True, batch_size=6, **more),
    "sg-nuts": lambda **more: SGNUTS(learning_rate=0.002, max_doublings=3, batch_size=6, **more),
}


class RowRecorder(AbstractMinibatchKernel):
    """Writes the number of each row that it sees into its position: `position[row] += 1` and when it was last."""

    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True, default=None)
    schedule: Constant = Constant()
    learning_rate: float | None = eqx.field(static=True, default=1.0)

    def statistics(self):
        return statistics(GradientInfo)

    def init(self, key, target, position, step_size):
        return Position(position)

    def step(self, key, target, state, rows, pace: Pace):
        seen = state.position.at[rows.astype(int)].add(1.0)
        return Position(seen), one_gradient(jnp.zeros((), seen.dtype))


class Position(eqx.Module):
    position: Any


def numbered_rows(rows):
    """A target whose row i is the number i, and whose position has a coordinate for each."""
    return Target.from_terms(
        lambda q: -0.5 * jnp.sum(q**2), lambda q, row: 0.0 * row, np.arange(rows, dtype=np.float32), jnp.zeros(rows)
    )


def set_chunks(monkeypatch, first, seconds=0.5):
    monkeypatch.setattr(minibatch_jobs, "FIRST_CHUNK", first)
    monkeypatch.setattr(minibatch_jobs, "CHUNK_SECONDS", seconds)


def same(one, other, chains=slice(None)):
    np.testing.assert_array_equal(one.positions[chains], other.positions[chains])
    for name, values in one.curve.items():
        np.testing.assert_array_equal(values[chains], other.curve[name][chains], err_msg=name)


# Chunks and chains


@pytest.mark.parametrize("kernel", KERNELS)
def test_draws_do_not_depend_on_how_steps_are_cut_into_chunks(monkeypatch, kernel):
    target = network()
    settings = {"num_warmup": 3, "num_draws": 9, "num_chains": 1}
    whole = run(target, KERNELS[kernel](steps_per_draw=4), **settings)
    for first, seconds in ((1, 1e-9), (7, 1e-9), (5, 0.002), (1000, 10.0)):
        set_chunks(monkeypatch, first, seconds)
        same(whole, run(target, KERNELS[kernel](steps_per_draw=4), **settings))


@pytest.mark.parametrize("kernel", ["sghmc", "naive"])
def test_draws_do_not_depend_on_the_other_chains(kernel):
    target = network()
    three = run(target, KERNELS[kernel](), num_chains=3, num_draws=8)
    same(run(target, KERNELS[kernel](), num_chains=1, num_draws=8), three, slice(1))
    same(run(target, KERNELS[kernel](), num_chains=3, num_draws=8, devices=1), three)
    assert len(np.unique(three.positions[:, 0, 0])) == 3
    assert not np.array_equal(three.positions, run(target, KERNELS[kernel](), seed=4).positions)


@pytest.mark.parametrize(("rows", "batch_size"), [(12, 4), (13, 4), (10, 10), (7, 1)])
def test_every_row_is_seen_once_in_an_epoch(rows, batch_size):
    found = run(numbered_rows(rows), RowRecorder(batch_size=batch_size), num_draws=25, init=np.zeros(rows))
    counts = np.diff(found.positions[0], axis=0, prepend=np.zeros((1, rows)))
    assert set(np.unique(counts)) <= {0, 1}
    assert np.all(counts.sum(axis=1) == rows // batch_size * batch_size)
    if rows % batch_size:
        left = np.argmin(counts, axis=1)
        assert len(np.unique(left)) > 5  # not always the same ones


def test_each_epoch_has_an_order_of_its_own(monkeypatch):
    monkeypatch.setattr("ergonet.samplers.stochastic.ordering.LAYOUT_ROWS", 24)  # two epochs are laid out at once
    kernel = RowRecorder(batch_size=1, steps_per_draw=1)
    found = run(numbered_rows(12), kernel, num_draws=120, init=np.zeros(12), num_chains=2)
    order = np.argmax(np.diff(found.positions, axis=1, prepend=0), axis=2).reshape(20, 12)
    assert np.all(np.sort(order, axis=1) == np.arange(12))
    assert len(np.unique(order, axis=0)) == 20
    place = np.mean(order, axis=0)  # 20 epochs: sd of a mean 3.45 / sqrt(20)
    assert np.all(np.abs(place - 5.5) < 4 * 3.45 / np.sqrt(20))


def test_ergonet_sample_takes_minibatch_kernels():
    target = network()
    mine = run(target, KERNELS["sghmc"](), num_chains=2, num_warmup=3, num_draws=12)
    settings = {"num_chains": 2, "num_warmup": 3, "seed": 3, "progress": False}
    theirs = ergonet.sample(target, KERNELS["sghmc"](), num_draws=12, **settings)
    np.testing.assert_array_equal(theirs.positions, mine.positions)
    thin = ergonet.sample(target, KERNELS["sghmc"](), num_draws=4, thin=3, **settings)
    np.testing.assert_array_equal(thin.positions, mine.positions[:, 2::3])
    assert thin.about["thin"] == 3
    with pytest.raises(SettingError, match="`SGHMC` has no stages"):
        ergonet.sample(target, KERNELS["sghmc"](), warmup=stan_windows(NUTS().warmup(), 100), **settings)


# What is kept


def test_what_is_kept():
    target = network()
    every = run(target, KERNELS["sghmc"](), num_chains=2, num_warmup=2, num_draws=11)
    for keep, rows in (
        (retention.Every(3), [2, 5, 8]),
        (retention.Last(4), [7, 8, 9, 10]),
        (retention.Last(99), range(11)),
        (None, range(11)),
    ):
        kept = run(target, KERNELS["sghmc"](), num_chains=2, num_warmup=2, num_draws=11, retention=keep)
        chosen = list(rows)
        np.testing.assert_array_equal(kept.positions, every.positions[:, chosen])
        for name in every.stats:
            np.testing.assert_array_equal(kept.stats[name], every.stats[name][:, chosen])
        assert kept.curve["lp"].shape == (2, 13)
        assert kept.about["num_draws"] == len(chosen)


@pytest.mark.parametrize("make", [lambda: retention.Every(0), lambda: retention.Last(-1), lambda: retention.Last(True)])
def test_keeping_nothing_is_refused(make):
    with pytest.raises(SettingError, match="must be an integer of at least 1"):
        make()
    with pytest.raises(SettingError, match="stores none of 5 draws"):
        run(network(), KERNELS["sgld"](), num_draws=5, retention=retention.Every(6))


def test_a_learning_curve_and_its_statistics():
    target = network()
    found = run(target, KERNELS["naive"](steps_per_draw=10), num_chains=2, num_warmup=4, num_draws=6)
    names = {"lp", "kinetic_temperature", "acceptance_rate", "step_size", "weight", "gradients", "nonfinite"}
    assert set(found.curve or {}) == set(found.stats) == names
    assert all(values.shape == (2, 10) for values in found.curve.values())
    np.testing.assert_array_equal(found.curve["weight"], np.repeat([[0.0] * 4 + [1.0] * 6], 2, axis=0))
    np.testing.assert_array_equal(found.curve["gradients"], 10)
    assert found.gradients == {"warmup": 80, "sampling": 120}
    assert np.all((found.curve["acceptance_rate"] >= 0) & (found.curve["acceptance_rate"] <= 1))
    assert found.is_of_minibatches
    assert set(found.seconds) == {"setup", "compile", "warmup", "sampling", "total"}
    without = run(target, KERNELS["sghmc"](), num_draws=6)
    assert "acceptance_rate" not in without.stats
    assert {"mean_kinetic_temperature", "clipped_fraction"} <= without.diagnostics().keys()
    plain = run(target, KERNELS["sgld"](), num_draws=6)
    assert set(plain.stats) == {"lp", "step_size", "weight", "gradients", "nonfinite"}
    tree = plain.to_datatree()
    assert tree["sample_stats"]["lp"].shape == (1, 6)


def test_lp_is_minus_the_mean_minibatch_potential():
    """Of an epoch at one place: minus the potential itself."""
    target = linear_regression()[0]
    found = run(target, SGLD(learning_rate=1e-12, batch_size=6), num_draws=3, init=np.ones(3))
    np.testing.assert_allclose(found.curve["lp"], -float(target.potential(jnp.ones(3))), rtol=1e-4)


@pytest.mark.parametrize("schedule", ["constant", schedules.Polynomial(scale=5.0), schedules.Cyclical(period=5)])
def test_data_of_single_precision_stay_so_where_jax_has_double(schedule):
    with jax.enable_x64(True):
        target = Target.from_terms(
            lambda q: -0.5 * jnp.sum(q**2),
            lambda q, rows: -0.5 * (rows - q[0]) ** 2,
            np.arange(8, dtype=np.float32),
            jnp.zeros(2, jnp.float32),
        )
        kernel = SGHMC(learning_rate=0.01, schedule=schedule, batch_size=4)
        assert run(target, kernel, num_draws=10).positions.dtype == np.float32


# What is refused


def test_what_is_refused():
    with pytest.raises(CapabilityError, match="`kernel` must be a kernel such as"):
        validate_target(network(), "sgld")
    with pytest.raises(SettingError, match=r"`SGLD\(batch_size=41\)` is more than the number of rows, 40"):
        run(network(), SGLD(learning_rate=0.1, batch_size=41))
    with pytest.raises(CapabilityError, match="`SGLD` needs minibatches of rows: LogDensity offers no rows of data"):
        run(gaussian_target(), SGLD(learning_rate=0.1))
    for name, value in (
        ("num_chains", 0),
        ("num_draws", 0),
        ("num_draws", True),
        ("num_warmup", -1),
        ("seed", -1),
        ("seed", 2**63),
        ("time_limit", 0.0),
    ):
        with pytest.raises(SettingError, match=f"`{name}` must be "):
            run(network(), SGLD(learning_rate=0.1, batch_size=4), **{name: value})
    with pytest.raises(SettingError, match="`thin` must be an integer of at least 1"):
        ergonet.sample(network(), SGLD(learning_rate=0.1, batch_size=4), thin=0, seed=0)
    with pytest.raises(SettingError, match="noise is estimated from the differences between the rows"):
        SGHMC(noise="estimated", batch_size=1)
    with pytest.raises(SettingError, match="`init` must have shape"):
        run(network(), SGLD(learning_rate=0.1, batch_size=4), init=np.zeros(3))


def test_a_time_limit_before_the_first_draw_is_an_error(monkeypatch):
    set_chunks(monkeypatch, 10, 0.01)
    with pytest.raises(TimeLimitError, match=r"`time_limit` was reached before"):
        run(network(), KERNELS["sgld"](), num_warmup=10**7, time_limit=0.5)


# The search for a step size


@pytest.mark.parametrize("curvature", [1.0, 1e4])
@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: SGLD(batch_size=2, steps_per_draw=10), 2.0),
        (lambda: SGHMC(momentum_decay=0.1, batch_size=2, steps_per_draw=10), 4.0 - 2 * 0.1),
        (lambda: NaiveSGHMC(batch_size=2, steps_per_draw=10), 4.0),
    ],
)
def test_the_search_finds_a_stable_step_size(make, limit, curvature):
    found = run(exact_gaussian(curvature * np.array([1.0, 0.3])), make(), num_draws=5, num_chains=2)
    chosen = found.tuning["step_size"]
    assert np.all(chosen < limit / curvature)
    assert np.all(chosen > 1e-3 * limit / curvature)


def test_the_search_wants_trees_that_are_accepted():
    """A step so long that every tree is refused leaves the chain where it is, which is stable only in name."""
    steep = exact_gaussian(np.array([1e6, 1e6]))
    found = run(steep, SGNUTS(batch_size=2, steps_per_draw=2), num_draws=5, init=np.ones(2))
    assert found.tuning["step_size"][0] < 4e-6
    assert np.all(found.curve["acceptance_rate"] > 0.1)


def test_the_search_finds_none():
    target = Target.from_terms(
        lambda q: -0.5 * jnp.sum(q**2),
        lambda q, rows: jnp.exp(jnp.exp(jnp.exp(q[0] ** 2))) * rows,
        jnp.ones(4),
        jnp.zeros(1),
    )
    with pytest.raises(StartError):
        run(target, SGLD(batch_size=2))


def test_noise_by_name():
    target = network()
    by_name = run(target, SGHMC(learning_rate=0.002, noise="estimated", batch_size=6), num_draws=4)
    same(
        by_name, run(target, SGHMC(learning_rate=0.002, noise=noise_models.EstimatedNoise(), batch_size=6), num_draws=4)
    )
