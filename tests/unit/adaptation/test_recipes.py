"""Recipes of one's own: what cannot be is refused in a sentence, and tuning ends with the average wherever it ends."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MALA, MCLMC, NUTS, RandomWalk, WindowedHMC, recipes
from ergonet._errors import SettingError
from ergonet.adaptation.learner import AbstractLearner
from ergonet.adaptation.length import LengthLearner
from ergonet.adaptation.metric import MetricLearner
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from tests.sampling import draw, gaussian_target, place_in_one_batch
from tests.stages import slow

TUNED, SETTLED = (StepSizeLearner(0.8),), (StepSizeLearner(0.8, settles=True),)
METRIC, STEP = Stage("metric", 30, (MetricLearner(), *TUNED)), Stage("step", 20, TUNED)
LENGTH = Stage("length", 30, (LengthLearner(), *TUNED))


class Lost(AbstractLearner):
    """A learner of nothing that there is."""

    learns: ClassVar[str] = "step_sise"

    def init(self, target, state, tuning):
        return ()

    def observe(self, memory, tuning, transition):
        return memory, tuning


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Stage("step", 0), r"`Stage\(num_transitions=...\)` must be an integer of at least 1, got 0"),
        (lambda: Stage("metric", 2, (MetricLearner(),)), "must be at least 3 for a `MetricLearner`, got 2"),
        (lambda: Stage("step", 9, (*TUNED, *SETTLED)), "must contain at most one learner of each kind"),
        (lambda: Stage("lost", 9, (Lost(),)), "`Lost.learns` must name a field of `Tuning`.*step_size"),
        (lambda: StepSizeLearner(0.0), r"`StepSizeLearner\(target_acceptance=...\)` must be between 0 and 1, got 0.0"),
        (lambda: StepSizeLearner(1.0), "between 0 and 1, got 1.0"),
        (lambda: Warmup((STEP, METRIC)), "end of stage 'metric', but no later stage learns `step_size`"),
        (lambda: Warmup((LENGTH, METRIC, STEP)), "no later stage learns `num_steps`.*Add one, such as `Stage"),
    ],
)
def test_an_impossible_recipe_is_refused(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()


@pytest.mark.parametrize(
    ("kernel", "other", "learner"), [(MCLMC(), HMC(), "StepSizeLearner"), (HMC(), MCLMC(), "EnergyVarianceLearner")]
)
def test_a_recipe_for_another_kind_of_kernel_is_refused(kernel, other, learner):
    recipe = recipes.step_size_only(other.warmup(), 50)
    with pytest.raises(SettingError, match=rf"`warmup` has a stage with `{learner}`, whose aim .* kernel that is"):
        draw(kernel, warmup=recipe)


def test_stages_that_learn_for_a_given_step_size_may_end_with_the_metric():
    untuned = Stage("metric", 40, (MetricLearner(),))
    assert Warmup((untuned,)).num_transitions == 40
    samples = draw(NUTS(step_size=0.3, max_doublings=5), warmup=Warmup((untuned,)))
    np.testing.assert_array_equal(samples.tuning["step_size"], np.float32(0.3))
    assert np.ptp(samples.tuning["inverse_mass_matrix"]) > 0.1


def test_a_step_size_that_no_stage_tunes_is_at_least_searched_for_the_last_metric():
    untuned = Stage("metric", 60, (MetricLearner(),))
    target = gaussian_target(np.array([0.01, 0.01, 0.02], np.float32))
    samples = draw(NUTS(max_doublings=8), target=target, warmup=Warmup((untuned,)))
    before = samples.warmup_stats["step_size"][:, 0]
    assert np.all(samples.tuning["step_size"] > 8 * before)  # the scales are the metric's now


def test_tuning_that_rests_leaves_the_average_and_goes_on_from_there():
    idle = Stage("idle", 15)
    recipe = Warmup((Stage("step", 40, TUNED), idle, Stage("step", 40, SETTLED), idle))
    samples = draw(NUTS(max_doublings=5), warmup=recipe)
    steps = samples.warmup_stats["step_size"]
    iterates, first_rest, last_rest = steps[:, 1:40], steps[:, 40:55], steps[:, -15:]
    average = 0.0
    for count, iterate in enumerate(np.log(iterates).T, start=1):
        average += count**-0.75 * (iterate - average)
    assert np.all(np.ptp(first_rest, axis=1) == 0)
    np.testing.assert_allclose(np.log(first_rest[:, 0]), average, atol=0.1)  # but for the last of the iterates
    assert np.all(np.ptp(steps[:, 55:95], axis=1) > 0)
    np.testing.assert_array_equal(last_rest, np.repeat(samples.tuning["step_size"][:, None], 15, axis=1))
    np.testing.assert_array_equal(samples.stats["step_size"][:, 0], samples.tuning["step_size"])
    assert 0.6 < samples.stats["acceptance_rate"].mean() < 0.98


@pytest.mark.parametrize(
    "make", [NUTS, ergonet.XHMC, HMC, ergonet.DelayedRejectionHMC, ergonet.MAMS, WindowedHMC, MALA, RandomWalk]
)
@pytest.mark.parametrize("aim", [0.0, 1.0])
def test_no_kernel_takes_an_acceptance_at_the_end_of_its_range(make, aim):
    with pytest.raises(SettingError, match=rf"`{make.__name__}\(target_acceptance=...\)` must be between 0 and 1"):
        make(target_acceptance=aim)


def test_the_parts_of_kernels_and_of_warmups_are_public():
    assert NUTS(criterion=ergonet.criteria.Exhaustive(0.2)).trajectory == ergonet.XHMC(0.2).trajectory
    parts = ergonet.criteria.Original(), ergonet.selections.Slice()
    assert NUTS(criterion=parts[0], selection=parts[1]) == NUTS(criterion="original", selection="slice")
    assert HMC(integrator=ergonet.integrators.Composition((0.5, 1.0, 0.5))) == HMC()
    usual = recipes.stan_windows(NUTS().warmup(), 200)
    longer = recipes.Warmup((*usual.stages, recipes.Stage("last", 100, (recipes.StepSizeLearner(0.9, settles=True),))))
    assert (longer.num_transitions, longer.target_acceptance) == (300, 0.9)
    assert {"criteria", "selections", "recipes", "integrators", "metrics"} <= set(ergonet.__all__) & set(dir(ergonet))


class RobbinsMonro(AbstractLearner):
    """log e moves by (acceptance - 0.6) / sqrt(t); every seventh transition tries half of it."""

    learns: ClassVar[str] = "step_size"
    rate: Any = 1.0

    @property
    def aim(self):
        return 0.6

    def init(self, target, state, tuning):
        return {"count": jnp.zeros_like(tuning.step_size), "log_step": jnp.log(tuning.step_size)}

    def propose(self, memory, tuning):
        tries_half = memory["count"] % 7 == 6
        step_size = jnp.exp(memory["log_step"]) * jnp.where(tries_half, 0.5, 1.0)
        return dataclasses.replace(tuning, step_size=step_size)

    def observe(self, memory, tuning, transition):
        count = memory["count"] + 1
        usual = tuning.step_size == jnp.exp(memory["log_step"])
        info: Any = transition.info
        move = jnp.where(usual, self.rate * (info.acceptance - 0.6) / jnp.sqrt(count), 0.0)
        return {"count": count, "log_step": memory["log_step"] + move}, tuning

    def finish(self, memory, tuning, ending):
        step_size = jnp.where(ending.active, jnp.exp(memory["log_step"]), tuning.step_size)
        return memory, dataclasses.replace(tuning, step_size=step_size)

    def report(self, memory):
        return {"updates": memory["count"]}


@pytest.mark.parametrize("batched", [False, slow(True)])
def test_a_new_learner_is_one_class_and_one_entry_in_a_stage(monkeypatch, batched):
    """It proposes, observes and finishes in its own stages, beside the learner of metrics, and rests while sampling."""
    if batched:
        place_in_one_batch(monkeypatch)
    stages = (
        Stage("metric", 100, (MetricLearner(), RobbinsMonro())),
        Stage("idle", 10),
        Stage("step", 250, (RobbinsMonro(rate=0.5),)),
    )
    scale = np.array([0.5, 1.0, 4.0], np.float32)
    samples = draw(NUTS(max_doublings=5), target=gaussian_target(scale), warmup=Warmup(stages), num_draws=100)
    steps = samples.warmup_stats["step_size"]
    np.testing.assert_array_equal(samples.tuning["updates"], 350)
    assert np.all(np.ptp(steps[:, 100:110], axis=1) == 0)
    assert np.all(np.ptp(steps[:, 110:], axis=1) > 0)
    np.testing.assert_array_equal(samples.stats["step_size"], np.tile(samples.tuning["step_size"][:, None], 100))
    assert samples.about["target_acceptance"] == 0.6
    assert 0.5 < samples.stats["acceptance_rate"].mean() < 0.72
    ratio = samples.tuning["inverse_mass_matrix"] / scale**2
    assert np.all((ratio > 0.3) & (ratio < 3))


def test_a_learner_of_what_the_user_has_given_does_nothing():
    samples = draw(NUTS(max_doublings=5, step_size=0.3), warmup=Warmup((Stage("step", 30, (RobbinsMonro(),)),)))
    np.testing.assert_array_equal(samples.warmup_stats["step_size"], np.float32(0.3))
    assert "updates" not in samples.tuning
    assert samples.about["target_acceptance"] is None
