"""Names become models and kernels; what is not known is refused with the nearest names."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from ergonet import priors
from ergonet._errors import SettingError
from ergonet.cli import build
from ergonet.cli.settings import read_settings_file, resolve
from ergonet.cli.toml import to_toml
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.models import likelihood, registry
from ergonet.models.network import MLP
from ergonet.samplers import registry as kernels
from ergonet.samplers.dynamical import DynamicalA, DynamicalB
from ergonet.samplers.gibbs_hmc import GibbsHMC
from ergonet.samplers.hmc import HMC
from ergonet.samplers.mala import MALA
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.random_walk import RandomWalk
from ergonet.samplers.stochastic import noise_model as noise_models
from ergonet.samplers.stochastic import schedule as schedules
from ergonet.samplers.stochastic.naive_sghmc import NaiveSGHMC
from ergonet.samplers.stochastic.sg_nuts import SGNUTS
from ergonet.samplers.stochastic.sghmc import SGHMC
from ergonet.samplers.stochastic.sgld import SGLD
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.samplers.xhmc import XHMC
from ergonet.trajectory import criterion as criteria


def preprocessing(classes=(), targets=("price",)):
    count = 0 if classes else len(targets)
    return Preprocessing(
        task="classification" if classes else "regression",
        feature_names=("a", "b", "c"),
        target_names=targets,
        categories={"c": ("x", "y")},
        dropped=("b",),
        feature_mean=np.zeros(3),
        feature_sd=np.ones(3),
        target_mean=np.zeros(count),
        target_sd=np.full(count, 4.0),
        classes=classes,
    )


def completed(options, data=None):
    data = preprocessing() if data is None else data
    return build.complete(resolve("table.csv", {}, options), data), data


@pytest.mark.parametrize("name", registry.likelihood_names())
def test_likelihoods_by_name_know_their_task(name):
    made = registry.likelihood(name)
    task = "classification" if made.is_classification else "regression"
    assert name in registry.likelihood_names(task)


def test_default_likelihoods_follow_from_the_task():
    chosen = [registry.default_likelihood("classification", count) for count in (2, 3)]
    assert [*chosen, registry.default_likelihood("regression")] == ["bernoulli", "categorical", "gaussian"]


def test_learned_noise_takes_the_settings_of_its_prior():
    made = registry.likelihood("gaussian", {"width": 0.1, "alpha": 2.0})
    assert isinstance(made, likelihood.Gaussian)
    assert made.noise == likelihood.GammaPrecision(width=0.1, alpha=2.0)
    with pytest.raises(SettingError, match="excludes 'width'"):
        registry.likelihood("gaussian", {"noise": 1.0, "width": 0.1})


def test_kernels_by_name():
    made = {name: kernels.kernel(name) for name in kernels.kernel_names()}
    kinds = {"nuts": NUTS, "xhmc": NUTS, "hmc": HMC, "windowed": WindowedHMC, "mala": MALA, "random-walk": RandomWalk}
    kinds |= {"gibbs": GibbsHMC, "dynamical-a": DynamicalA, "dynamical-b": DynamicalB}
    kinds |= {"sgld": SGLD, "sghmc": SGHMC, "naive-sghmc": NaiveSGHMC, "sg-nuts": SGNUTS}
    assert {name: type(one) for name, one in made.items()} == kinds
    assert made["xhmc"] == XHMC(0.1)
    chosen = kernels.kernel("nuts", {"max_doublings": 6, "metric": "dense", "integrator": "leapfrog"})
    assert isinstance(chosen, NUTS)
    assert (chosen.max_doublings, chosen.metric) == (6, "dense")
    assert kernels.kernel_defaults("nuts")["criterion"] == "generalised"


COMMON = {"step_size": 0.125, "metric": "diagonal-gradient", "target_acceptance": 0.625}
STATIC = COMMON | {
    "num_steps": 12,
    "step_jitter": 0.1,
    "length_jitter": 0.25,
    "integrator": "two-stage",
    "direction": "random",
}
SPLIT = {
    "num_steps": 12,
    "step_size": 0.125,
    "hyperparameter_ratio": 0.5,
    "hyperparameter_splits": 2,
    "target_acceptance": 0.625,
}
STREAM = {"learning_rate": 0.125, "batch_size": 7, "steps_per_draw": 3}
TREE = COMMON | {"max_doublings": 6, "integrator": "yoshida", "selection": "slice"}
WRITTEN = {
    "nuts": (TREE | {"criterion": "original"}, NUTS),
    "xhmc": (TREE | {"delta": 0.25}, XHMC),
    "hmc": (STATIC, HMC),
    "windowed": ({key: STATIC[key] for key in STATIC if key != "direction"} | {"window": 3}, WindowedHMC),
    "mala": (COMMON, MALA),
    "random-walk": (COMMON, RandomWalk),
    "gibbs": (
        {"update": {"name": "hmc"} | STATIC, "step_sizes": "curvature"},
        lambda update, step_sizes: GibbsHMC(
            HMC(**{key: of for key, of in update.items() if key != "name"}), step_sizes=step_sizes
        ),
    ),
    "dynamical-a": (SPLIT, DynamicalA),
    "dynamical-b": (SPLIT, DynamicalB),
    "sgld": (
        STREAM | {"schedule": {"name": "cyclical", "period": 20, "exploration": 0.5}, "temperature": 0.5},
        lambda schedule, **others: SGLD(schedule=schedules.Cyclical(period=20, exploration=0.5), **others),
    ),
    "sghmc": (
        STREAM
        | {
            "noise": {"name": "estimated", "every": 9, "decay": 0.5},
            "schedule": {"name": "polynomial", "scale": 500.0, "power": 0.75},
        }
        | {"momentum_decay": 0.25, "resample_every": 4, "temperature": 0.5},
        lambda noise, schedule, **others: SGHMC(
            noise=noise_models.EstimatedNoise(every=9, decay=0.5),
            schedule=schedules.Polynomial(scale=500.0, power=0.75),
            **others,
        ),
    ),
    "naive-sghmc": (STREAM | {"num_steps": 5, "metropolis": True}, NaiveSGHMC),
    "sg-nuts": (
        STREAM | {"momentum_decay": 0.25, "max_doublings": 4, "criterion": "original", "selection": "slice"},
        SGNUTS,
    ),
}


@pytest.mark.parametrize("name", kernels.kernel_names())
def test_a_settings_file_can_say_everything_about_a_kernel(name, tmp_path):
    settings, make = WRITTEN[name]
    assert set(settings) == set(kernels.kernel_defaults(name))
    file = tmp_path / "settings.toml"
    file.write_text(to_toml({"kernel": {"name": name} | settings}))
    read = resolve("table.csv", read_settings_file(file), {})
    assert build.kernel_of(read) == make(**settings)
    saved = tmp_path / "saved.toml"
    saved.write_text(to_toml(build.complete(read, preprocessing()).to_table()))
    assert build.kernel_of(resolve("table.csv", read_settings_file(saved), {})) == make(**settings)


def test_a_criterion_and_a_selection_may_be_tables_with_their_settings(tmp_path):
    parts = {"criterion": {"name": "exhaustive", "delta": 0.25}, "selection": {"name": "slice"}}
    by_objects = {"criterion": criteria.Exhaustive(0.25), "selection": "slice"}
    for name, made in {"nuts": NUTS(**by_objects), "sg-nuts": SGNUTS(**by_objects)}.items():
        file = tmp_path / "settings.toml"
        file.write_text(to_toml({"kernel": {"name": name} | parts}))
        assert build.kernel_of(resolve("table.csv", read_settings_file(file), {})) == made


@pytest.mark.parametrize("name", kernels.kernel_names())
def test_the_saved_settings_of_a_kernel_by_name_make_it_again(name):
    settings, _ = completed({"kernel": {"name": name}})
    assert build.kernel_of(settings) == kernels.kernel(name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('name = "windowed"\nwindow = 0', r"`WindowedHMC\(window=...\)` must be an integer of at least 1, got 0"),
        ('name = "windowed"\nwindow = 9\nnum_steps = 7', r"`WindowedHMC\(window=...\)` must be at most num_steps \+ 1"),
        ('name = "windowed"\nwindows = 3', "no setting 'windows'. Did you mean 'window'"),
        (
            'name = "sghmc"\nlearning_rate = 0.0',
            r"`SGHMC\(learning_rate=...\)` must be a finite number above 0, got 0.0",
        ),
        ('name = "sghmc"\nmomentum_decay = 0.0', r"`SGHMC\(momentum_decay=...\)` must be a finite number above 0"),
        ('name = "sghmc"\nmomentum_decay = 1.5', r"`SGHMC\(momentum_decay=...\)` must be between 0 and 1, got 1.5"),
        ('name = "sghmc"\nlearning_rates = 1', "no setting 'learning_rates'. Did you mean 'learning_rate'"),
        ('name = "sghmc"\nnoise = "estimate"', "`noise='estimate'` is not known. Did you mean 'estimated'"),
        ('name = "sghmc"\nnoise = "given"', "`noise` 'given' needs a setting 'variance'"),
        ('name = "sghmc"\nnoise = 3', "`kernel` 'sghmc': `noise` must be a name in quotes, got 3"),
        ('name = "sghmc"\nnoise = {name = "given", variance = -1.0}', r"`GivenNoise\(variance=...\)` must be"),
        ('name = "sghmc"\nnoise = {name = "estimated", evry = 3}', "`noise` 'estimated' has no setting 'evry'. Did"),
        ('name = "sgld"\nschedule = "cyclical"', "`schedule` 'cyclical' needs a setting 'period'"),
        (
            'name = "sgld"\nschedule = {name = "cyclical", period = 1}',
            r"`Cyclical\(period=...\)` must be an integer of",
        ),
        ('name = "sgld"\nschedule = {name = "linear"}', "`schedule='linear'` is not known"),
        ('name = "sgld"\ntemperature = -1.0', r"`SGLD\(temperature=...\)` must be at least 0"),
        ('name = "sgld"\nbatch_size = 0', r"`SGLD\(batch_size=...\)` must be an integer of at least 1, got 0"),
        ('name = "naive-sghmc"\nsteps_per_draw = 0', r"`NaiveSGHMC\(steps_per_draw=...\)` must be an integer of"),
        ('name = "sg-nuts"\nmax_doublings = 21', r"`SGNUTS\(max_doublings=...\)` must be at most 20, got 21"),
        ('name = "sg-nuts"\ncriterion = "orginal"', r"`SGNUTS\(criterion='orginal'\)` is not known. Did you mean"),
        ('name = "xhmc"\ndelta = -1.0', r"delta=...\)` must be a finite number above 0, got -1.0"),
        ('name = "mala"\nnum_steps = 3', "`kernel` 'mala' has no setting 'num_steps'"),
        ('name = "hmc"\nmetric = "diagonal_gradient"', "Did you mean 'diagonal-gradient'"),
        ('name = "hmc"\nintegrator = 3', "`kernel` 'hmc': `integrator` must be a name in quotes, got 3"),
        ('name = "nuts"\nmetric = ["dense"]', "`metric` must be a name in quotes"),
        (
            'name = "nuts"\ncriterion = "orginal"',
            r"`NUTS\(criterion='orginal'\)` is not known. Did you mean 'original'",
        ),
        ('name = "xhmc"\nselection = "slices"', "selection='slices'.*Did you mean 'slice'"),
        (
            'name = "nuts"\ncriterion = {name = "exhaustive", delt = 1}',
            "`criterion` 'exhaustive' has no setting 'delt'",
        ),
        (
            'name = "nuts"\ncriterion = {name = "exhaustive", delta = 0.0}',
            r"`Exhaustive\(delta=...\)` must be .* above 0",
        ),
        ('name = "nuts"\nselection = {name = "slices"}', "`selection='slices'` is not known. Did you mean 'slice'"),
        ('name = "nuts"\nmetric = {name = "dense"}', "`kernel` 'nuts': `metric` must be a name in quotes"),
        ('name = "nuts"\nselection = 1', "`kernel` 'nuts': `selection` must be a name in quotes, got 1"),
        (
            'name = "random-walk"\ntarget_acceptance = 1.5',
            r"RandomWalk\(target_acceptance=...\)` must be between 0 and 1",
        ),
    ],
)
def test_a_settings_file_with_a_wrong_kernel_names_the_setting(line, message, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(f"[kernel]\n{line}\n")
    with pytest.raises(SettingError, match=message):
        build.check(resolve("table.csv", read_settings_file(file), {}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: registry.prior("norml"), "Did you mean 'normal'"),
        (lambda: registry.prior("normal", {"scal": 1.0}), "no setting 'scal'. Did you mean 'scale'"),
        (lambda: registry.prior("normal", {"scale": -1.0}), "above 0, got -1.0"),
        (lambda: registry.likelihood("gausian"), "Did you mean 'gaussian'"),
        (lambda: registry.likelihood("categorical", {"noise": 1.0}), "It takes none"),
        (lambda: kernels.kernel("nut"), "Did you mean 'nuts'"),
        (lambda: kernels.kernel("nuts", {"max_doubling": 3}), "Did you mean 'max_doublings'"),
        (lambda: kernels.kernel("hmc", {"num_steps": 0}), "at least 1, got 0"),
        (lambda: build.check(resolve("a.csv", {}, {"network": {"activation": "tahn"}})), "Did you mean 'tanh'"),
        (lambda: build.check(resolve("a.csv", {"prior": {"*": {"scale": 2.0}}}, {})), "needs a name"),
        (lambda: build.check(resolve("a.csv", {}, {"likelihood": {"noise": 0.0}})), "above 0"),
        (lambda: completed({"likelihood": {"name": "categorical"}}), "is not for regression"),
        (
            lambda: completed({"likelihood": {"name": "bernoulli"}}, preprocessing(classes=("u", "v", "w"))),
            "for 2 classes, there are 3",
        ),
    ],
)
def test_what_is_not_known_is_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_completed_settings_hold_every_default_and_are_stable():
    settings, data = completed({})
    assert settings.likelihood == {"name": "gaussian"}
    assert (settings.data.task, settings.data.target) == ("regression", ("price",))
    assert settings.kernel["max_doublings"] == NUTS().max_doublings
    assert build.complete(settings, data) == settings


@pytest.mark.parametrize(
    ("data", "sizes"),
    [
        (preprocessing(), (3, 50, 1)),
        (preprocessing(targets=("price", "rent")), (3, 50, 2)),
        (preprocessing(classes=("u", "v")), (3, 50, 1)),
        (preprocessing(classes=("u", "v", "w")), (3, 50, 3)),
    ],
)
def test_the_network_has_as_many_inputs_and_outputs_as_the_data_need(data, sizes):
    settings, _ = completed({}, data)
    assert build.model_of(settings, data).network == MLP(sizes, activation="tanh")


def test_known_noise_is_in_the_unit_of_the_target():
    settings, data = completed({"likelihood": {"noise": 2.0}})
    assert build.model_of(settings, data).likelihood == likelihood.Gaussian(noise=0.5)
    several = preprocessing(targets=("price", "rent"))
    with pytest.raises(SettingError, match="there are 2 targets"):
        build.model_of(build.complete(settings, several), several)


def test_priors_by_leaf_path():
    patterns = {"layers.0.*": {"name": "normal", "scale": 0.5}, "*": {"name": "laplace"}}
    settings = dataclasses.replace(completed({})[0], prior=patterns)
    model = build.model_of(settings, preprocessing())
    assert [type(one) for one in model.prior.priors] == [priors.Normal] * 2 + [priors.Laplace] * 2


PRIORS: dict[str, tuple[dict[str, Any], Any]] = {
    "normal": ({"scale": 0.5, "mean": 0.25}, priors.Normal),
    "fan-in-normal": ({"scale": 0.5}, priors.FanInNormal),
    "laplace": ({"scale": 0.5}, priors.Laplace),
    "student-t": ({"degrees": 3.0, "scale": 0.5}, priors.StudentT),
    "uniform": ({"low": -0.5, "high": 2.0}, priors.Uniform),
    "normal-gamma": (
        {"width": 0.5, "alpha": 2.0, "group": "leaf", "parametrisation": "centered"}
        | {"below": [{"group": "incoming", "alpha": 3.0}, {"group": "weight"}]},
        lambda below, **others: priors.NormalGamma(
            below=(priors.Level("incoming", 3.0), priors.Level("weight")), **others
        ),
    ),
    "horseshoe": ({"scale": 0.5, "group": "incoming", "parametrisation": "centered"}, priors.Horseshoe),
    "regularized-horseshoe": (
        {"scale": 0.5, "group": "input", "parametrisation": "centered", "slab_shape": 3.0, "slab_rate": 12.0},
        priors.RegularizedHorseshoe,
    ),
}


@pytest.mark.parametrize("name", registry.prior_names())
def test_a_settings_file_can_say_everything_about_a_prior(name, tmp_path):
    settings, make = PRIORS[name]
    assert set(settings) == set(registry.prior_defaults(name))
    for table in ({"name": name} | settings, {"*": {"name": name} | settings}):
        file = tmp_path / "settings.toml"
        file.write_text(to_toml({"prior": table}))
        read = resolve("table.csv", read_settings_file(file), {})
        found = build.prior_of(read.prior)
        assert (found["*"] if isinstance(found, dict) else found) == make(**settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('below = [{gruop = "weight"}]', "'below' has no setting 'gruop'. Did you mean 'group'"),
        ('below = ["weight"]', r"`NormalGamma\(below=...\)` must hold levels .* got 'weight'"),
        ('below = "weight"', "`below` must be a list, got 'weight'"),
        ("below = 3", "`below` must be a list, got 3"),
        ('group = ["leaf"]', "`group` must be text, such as 'leaf', got"),
        ('parametrisation = ["centered"]', "`parametrisation` must be text"),
        ('group = "leave"', "Did you mean 'leaf'"),
    ],
)
def test_bad_settings_of_a_prior_are_refused_in_a_sentence(line, message, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(f'[prior]\nname = "normal-gamma"\n{line}\n')
    read = resolve("table.csv", read_settings_file(file), {})
    with pytest.raises(SettingError, match=message):
        build.check(read)
