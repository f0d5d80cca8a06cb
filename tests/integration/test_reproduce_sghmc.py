"""The parts of the reproductions of ChenReport that figures rest on: claims by rule and the bookkeeping of curves."""

import math

import numpy as np
import pytest

from ergonet.prediction.predictive import Prediction
from experiments.chen2014 import convolutions, curves, images, mnist, nuts, outside, steps, toy, variational
from experiments.record import Table
from experiments.sizes import SIZES


def table_of(values):
    """A table from `{label: {quantity name: values over seeds}}`."""
    return Table(values, {})


def test_sizes_of_runs():
    full = images.Epochs(50, 800)
    assert full.of(SIZES["full"]) == full
    assert full.of(SIZES["quick"]) == images.Epochs(5, 80)
    smoke = full.of(SIZES["smoke"])
    assert smoke.warmup < smoke.total
    assert images.Epochs(0, 5).of(SIZES["quick"]).warmup == 1  # an average has a warm-up, and something after it


@pytest.mark.parametrize("total", [1, 5, 80, 800])
def test_a_learning_curve_goes_from_the_first_epoch_to_the_last(total):
    points = images.Epochs(0, total).points
    assert (points[0], points[-1]) == (1, total)
    assert points == sorted(set(points))
    assert all(isinstance(one, int) for one in points)


def test_the_points_of_a_curve_are_in_order_of_epochs_and_without_gaps():
    names = {images.average_after(epoch): [value] for epoch, value in {10: 3.0, 9: 4.0, 1: math.nan, 100: 2.0}.items()}
    other = {images.network_after(9): [50.0]}
    epochs, means = curves.points(table_of({"row": names | other}), "row", images.average_after)
    assert epochs.tolist() == [9, 10, 100]
    assert means.tolist() == [4.0, 3.0, 2.0]


@pytest.mark.slow
def test_a_run_reports_its_curve_and_its_scores_at_the_right_epochs():
    epochs = images.Epochs(2, 5, 50)
    kernel = mnist.methods(2e-6, 4e-5, 1e-5, 1e-6)[mnist.HMC](epochs.batch_size)
    found, result = images.learn(kernel, images.problem("mnist", "smoke"), epochs, 0)
    networks = 100 * result.curve["error of the draw"][0]
    assert [found[images.network_after(epoch)] for epoch in epochs.points] == pytest.approx(
        [networks[epoch - 1] for epoch in epochs.points]
    )
    assert math.isnan(found[images.average_after(2)])  # nothing is averaged in the warm-up
    assert found[images.average_after(3)] == pytest.approx(networks[2])  # an average of one network
    assert found[images.ERROR.name] == found[images.average_after(5)]
    assert found[images.LAST.name] == found[images.network_after(5)]


def mnist_table(errors, *, nll=((0.1, 0.11), (0.2, 0.21))):
    labels = (mnist.HMC, mnist.LANGEVIN, mnist.DESCENT, mnist.MOMENTUM)
    rows = {label: {mnist.quantity(label).name: [error, error]} for label, error in zip(labels, errors, strict=True)}
    for label, values in zip((mnist.HMC, mnist.MOMENTUM), nll, strict=True):
        rows[label][images.NLL.name] = list(values)
    return table_of(rows)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [((2.0, 4.0, 4.0, 3.0), [True, True, True]), ((2.6, 4.0, 4.0, 3.0), [True, False, True])],
)
def test_claims_on_mnist(errors, expected):
    assert [claim.survives for claim in mnist.judge(2.5, mnist_table(errors))] == expected


def test_on_mnist_an_optimizer_is_judged_by_its_last_network():
    assert mnist.judge(2.5, mnist_table((2.0, 4.0, 4.0, 1.5)))[0].survives is False
    reversed_nll = mnist_table((2.0, 4.0, 4.0, 3.0), nll=((0.2, 0.21), (0.1, 0.11)))
    assert mnist.judge(2.5, reversed_nll)[2].survives is False


def test_as_many_draws_are_fewer_epochs_where_a_draw_has_fewer_steps():
    assert [steps.epoch_of_draws(count, 200) for count in (1, 3, 5)] == [40, 120, 200]
    errors = np.linspace(1.0, 0.01, 200)
    found = steps.speeds(errors, steps.Pace(3, 1 / 3))
    assert found[steps.BY_DRAWS.name] == pytest.approx(100 * errors[119])
    assert found[steps.SLOWNESS.name] == pytest.approx(50.5)
    assert steps.BY_DRAWS.name not in steps.speeds(errors, steps.Pace(0, 1.0))


def test_the_product_of_step_size_and_steps_is_fixed():
    kernels = [steps.PACES[steps.fixed(count)].kernel(500) for count in steps.STEPS]
    products = [kernel.resample_every * kernel.learning_rate**0.5 for kernel in kernels]
    assert products == pytest.approx([2e-6**0.5] * 3)
    assert [steps.PACES[steps.longer(count)].kernel(500).learning_rate for count in (3, 5)] == pytest.approx([2e-6] * 2)


def steps_table(fixed, longer):
    rows = {steps.fixed(count): value for count, value in zip(steps.STEPS, fixed, strict=True)}
    rows |= {steps.longer(count): value for count, value in zip(steps.STEPS[1:], longer, strict=True)}
    return table_of(
        {
            label: {one.name: [value, value + 0.01] for one in (steps.SLOWNESS, steps.BY_DRAWS)}
            for label, value in rows.items()
        }
    )


def test_more_steps_learn_faster_only_where_every_step_more_does():
    def judged(fixed, longer):
        return [claim.survives for claim in steps.judge(steps_table(fixed, longer))]

    assert judged((9.0, 8.0, 7.0), (8.0, 7.0)) == [True, True, True]
    assert judged((7.0, 8.0, 9.0), (6.0, 5.0)) == [False, False, True]
    assert judged((9.0, 8.0, 8.001), (8.0, 7.0)) == [False, False, True]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ({1: 20.0, 2: 5.0, 4: 2.1, 8: 2.0}, 4),
        ({1: 2.1, 2: 5.0, 4: 2.1, 8: 2.0}, 4),  # it left once more
        ({1: 20.0, 8: 2.0}, 8),
        ({1: 1.0, 2: 2.0}, 1),
        ({}, math.nan),
    ],
)
def test_an_error_has_settled_where_it_stays(curve, expected):
    assert variational.settled(curve) == pytest.approx(expected, nan_ok=True)


def variational_table(ours, theirs):
    """From (error, epochs, seconds of an epoch) of SGHMC and of the fit."""

    def row(error, epochs, pace):
        return {
            variational.ERROR.name: [error, error + 0.01],
            variational.SETTLED.name: [epochs, epochs],
            variational.SETTLED_SECONDS.name: [pace * epochs, pace * epochs],
            variational.NLL.name: [0.1, 0.1],
            images.average_after(10): [error, error],
        }

    return table_of({variational.HMC: row(*ours), variational.VARIATIONAL: row(*theirs)})


def test_variational_inference_is_judged_by_its_error_and_by_its_speed():
    def judged(*rows):
        return [claim.survives for claim in variational.judge(variational_table(*rows))]

    assert judged((2.0, 100, 1.0), (3.0, 20, 1.0)) == [True, True, True]
    assert judged((2.0, 100, 1.0), (3.0, 20, 6.0)) == [True, True, False]
    assert judged((3.0, 20, 1.0), (2.0, 100, 1.0)) == [False, False, False]
    assert "not ahead" in variational.judge(variational_table((3.0, 20, 1.0), (2.0, 100, 1.0)))[0].because


def prediction_of(probabilities):
    """Of one network."""
    mean = np.asarray(probabilities)
    entropy = -np.sum(mean * np.log(mean), axis=1)
    return Prediction(
        mean=mean,
        sd=None,
        noise_sd=None,
        function_sd=np.zeros_like(mean),
        levels=(),
        quantiles=None,
        log_density=np.arange(len(mean), dtype=float),
        entropy=entropy,
        expected_entropy=0.5 * entropy,
    )


SURE, UNSURE = [0.98, 0.01, 0.01], [0.4, 0.3, 0.3]


def test_a_prediction_is_cut_into_its_groups():
    whole = prediction_of([SURE, UNSURE, SURE, UNSURE])
    part = outside.rows_of(whole, slice(1, 3))
    np.testing.assert_array_equal(part.mean, whole.mean[1:3])
    np.testing.assert_array_equal(part.log_density, [1.0, 2.0])
    np.testing.assert_array_equal(part.mutual_information, whole.mutual_information[1:3])
    assert part.sd is None


def test_figures_of_other_images():
    found = {
        outside.INSIDE: prediction_of([SURE, SURE, SURE, UNSURE]),
        outside.OTHERS: prediction_of([UNSURE, UNSURE, UNSURE, SURE]),
        outside.NOISE: prediction_of([UNSURE] * 4),
    }
    inside = outside.scores(found, outside.INSIDE, np.array([0, 0, 1, 0]))
    assert inside[outside.ERROR.name] == 25.0
    assert inside[outside.SURE.name] == 75.0
    assert outside.AUROC.name not in inside
    other = outside.scores(found, outside.OTHERS, np.array([0, 0, 1, 0]))
    assert other[outside.AUROC.name] == pytest.approx(0.75)  # (9 wins + 6 ties / 2) / 16
    assert other[outside.SURE.name] == 25.0
    assert outside.ERROR.name not in other
    parts = other[outside.ALEATORIC.name] + other[outside.EPISTEMIC.name]
    assert other[outside.ENTROPY.name] == pytest.approx(parts)


def outside_table(auroc, sure, inside):
    rows = {}
    for method, share in ((outside.HMC, sure), (outside.FAR, sure), (outside.POINT, 2 * sure)):
        rows[outside.label(method, outside.INSIDE)] = {outside.SURE.name: [inside]}
        for group in outside.GROUPS[1:]:
            rows[outside.label(method, group)] = {outside.SURE.name: [share], outside.AUROC.name: [auroc]}
    return table_of(rows)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ((0.95, 5.0, 90.0), [True, True, True, True]),
        ((0.85, 5.0, 90.0), [False, True, True, True]),
        ((0.95, 15.0, 40.0), [True, False, True, False]),
        ((0.95, 0.0, 90.0), [True, True, False, True]),  # no fewer than none
    ],
)
def test_not_being_over_confident_is_judged_by_levels(figures, expected):
    assert [claim.survives for claim in outside.judge(outside_table(*figures))] == expected


def nuts_table(figures):
    """From `{(method, warmup): (accuracy, gradients)}`; the rest has learned nothing at great cost."""
    rows = {}
    for plan in nuts.PLANS:
        accuracy, gradients = figures.get((plan.method, plan.warmup), (0.1, 1e6))
        rows[plan.label] = {
            nuts.ACCURACY.name: [accuracy, accuracy + 1e-4],
            nuts.GRADIENTS.name: [gradients],
            nuts.TIME.name: [gradients / 100],
        }
    return table_of(rows)


def test_a_row_is_beaten_by_one_that_is_as_good_and_no_dearer():
    both = {(nuts.BOTH, 1): (0.9, 1000), (nuts.BOTH, 2): (0.92, 1100), (nuts.BOTH, 5): (0.95, 2000)}
    chain = {(nuts.SMALL_CHAIN, 5): (0.91, 1000), (nuts.SMALL_CHAIN, 10): (0.96, 2500)}
    found = nuts.beaten(nuts_table(both | chain), nuts.BOTH, by=nuts.SMALL_CHAIN)
    assert [plan.warmup for plan in found] == [1]


def test_claims_on_trees():
    figures = {
        (nuts.TREES, 0): (0.3, 100),
        (nuts.CHAIN, 0): (0.8, 100),
        (nuts.CHAIN, 25): (0.95, 5000),
        (nuts.SMALL_TREES, 0): (0.9, 2000),
        (nuts.SMALL_CHAIN, 0): (0.7, 100),
        (nuts.BOTH, 1): (0.95, 2100),
        (nuts.BOTH, 2): (0.96, 2200),
        (nuts.BOTH, 5): (0.97, 2300),
    }
    assert [claim.survives for claim in nuts.judge(nuts_table(figures))] == [False, True, True, True, True]
    figures[nuts.CHAIN, 1] = (0.92, 200)  # SGHMC is there with a tenth of the gradients
    assert [claim.survives for claim in nuts.judge(nuts_table(figures))] == [False, True, False, True, True]
    figures[nuts.SMALL_CHAIN, 1] = (0.98, 200)
    assert [claim.survives for claim in nuts.judge(nuts_table(figures))] == [False, True, False, False, False]


def test_the_figures_of_the_document_stand_at_their_rows():
    sources = {plan.label: plan.source for plan in nuts.PLANS}
    assert sources["SGHMC, 25 warm-up"] == {nuts.ACCURACY.name: 0.8866, nuts.TIME.name: 50.2}
    assert sources["SG-NUTS, 0 warm-up"] == {nuts.ACCURACY.name: 0.8715, nuts.TIME.name: 28.3}
    assert sources["SG-NUTS, small start, 0 warm-up"] == {}
    assert sum(bool(one) for one in sources.values()) == 9


def test_the_second_kernel_begins_after_one_epoch_of_trees():
    kernel = nuts.Plan(nuts.BOTH, 1).kernel("full", 500, 120)
    assert kernel.after == 120
    assert (kernel.first.learning_rate, kernel.second.learning_rate) == (2e-7, 2e-6)


def test_fewer_rows_take_a_larger_learning_rate():
    assert convolutions.rate(convolutions.CHOICES[convolutions.GROUP], 10_000) == 1e-6
    assert convolutions.rate(convolutions.CHOICES[convolutions.FASTER], 10_000) == pytest.approx(5e-6)


@pytest.mark.parametrize(("errors", "expected"), [((60.0, 61.0), True), ((85.0, 86.0), False), ((40.0, 90.0), False)])
def test_a_network_has_learned_where_its_error_is_well_below_chance(errors, expected):
    row = {images.ERROR.name: list(errors), images.TEMPERATURE.name: [1.0, 1.0]}
    (claim,) = convolutions.judge(table_of({convolutions.GROUP: row}))
    assert claim.survives is expected


def test_batch_statistics_are_of_the_minibatch_in_the_target_and_of_fixed_rows_in_predictions():
    of = convolutions.problem("batch", "smoke")
    assert of.target.model.network.rows_interact
    assert not of.model.network.rows_interact
    assert of.model.dim == of.target.dim


def test_the_distance_of_independent_draws_is_what_finite_draws_have():
    shares = toy.masses("bowl")
    assert shares.sum() == pytest.approx(1.0)
    counts = np.random.default_rng(1).multinomial(2000, shares, 100)
    found = toy.distance(counts, shares)
    expected = toy.distance_of_independent(shares, 2000)
    assert abs(found.mean() - expected) < 4 * found.std() / math.sqrt(50)  # both are means over simulations
    assert toy.distance(2000 * shares, shares) == pytest.approx(0.0, abs=1e-9)
    assert toy.distance_of_independent(shares, 8000) == pytest.approx(expected / 2, rel=0.1)


def toy_table(excess, *, finite=1.0):
    rows = {}
    for name in toy.POTENTIALS:
        for method, value in excess.items():
            rows[toy.label(name, method)] = {
                toy.DISTANCE.name: [value + finite],
                toy.EXCESS.name: [value],
                toy.VARIANCE.name: [1.003, 1.003],
            }
    return table_of(rows)


def test_naive_draws_are_wrong_where_they_are_twice_as_far_off_as_all_others():
    def judged(excess, **options):
        return [claim.survives for claim in toy.judge(toy_table(excess, **options))]

    others = dict.fromkeys(toy.METHODS, 1.0)
    # 1.003 is the variance with the noise model, not without
    assert judged(others | {toy.NAIVE: 10.0}) == [True, True, True, False]
    worse = others | {toy.NAIVE: 10.0, toy.NAIVE_TESTED: 6.0}
    assert judged(worse)[:2] == [False, False]
    assert judged(worse, finite=8.0)[:2] == [None, None]  # too few draws to tell
