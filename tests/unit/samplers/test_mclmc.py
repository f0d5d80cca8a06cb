"""Microcanonical Langevin dynamics without a Metropolis correction: its bias, its learners, and what it refuses."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import MAMS, MCLMC, MLP, BayesianNetwork, Target, likelihoods, priors, stream
from ergonet._errors import CapabilityError, SettingError
from ergonet.adaptation import energy_variance, memory
from ergonet.adaptation.initial_step import find_first_step
from ergonet.adaptation.learner import Transition
from ergonet.adaptation.recipes import EnergyVarianceLearner, stan_windows
from ergonet.diagnostics.advice import advise
from ergonet.samplers.base import run_transition
from ergonet.samplers.mclmc import DirectedState, MCLMCInfo
from tests.sampling import draw, gaussian_target, place_in_one_batch

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")


def test_a_run_learns_its_step_size_and_memory_and_says_that_it_is_biased():
    samples = draw(MCLMC(num_steps=4), num_warmup=200)
    assert "acceptance_rate" not in samples.stats
    assert samples.about["is_corrected"] is False
    assert samples.about["target_acceptance"] is None
    found = samples.diagnostics()
    assert 2e-4 < found["energy_variance"] < 2e-3
    assert np.all(samples.tuning["memory"] != np.float32(np.sqrt(5)))
    assert any("biased by the step size" in one for one in advise({"diagnostics": samples.diagnostics()}))
    assert not any("acceptance" in one for one in advise({"diagnostics": samples.diagnostics()}))
    assert found["mean_gradients_per_draw"] == 4


@pytest.mark.parametrize("make", [MCLMC, MAMS])
def test_one_dimension_is_refused_before_any_work(make, monkeypatch):
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(1))
    monkeypatch.setattr(type(target), "initial_position", None)
    with pytest.raises(CapabilityError, match=f"`{make.__name__}` needs a target of at least 2 dimensions"):
        draw(make(), target=target)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"num_steps": 0}, r"`MCLMC\(num_steps=...\)` must be an integer of at least 1"),
        ({"memory": 0.0}, r"`MCLMC\(memory=...\)` must be a finite number above 0"),
        ({"energy_variance": -1.0}, r"`MCLMC\(energy_variance=...\)`"),
        ({"first_energy_variance": 0.0}, r"`MCLMC\(first_energy_variance=...\)`"),
        ({"step_size": -1.0}, r"`MCLMC\(step_size=...\)`"),
        ({"metric": "diag"}, r"`MCLMC\(metric='diag'\)` is not known"),
    ],
)
def test_settings_out_of_range_are_refused(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        MCLMC(**settings)


def test_a_schedule_changes_geometrically_over_all_stages():
    stages = stan_windows(MCLMC(first_energy_variance=0.5, energy_variance=0.001).warmup(), 300).stages
    learners = [one for stage in stages for one in stage.learners if isinstance(one, EnergyVarianceLearner)]
    assert len(learners) == len(stages)
    assert learners[0].energy_variance == 0.5
    for stage, one, after in zip(stages, learners, learners[1:], strict=False):
        np.testing.assert_allclose(one.energy_variance * one.factor**stage.num_transitions, after.energy_variance)
    np.testing.assert_allclose(learners[-1].energy_variance * learners[-1].factor ** stages[-1].num_transitions, 0.001)
    assert not stan_windows(MCLMC(first_energy_variance=0.5).warmup(), 0).stages


def test_the_step_size_has_the_energy_errors_that_are_aimed_at():
    """Errors r = c e^6 of a known constant give e = (v / c)^(1/6), from any start."""
    errors, log_step = energy_variance.blank(jnp.asarray(1.0)), jnp.log(jnp.asarray(1e-2))
    variance = jnp.asarray(jnp.nan)
    yes, no = jnp.asarray(True), jnp.asarray(False)
    for _ in range(100):  # the first were far away, and are forgotten
        variance = 0.03 * jnp.exp(6 * log_step)
        errors, log_step = energy_variance.update(
            errors, log_step, variance, aim=jnp.asarray(5e-4), num_steps=jnp.asarray(8.0), nonfinite=no, is_known=yes
        )
    np.testing.assert_allclose(jnp.exp(log_step), (5e-4 / 0.03) ** (1 / 6), rtol=1e-3)
    capped, lower = energy_variance.update(
        errors, log_step, variance, aim=jnp.asarray(5e-4), num_steps=jnp.asarray(8.0), nonfinite=yes, is_known=yes
    )
    np.testing.assert_allclose(lower - log_step, np.log(0.8), rtol=1e-5)
    np.testing.assert_allclose(capped.log_limit, lower)


def test_the_autocorrelation_time_is_that_of_an_autoregression():
    rng, share = np.random.default_rng(0), 0.8
    values, sums = np.zeros(40), memory.blank(jnp.zeros(40))

    def observe(sums, values):
        return memory.observe(sums, values), None

    rows = []
    for _ in range(4000):
        values = share * values + rng.normal(size=40)
        rows.append(values)
    sums, _ = jax.lax.scan(observe, sums, jnp.asarray(np.stack(rows), jnp.float32))
    np.testing.assert_allclose(memory.autocorrelation_time(sums), (1 + share) / (1 - share), rtol=0.15)


def test_a_step_that_is_not_finite_is_undone_and_the_chain_goes_on():
    target = Target.from_logdensity(lambda q: jnp.where(jnp.sum(q**2) < 4, -0.5 * jnp.sum(q**2), jnp.nan), jnp.ones(3))
    kernel = MCLMC(num_steps=3, step_size=50.0, metric="identity")
    state = kernel.init(target, jnp.ones(3))
    tuning = kernel.tuning(target, jnp.ones(3))
    move = jax.jit(lambda state, tuning: run_transition(kernel, jax.random.key(0), target, state, tuning))
    after, info = move(state, tuning)
    np.testing.assert_array_equal(after.position, state.position)
    assert bool(info.nonfinite)
    assert bool(info.diverging)
    assert not bool(info.moved)
    np.testing.assert_allclose(jnp.linalg.norm(after.direction), 1, rtol=1e-5)
    moved, info = move(after, replace(tuning, step_size=jnp.full_like(tuning.step_size, 0.01)))
    assert bool(info.moved)
    np.testing.assert_allclose(jnp.linalg.norm(moved.direction), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("dim", "start", "step_size"), [(3000, 0.3, 100.0), (3000, 1.0, 100.0)], ids=["gains energy", "loses energy"]
)
def test_a_step_far_off_in_energy_is_undone_and_tells_the_learner(dim, start, step_size):
    target = Target.from_logdensity(lambda q: -5.0 * jnp.sum(q**2), jnp.ones(dim))
    kernel = MCLMC(num_steps=1, step_size=step_size, metric="identity")
    state, tuning = kernel.init(target, jnp.full(dim, start)), kernel.tuning(target, jnp.ones(dim))
    after, info = run_transition(kernel, jax.random.key(0), target, state, tuning)
    assert isinstance(info, MCLMCInfo)
    np.testing.assert_array_equal(after.position, state.position)
    assert bool(info.diverging)
    assert not bool(info.nonfinite)
    assert not bool(info.moved)
    np.testing.assert_allclose(info.energy_variance, 1000.0**2 / dim, rtol=1e-5)
    learner = EnergyVarianceLearner(5e-4)
    _, lower = learner.observe(learner.init(target, state, tuning), tuning, Transition(target, state, after, info))
    assert lower.step_size < 0.2 * tuning.step_size


@pytest.mark.parametrize("kernel", [MCLMC(metric="identity"), MAMS(metric="identity")], ids=["mclmc", "mams"])
def test_the_first_step_size_neither_gains_nor_loses_energy(kernel):
    """Away from the mode, a step of any size loses energy, and a search by acceptance would go on doubling."""
    target = Target.from_logdensity(lambda q: -5.0 * jnp.sum(q**2), jnp.ones(50))
    state, tuning = kernel.init(target, jnp.ones(50)), kernel.tuning(target, jnp.ones(50))
    assert find_first_step(kernel, jax.random.key(3), target, state, tuning) < 1.0


def test_a_failed_step_turns_back():
    target = Target.from_logdensity(lambda q: jnp.where(jnp.sum(q**2) < 4, 0.0, jnp.nan), jnp.ones(3))
    kernel = MCLMC(num_steps=1, step_size=50.0, memory=1e9, metric="identity")
    begun = kernel.init(target, jnp.ones(3))
    assert isinstance(begun, DirectedState)
    state = replace(begun, direction=jnp.asarray([0.6, 0.0, 0.8]))
    after, _ = run_transition(kernel, jax.random.key(0), target, state, kernel.tuning(target, jnp.ones(3)))
    assert isinstance(after, DirectedState)
    np.testing.assert_allclose(after.direction, -state.direction, atol=1e-2)


@pytest.mark.parametrize("num_steps", [3, 6, 16])
def test_a_direction_decorrelates_in_its_memory_however_often_it_is_refreshed(num_steps):
    """Without a force, the cosine after a time t is exp(-t / L); it is refreshed for four steps at once."""
    dim, step, memory = 4000, 0.5, 4.0
    target = Target.from_logdensity(lambda q: 0.0 * jnp.sum(q), jnp.zeros(dim))
    kernel = MCLMC(num_steps=num_steps, step_size=step, memory=memory, metric="identity")
    state = replace(kernel.init(target, jnp.zeros(dim)), direction=jnp.zeros(dim).at[0].set(1.0))
    after, _ = run_transition(kernel, jax.random.key(1), target, state, kernel.tuning(target, jnp.zeros(dim)))
    assert isinstance(after, DirectedState)
    np.testing.assert_allclose(after.direction[0], np.exp(-num_steps * step / memory), atol=4 / np.sqrt(dim))


@pytest.mark.slow
def test_a_run_is_continued_bit_for_bit_and_thinned(tmp_path):
    kernel = MCLMC(num_steps=4)
    whole = draw(kernel, num_draws=30, store=tmp_path / "whole")
    draw(kernel, num_draws=10, store=tmp_path / "part")
    continued = draw(kernel, num_draws=30, store=tmp_path / "part", resume=True)
    np.testing.assert_array_equal(whole.positions, continued.positions)
    thinned = draw(kernel, num_draws=15, thin=2)
    np.testing.assert_array_equal(whole.positions[:, 1::2], thinned.positions)


@pytest.mark.slow
def test_vmapped_chains_are_those_of_single_chains(monkeypatch):
    kernel = MCLMC(num_steps=4, step_size=0.5, memory=2.0, metric="identity")
    alone = draw(kernel, num_draws=5, num_warmup=0)
    place_in_one_batch(monkeypatch)
    np.testing.assert_allclose(draw(kernel, num_draws=5, num_warmup=0).positions, alone.positions, atol=1e-4)


def ratio_of_variance(step_size, num_draws=2000):
    """Measured over true variance of a standard normal density of 20 dimensions, and its standard error."""
    target = gaussian_target(np.ones(20))
    kernel = MCLMC(num_steps=12, step_size=step_size, memory=np.sqrt(20), metric="identity")
    samples = ergonet.sample(target, kernel, num_chains=4, num_warmup=50, num_draws=num_draws, seed=3, progress=False)
    squares = np.asarray(samples.positions, np.float64) ** 2
    blocks = squares.mean(axis=2).reshape(4 * 20, -1).mean(axis=1)
    return squares.mean(), blocks.std(ddof=1) / np.sqrt(blocks.size), samples.diagnostics()["energy_variance"]


@pytest.mark.statistical
@pytest.mark.parametrize("step_size", [2.0, 4.0])
def test_the_bias_on_a_normal_density_is_that_of_theory(step_size):
    """Backward error analysis of leapfrog: the steps sample e^-(U - e^2 |grad U|^2 / (24 (D - 1))), to order e^2."""
    found, error, variance = ratio_of_variance(step_size)
    assert abs(found - 1 / (1 - step_size**2 / (12 * 19))) < 4 * error
    assert found > 1 + 3 * error
    assert 1e-5 < variance < 1e-2


@pytest.mark.parametrize("kind", [MCLMC, MAMS])
def test_streamed_rows_are_refused_with_the_reason_and_what_to_use(kind):
    model = BayesianNetwork(MLP((2, 3, 1)), priors.Normal(), likelihoods.Gaussian(noise=0.3))
    streamed = stream(model, np.ones((9, 2), np.float32), np.ones(9, np.float32))
    said = rf"`{kind.__name__}` needs all rows.*noise of a minibatch gradient is an error of the energy.*Use `SGHMC"
    with pytest.raises(CapabilityError, match=said):
        ergonet.sample(streamed, kind(), seed=0, progress=False)
