"""Recipes of one's own: what cannot be is refused in a sentence, and tuning ends with the average wherever it ends."""

import numpy as np
import pytest

import ergonet
from ergonet import HMC, MALA, NUTS, RandomWalk, WindowedHMC, recipes
from ergonet._errors import SettingError
from ergonet.adaptation.warmup import Stage, Warmup
from tests.sampling import draw, gaussian_target

METRIC, STEP = Stage("metric", 30, learn_metric=True), Stage("step", 20)
LENGTH = Stage("length", 30, tune_length=True)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Stage("step", 0), r"`Stage\(num_transitions=...\)` must be an integer of at least 1, got 0"),
        (lambda: Stage("metric", 2, learn_metric=True), "must be at least 3 where a metric is learned, got 2"),
        (lambda: Warmup((STEP,), 0.0), r"`Warmup\(target_acceptance=...\)` must be between 0 and 1, got 0.0"),
        (lambda: Warmup((STEP,), 1.0), "between 0 and 1, got 1.0"),
        (lambda: Warmup((STEP, METRIC), 0.8), "end of stage 'metric', and no stage after it has `tune_step_size`"),
        (lambda: Warmup((LENGTH, METRIC, STEP), 0.8), "no stage after it has `tune_length`.*Add one, such as `Stage"),
    ],
)
def test_an_impossible_recipe_is_refused(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()


def test_stages_that_learn_for_a_given_step_size_may_end_with_the_metric():
    untuned = Stage("metric", 40, tune_step_size=False, learn_metric=True)
    assert Warmup((untuned,), 0.8).num_transitions == 40
    samples = draw(NUTS(step_size=0.3, max_doublings=5), warmup=Warmup((untuned,), 0.8))
    np.testing.assert_array_equal(samples.tuning["step_size"], np.float32(0.3))
    assert np.ptp(samples.tuning["inverse_mass_matrix"]) > 0.1


def test_a_step_size_that_no_stage_tunes_is_at_least_searched_for_the_last_metric():
    untuned = Stage("metric", 60, tune_step_size=False, learn_metric=True)
    target = gaussian_target(np.array([0.01, 0.01, 0.02], np.float32))
    samples = draw(NUTS(max_doublings=8), target=target, warmup=Warmup((untuned,), 0.8))
    before = samples.warmup_stats["step_size"][:, 0]
    assert np.all(samples.tuning["step_size"] > 8 * before)  # the scales are the metric's now


def test_tuning_that_rests_leaves_the_average_and_goes_on_from_there():
    idle = Stage("idle", 15, tune_step_size=False)
    recipe = Warmup((Stage("step", 40), idle, Stage("step", 40, settle=True), idle), 0.8)
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


@pytest.mark.parametrize("make", [NUTS, ergonet.XHMC, HMC, WindowedHMC, MALA, RandomWalk])
@pytest.mark.parametrize("aim", [0.0, 1.0])
def test_no_kernel_takes_an_acceptance_at_the_end_of_its_range(make, aim):
    with pytest.raises(SettingError, match=rf"`{make.__name__}\(target_acceptance=...\)` must be between 0 and 1"):
        make(target_acceptance=aim)


def test_the_parts_of_kernels_and_of_warmups_are_public():
    assert NUTS(criterion=ergonet.criteria.Exhaustive(0.2)) == ergonet.XHMC(0.2)
    parts = ergonet.criteria.Original(), ergonet.selections.Slice()
    assert NUTS(criterion=parts[0], selection=parts[1]) == NUTS(criterion="original", selection="slice")
    assert HMC(integrator=ergonet.integrators.Composition((0.5, 1.0, 0.5))) == HMC()
    usual = recipes.stan_windows(NUTS().warmup(), 200)
    longer = Warmup((*usual.stages, Stage("last step size", 100, settle=True)), usual.target_acceptance)
    assert longer.num_transitions == 300
    assert {"criteria", "selections", "recipes", "integrators"} <= set(ergonet.__all__) & set(dir(ergonet))
