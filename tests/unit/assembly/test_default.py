"""What a table gets for what its user leaves open, and what the user's own choices take with them."""

import dataclasses
import warnings

import numpy as np
import pytest

from ergonet import likelihoods, priors
from ergonet._errors import SettingError
from ergonet.assembly import build
from ergonet.assembly.default import (
    BOUNDS,
    COARSEST,
    CROSS_VALIDATION,
    FINEST,
    GROWTH,
    PLAIN_RUN,
    ROWS_PER_INPUT,
    Table,
    bounds_of,
    default_for,
)
from ergonet.assembly.likelihoods import tell_order
from ergonet.assembly.settings import Settings, resolve
from ergonet.datasets.learning import learn
from ergonet.models.likelihood import AbstractHeteroscedastic, HeteroscedasticGaussian
from ergonet.samplers.registry import KERNELS

GRADES = np.random.default_rng(0).integers(3, 9, 60).astype(float)
ROWS = np.random.default_rng(1).normal(size=60)


def fitted_to(target, **tables):
    """The completed settings of a table, and its preprocessing."""
    columns = np.reshape(target, (len(target), -1))
    names = [f"y{index}" for index in range(columns.shape[1])]
    learned = learn({"x": ROWS[: len(target)]}, columns, task="regression", target_names=names)
    return build.complete(resolve("t.csv", {}, tables), learned, learned.transform_target(columns)), learned


def bounds_in(settings, learned):
    """Floor, ceiling and reach of the likelihood, in the unit of the model."""
    likelihood = build.model(settings, build.Task.of(learned)).likelihood
    assert isinstance(likelihood, AbstractHeteroscedastic)
    return likelihood.floor, likelihood.ceiling, likelihood.reach


def run_of(settings: Settings):
    return {name: getattr(settings.run, name) for name in ("num_chains", "num_warmup", "num_draws", "warm_start")}


def test_the_floor_is_the_rounding_of_values_that_repeat_and_else_a_share_of_their_spread():
    assert bounds_of(GRADES)[0] == pytest.approx(1 / np.sqrt(12))
    assert bounds_of(GRADES / 4)[0] == pytest.approx(0.25 / np.sqrt(12))
    assert bounds_of(ROWS)[0] == pytest.approx(FINEST * ROWS.std())
    many = np.random.default_rng(2).normal(size=2000)
    with_a_pair = bounds_of(np.append(many, many[0]))[0]
    assert with_a_pair == pytest.approx(FINEST * many.std(), rel=0.01)  # one pair is no grid
    assert bounds_of(np.ones(3))[0] == FINEST
    assert bounds_of(np.zeros(0))[0] == FINEST


def test_the_ceiling_is_a_multiple_of_the_spread():
    assert bounds_of(7 * ROWS)[1] == pytest.approx(COARSEST * 7 * ROWS.std())
    assert bounds_of(np.ones(3))[1] == COARSEST


def test_locations_reach_as_far_as_the_ceiling_or_to_the_farthest_target():
    assert bounds_of(7 * ROWS)[2] == bounds_of(7 * ROWS)[1]
    assert bounds_of(np.append(np.zeros(999), -1000.0))[2] == 1000.0
    assert bounds_of(np.zeros(0))[2] == COARSEST


def test_bounds_are_recorded_in_the_unit_of_the_data_and_used_in_that_of_the_model():
    settings, learned = fitted_to(100 * GRADES)
    given = tuple(settings.likelihood[name] for name in BOUNDS)
    widest = COARSEST * 100 * GRADES.std()
    assert given == pytest.approx((100 / np.sqrt(12), widest, widest), rel=1e-4)
    assert bounds_in(settings, learned) == pytest.approx((1 / np.sqrt(12) / GRADES.std(), COARSEST, COARSEST), rel=1e-4)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_that_is_given_is_kept(bound):
    for name in ("heteroscedastic-student-t", "heteroscedastic-gaussian"):
        given = {} if name == default_for(Table("regression", 60)).likelihood["name"] else {"name": name}
        settings, learned = fitted_to(GRADES, likelihood={**given, bound: 2.0})
        assert settings.likelihood == {"name": name, bound: 2.0}
        found = dict(zip(BOUNDS, bounds_in(settings, learned), strict=True))
        assert found.pop(bound) == pytest.approx(2 / GRADES.std())
        assert set(found.values()) == {None}
    with pytest.raises(SettingError, match="above 0"):
        fitted_to(GRADES, likelihood={bound: -1.0})


def test_several_targets_have_bounds_each():
    settings, learned = fitted_to(np.column_stack([GRADES, 7 * ROWS]))
    assert settings.likelihood["floor"] == pytest.approx([1 / np.sqrt(12), FINEST * 7 * ROWS.std()], rel=1e-4)
    floor, ceiling, reach = bounds_in(settings, learned)
    np.testing.assert_allclose(floor, [1 / np.sqrt(12) / GRADES.std(), FINEST], rtol=1e-4)
    np.testing.assert_allclose([ceiling, reach], COARSEST, rtol=1e-4)
    with pytest.raises(SettingError, match="`floor` has 3 numbers, but there are 2 targets"):
        fitted_to(np.column_stack([GRADES, ROWS]), likelihood={"floor": [1.0, 1.0, 1.0]})


def test_functions_are_smoother_where_rows_are_few_for_the_inputs():
    few, enough = (default_for(Table("regression", rows, 8)).prior for rows in (8 * ROWS_PER_INPUT - 1, 400))
    assert enough == default_for(Table("regression", 10**6, 1)).prior == {"name": "normal", "scale": 1.0}
    assert few == {
        "layers.0.weight": {"name": "normal-gamma", "width": 2 / np.sqrt(8), "alpha": 1.0, "group": "input"},
        "*.weight": {"name": "normal", "scale": 0.5},
        "*.bias": {"name": "normal", "scale": 1.0},
    }


def test_all_scales_are_learned_where_the_first_layer_has_more_weights_than_rows():
    fewer, as_many = (default_for(Table("regression", rows, 8)).prior for rows in (127, 128))
    assert as_many["*.weight"] == {"name": "normal", "scale": 0.5}
    assert fewer == {
        "layers.0.weight": as_many["layers.0.weight"],
        "layers.4.weight": {"name": "normal-gamma", "width": 0.5, "alpha": 1.0, "group": "incoming"},
        "*.weight": {"name": "normal-gamma", "width": 0.5, "alpha": 1.0, "group": "leaf"},
        "*.bias": {"name": "normal", "scale": 1.0},
    }


@pytest.mark.parametrize("tables", [{}, {"network": {"bias": False}}, {"network": {"direct": True}}])
@pytest.mark.parametrize(("rows", "layers"), [(20, [0]), (15, range(5))])
def test_learned_scales_suit_the_network(tables, rows, layers):
    settings, learned = fitted_to(ROWS[:rows], **tables)
    model = build.model(settings, build.Task.of(learned))
    are_all_learned = rows == 15 and not settings.network.bias
    assert model.facts()["prior"] == ("NormalGamma" if are_all_learned else "NormalGamma and Normal")
    parts = [*[f"layers.{layer}" for layer in layers], *["direct"] * settings.network.direct]
    assert set(model.prior.own()) == {f"prior.{part}.weight.log_precision" for part in parts}
    scaled, _ = fitted_to(ROWS[:rows], **tables, prior={"scale": 2.0})
    assert scaled.prior == {"name": "normal", "scale": 2.0, "mean": 0.0}


@pytest.mark.parametrize("rows", [15, 20, 60])
def test_direct_connections_of_a_regression_have_a_scale_for_each_output(rows):
    settings, learned = fitted_to(ROWS[:rows], network={"direct": True})
    model = build.model(settings, build.Task.of(learned))
    by_path = dict(zip(model.prior.paths, model.prior.priors, strict=True))
    assert by_path["direct.weight"] == priors.NormalGamma(1.0, 1.0, "incoming")
    without, _ = fitted_to(ROWS[:rows])
    others = build.model(without, build.Task.of(learned)).prior
    assert {path: by_path[path] for path in others.paths} == dict(zip(others.paths, others.priors, strict=True))
    scaled, _ = fitted_to(ROWS[:rows], network={"direct": True}, prior={"scale": 2.0})
    assert scaled.prior == {"name": "normal", "scale": 2.0, "mean": 0.0}


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("rows", [15, 20, 60])
def test_a_prior_of_the_inputs_leaves_the_rest_of_the_default(rows, direct):
    network = {"network": {"direct": direct}}
    chosen, learned = fitted_to(ROWS[:rows], **network, prior={"inputs": {"name": "laplace"}})
    default, _ = fitted_to(ROWS[:rows], **network)
    found, others = (build.model(one, build.Task.of(learned)).prior for one in (chosen, default))
    assert found.priors[0] == priors.Laplace()
    assert found.priors[1:] == others.priors[1:]
    both, _ = fitted_to(ROWS[:rows], **network, prior={"inputs": {"name": "laplace"}, "scale": 2.0})
    found = build.model(both, build.Task.of(learned)).prior
    assert found.priors == (priors.Laplace(), *[priors.Normal(2.0)] * (len(found.priors) - 1))


def test_direct_connections_need_hidden_layers_before_the_data_are_read():
    with pytest.raises(SettingError, match="`direct` needs hidden layers"):
        build.check(Settings.from_table({"data": {"source": "t.csv"}, "network": {"hidden": [], "direct": True}}))


def test_the_whole_default_is_used_and_recorded_for_a_table_alone():
    settings, _ = fitted_to(ROWS)
    default = default_for(Table("regression", 60))
    assert (settings.network.hidden, settings.network.activation) == (default.network["hidden"], "silu")
    assert settings.prior.items() >= default.prior.items()
    assert settings.kernel.items() >= default.kernel.items()
    assert run_of(settings) == default.run


def test_many_rows_get_fewer_and_shorter_chains():
    runs = [default_for(Table("regression", rows)).run for rows in (0, 20_000, 40_000, 10**6)]
    assert [one["num_chains"] for one in runs] == [10, 10, 4, 4]
    assert [one["num_draws"] for one in runs] == [100, 50, 25, 20]
    assert [one["warm_start"]["num_transitions"] for one in runs] == [3000, 1500, 750, 30]


def test_what_is_set_wins_and_the_rest_is_the_default():
    settings, _ = fitted_to(ROWS, run={"num_draws": 7}, kernel={"num_steps": 5}, prior={"scale": 2.0})
    default = default_for(Table("regression", 60))
    assert run_of(settings) == {**default.run, "num_draws": 7}
    assert (settings.kernel["name"], settings.kernel["num_steps"]) == (default.kernel["name"], 5)
    assert (settings.prior["name"], settings.prior["scale"]) == ("normal", 2.0)
    assert settings.network.hidden == default.network["hidden"]


def test_logits_have_the_scale_of_a_prior_that_knows_the_width():
    classes = np.where(ROWS > 0, "a", "b")
    learned = learn({"x": ROWS}, classes, task="classification", target_names=["y"])
    settings = build.complete(resolve("t.csv", {}, {}), learned, learned.transform_target(classes))
    default = default_for(Table("classification", 60))
    assert settings.network.hidden == default.network["hidden"]
    assert settings.likelihood == {"name": "bernoulli", "temperature": CROSS_VALIDATION}
    assert settings.prior["layers.1.weight"] == {"name": "fan-in-normal", "scale": default.prior["scale"]}
    other = build.complete(resolve("t.csv", {}, {"prior": {"scale": 3.0}}), learned, learned.transform_target(classes))
    assert other.prior["layers.1.weight"] == {"name": "fan-in-normal", "scale": 3.0}
    by_input = {"name": "normal-gamma", "width": 1.0, "alpha": 4.0, "group": "input"}
    assert settings.prior["layers.0.weight"] == other.prior["layers.0.weight"] == by_input
    given = {"prior": {"inputs": {"name": "laplace"}}}
    other = build.complete(resolve("t.csv", {}, given), learned, learned.transform_target(classes))
    assert other.prior["layers.0.weight"] == {"name": "laplace"}
    assert other.prior["layers.1.weight"] == settings.prior["layers.1.weight"]


@pytest.mark.parametrize("task", ["classification", "count"])
@pytest.mark.parametrize(
    ("rows", "inputs", "is_slow", "is_long"),
    [
        (60, 16, True, True),
        (849, 17, False, False),
        (850, 17, True, True),
        (2777, 16, True, True),
        (2778, 16, True, False),
        (1000, 20, True, True),
        (4000, 5, True, True),
        (4001, 5, True, False),
        (4167, 4, True, True),
        (8333, 4, True, True),
        (8334, 4, True, False),
    ],
)
def test_one_layer_has_delayed_rejection_and_long_trajectories_with_few_inputs_or_many_rows_for_each(
    task, rows, inputs, is_slow, is_long
):
    """The trajectories are long only where gradients are cheap."""
    kernel = default_for(Table(task, rows, inputs)).kernel
    assert kernel["name"] == ("delayed-rejection" if is_slow else "hmc")
    assert (kernel.get("num_steps"), kernel["target_acceptance"]) == ((256, 0.95) if is_long else (None, 0.9))


@pytest.mark.parametrize(
    ("task", "rows", "inputs", "growth"),
    [
        ("classification", 1600, 16, GROWTH),
        ("count", 1500, 6, GROWTH),
        ("classification", 5000, 20, GROWTH),
        ("classification", 5001, 20, 1),
        ("classification", 849, 17, 1),
        ("classification", 850, 17, GROWTH),
        ("regression", 1600, 16, 1),
    ],
)
def test_slow_chains_of_one_layer_may_make_more_draws_unless_gradients_are_slow(task, rows, inputs, growth):
    assert default_for(Table(task, rows, inputs)).growth == growth


SOUND = {"rhat": 1.01, "ess": 400.0, "minimum": 1000}


@pytest.mark.parametrize(
    ("given", "num_draws", "until"),
    [
        ({}, 2000, SOUND),
        ({"run": {"num_chains": 8, "num_warmup": 50}}, 2000, {**SOUND, "ess": 800.0}),
        ({"run": {"num_chains": 1}}, 1000, None),  # it has no R-hat
        ({"run": {"num_draws": 7}}, 7, None),
        ({"run": {"until_ess": 50}}, 10_000, {"ess": 50.0}),
        ({"kernel": {"name": "hmc"}}, 500, None),
        ({"network": {"hidden": [8]}}, 2000, SOUND),
        ({"network": {"hidden": [8, 8]}}, 1000, None),  # whose chains may stay in different modes
        ({"kernel": {"num_steps": 8}}, 2000, SOUND),
    ],
)
def test_they_go_on_until_predictions_have_converged_unless_the_user_says_how_long(given, num_draws, until):
    run = build.choose(resolve("t.csv", {}, given), Table("classification", 60)).run
    assert (run.num_draws, run.until) == (num_draws, until)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"name": "bernoulli", "temperature": CROSS_VALIDATION}),
        ({"likelihood": {"name": "categorical"}}, {"name": "categorical", "temperature": CROSS_VALIDATION}),
        ({"likelihood": {"temperature": 2.0}}, {"name": "bernoulli", "temperature": 2.0}),
        ({"likelihood": {"label_noise": 0.1}}, {"name": "bernoulli", "label_noise": 0.1}),
        (
            {"likelihood": {"temperature": CROSS_VALIDATION}, "kernel": {"name": "nuts"}},
            {"name": "bernoulli", "temperature": CROSS_VALIDATION},
        ),
        ({"likelihood": {"name": "ordinal"}}, {"name": "ordinal"}),
        ({"kernel": {"name": "nuts"}}, {"name": "bernoulli"}),
        ({"kernel": {"num_steps": 8}}, {"name": "bernoulli", "temperature": CROSS_VALIDATION}),
    ],
)
def test_a_temperature_is_to_be_found_with_the_kernel_of_the_default(given, found):
    classes = np.where(ROWS > 0, "a", "b")
    learned = learn({"x": ROWS}, classes, task="classification", target_names=["y"])
    settings = build.complete(resolve("t.csv", {}, given), learned, learned.transform_target(classes))
    assert settings.likelihood == found


def test_inputs_far_out_are_left_to_the_task_with_the_default_network():
    assert resolve("t.csv", {}, {}).data.log_beyond is None
    assert resolve("t.csv", {}, {"network": {"hidden": [5]}}).data.log_beyond == 0
    assert resolve("t.csv", {}, {"data": {"log_beyond": 3.0}, "network": {"hidden": [5]}}).data.log_beyond == 3
    assert fitted_to(ROWS)[0].data.log_beyond == 0
    with pytest.raises(SettingError, match=r"`--log-beyond`.* must be a number of at least 0, got -1"):
        resolve("t.csv", {}, {"data": {"log_beyond": -1}})


def test_layers_bring_the_prior_that_suits_any_width():
    settings, _ = fitted_to(ROWS, network={"hidden": [5]})
    assert (settings.network.hidden, settings.network.activation) == ((5,), "tanh")
    assert settings.prior["layers.1.weight"] == {"name": "fan-in-normal", "scale": 2.0}


@pytest.mark.parametrize("name", KERNELS.names())
def test_a_kernel_brings_a_plain_run(name):
    settings, _ = fitted_to(ROWS, kernel={"name": name}, run={"num_draws": 7})
    assert run_of(settings) == {**PLAIN_RUN, "num_draws": 7, "warm_start": None}
    own, _ = fitted_to(ROWS, kernel={"name": name}, run={"warm_start": "adam"})
    assert own.run.warm_start == "adam"


def test_a_warm_start_can_be_left_out():
    assert fitted_to(ROWS, run={"warm_start": "none"})[0].run.warm_start is None
    build.check(resolve("t.csv", {}, {"run": {"warm_start": "none"}}))


def test_known_noise_is_that_of_the_plain_likelihood():
    assert fitted_to(ROWS, likelihood={"noise": 0.5})[0].likelihood == {"name": "gaussian", "noise": 0.5}


def test_a_choice_made_in_python_stays_as_it_is():
    made, kernel = HeteroscedasticGaussian(), KERNELS.make("mala")
    given = dataclasses.replace(resolve("t.csv", {}, {}), likelihood=made, kernel=kernel)
    found = build.choose(given, Table("regression", 60, bounds=((0.1, 10.0, 10.0),)))
    assert (found.likelihood, found.kernel) == (made, kernel)


@pytest.mark.parametrize("choice", ["ordinal", {"name": "ordinal"}, likelihoods.Ordinal()])
def test_the_order_of_classes_that_are_texts_is_told(choice):
    with pytest.warns(UserWarning, match="in the order of their texts: 'high' < 'low' < 'middle'"):
        tell_order(choice, ["high", "low", "middle"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_order(choice, [1, 2, 3])
        tell_order("categorical", ["high", "low"])
