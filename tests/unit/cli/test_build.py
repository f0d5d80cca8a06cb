"""Names become models and kernels; what is not known is refused with the nearest names."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from ergonet import priors
from ergonet._errors import SettingError
from ergonet._registry import Registry
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.settings import resolve
from ergonet.assembly.settings_file import read_settings_file
from ergonet.datasets.encoding import Encoder
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.models import likelihood
from ergonet.models.network import MLP
from ergonet.models.registry import LIKELIHOODS, PRIORS
from ergonet.runs.toml import to_toml
from ergonet.samplers.hmc import HMC
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.registry import KERNELS
from ergonet.samplers.stochastic import noise_model as noise_models
from ergonet.samplers.stochastic import schedule as schedules
from ergonet.samplers.stochastic.sg_nuts import SGNUTS
from ergonet.trajectory import criterion as criteria


def preprocessing(classes=(), targets=("price",)):
    count = 0 if classes else len(targets)
    return Preprocessing(
        task="classification" if classes else "regression",
        feature_names=("a", "b", "c"),
        target_names=targets,
        encoders={"c": Encoder(kind="closed", categories=("x", "y"))},
        dropped=("b",),
        feature_mean=np.zeros(3),
        feature_sd=np.ones(3),
        target_mean=np.zeros(count),
        target_sd=np.arange(4.0, 4.0 + count),
        classes=classes,
    )


def completed(options, data=None):
    data = preprocessing() if data is None else data
    return build.complete(resolve("table.csv", {}, options), data), data


@pytest.mark.parametrize("name", LIKELIHOODS.names())
def test_likelihoods_by_name_know_their_task(name):
    made = LIKELIHOODS.make(name)
    task = "classification" if made.is_classification else "count" if made.is_discrete else "regression"
    assert name in LIKELIHOODS.names(task)


def test_default_likelihoods_follow_from_the_task():
    tasks = [Task("classification", 3, 2), Task("classification", 3, 3), Task("regression", 3, 1, (1.0,))]
    assert [build.default_likelihood(task) for task in tasks] == ["bernoulli", "categorical", "gaussian"]
    assert completed({})[0].likelihood["name"] == "heteroscedastic-student-t"


def test_learned_noise_takes_the_settings_of_its_prior():
    made = LIKELIHOODS.make("gaussian", {"width": 0.1, "alpha": 2.0})
    assert isinstance(made, likelihood.Gaussian)
    assert made.noise == likelihood.GammaPrecision(width=0.1, alpha=2.0)
    with pytest.raises(SettingError, match="cannot be combined with 'width'"):
        LIKELIHOODS.make("gaussian", {"noise": 1.0, "width": 0.1})


def test_kernels_by_name_with_settings():
    chosen = KERNELS.make("nuts", {"max_doublings": 6, "metric": "dense", "integrator": "leapfrog"})
    assert chosen == NUTS(max_doublings=6, metric="dense")
    assert chosen != NUTS()
    assert KERNELS.settings("nuts")["criterion"] == "generalized"


# Values by the name of a setting, whatever it is a setting of: in a file, and in Python where that differs.
TEXTS: dict[str, Any] = {
    "metric": "diagonal-gradient",
    "integrator": "two-stage",
    "direction": "random",
    "criterion": "original",
    "selection": "slice",
    "step_sizes": "curvature",
    "step_size": 0.125,
    "memory": 7.5,
    "first_energy_variance": 0.25,
    "num_steps": 12,
    "window": 3,
    "lower": -0.5,
    "upper": 2.5,
    "batch_size": 7,
    "learning_rate": 0.125,
    "group": "incoming",
    "parametrization": "centered",
}
PARTS: dict[str, tuple[Any, Any]] = {
    "update": ({"name": "hmc", "num_steps": 12, "step_size": 0.125}, lambda: HMC(num_steps=12, step_size=0.125)),
    "noise": (
        {"name": "estimated", "every": 9, "decay": 0.5},
        lambda: noise_models.EstimatedNoise(every=9, decay=0.5),
    ),
    "schedule": (
        {"name": "cyclical", "period": 20, "exploration": 0.5},
        lambda: schedules.Cyclical(period=20, exploration=0.5),
    ),
    "below": (
        [{"group": "weight", "alpha": 3.0}],
        lambda: (priors.Level("weight", 3.0),),
    ),
}


def other_settings(registry: Registry[Any], name: str) -> tuple[dict[str, Any], Any]:
    """Every setting of a name with another value than its default, as text; and the object made in Python."""
    written, python = {}, {}
    for key, default in registry.settings(name).items():
        if key in PARTS:
            written[key], make = PARTS[key]
            python[key] = make()
            continue
        if key in TEXTS:
            value = TEXTS[key]
        elif default is None or isinstance(default, bool):
            value = 3 if default is None else not default
        else:
            value = default + 1 if isinstance(default, int) else default / 2 or 0.25
        assert value != default
        written[key] = python[key] = value
    return written, registry.load(name)(**python)


@pytest.mark.parametrize("name", KERNELS.names())
def test_a_settings_file_can_say_everything_about_a_kernel(name, tmp_path):
    settings, made = other_settings(KERNELS, name)
    assert made != KERNELS.make(name)
    file = tmp_path / "settings.toml"
    file.write_text(to_toml({"kernel": {"name": name} | settings}))
    read = resolve("table.csv", read_settings_file(file), {})
    assert build.kernel(read) == made
    saved = tmp_path / "saved.toml"
    saved.write_text(to_toml(build.complete(read, preprocessing()).to_table()))
    assert build.kernel(resolve("table.csv", read_settings_file(saved), {})) == made


def test_a_criterion_and_a_selection_may_be_tables_with_their_settings(tmp_path):
    parts = {"criterion": {"name": "exhaustive", "delta": 0.25}, "selection": {"name": "slice"}}
    by_objects = {"criterion": criteria.Exhaustive(0.25), "selection": "slice"}
    for name, made in {"nuts": NUTS(**by_objects), "sg-nuts": SGNUTS(**by_objects)}.items():
        file = tmp_path / "settings.toml"
        file.write_text(to_toml({"kernel": {"name": name} | parts}))
        assert build.kernel(resolve("table.csv", read_settings_file(file), {})) == made


@pytest.mark.parametrize("name", KERNELS.names())
def test_the_saved_settings_of_a_kernel_by_name_make_it_again(name):
    settings, _ = completed({"kernel": {"name": name}})
    assert build.kernel(settings) == KERNELS.make(name)


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
        ('name = "sghmc"\nnoise = "estimate"', r"`SGHMC\(noise='estimate'\)` is not known. Did you mean 'estimated'"),
        ('name = "sghmc"\nnoise = "given"', "`noise` 'given' needs a setting 'variance'"),
        ('name = "sghmc"\nnoise = 3', "`kernel` 'sghmc': `noise` must be a name in quotes, .* got 3"),
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
        (
            'name = "hmc"\nintegrator = 3',
            "`kernel` 'hmc': `integrator` must be a name in quotes, such as 'leapfrog', got 3",
        ),
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
        (
            'name = "nuts"\nselection = 1',
            "`kernel` 'nuts': `selection` must be a name in quotes, such as 'multinomial', got 1",
        ),
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
        (lambda: PRIORS.make("norml"), "Did you mean 'normal'"),
        (lambda: PRIORS.make("normal", {"scal": 1.0}), "no setting 'scal'. Did you mean 'scale'"),
        (lambda: PRIORS.make("normal", {"scale": -1.0}), "above 0, got -1.0"),
        (lambda: LIKELIHOODS.make("gausian"), "Did you mean 'gaussian'"),
        (
            lambda: LIKELIHOODS.make("categorical", {"noise": 1.0}),
            "no setting 'noise'. Did you mean 'label_noise'. Known: label_noise, temperature",
        ),
        (lambda: KERNELS.make("nut"), "Did you mean 'nuts'"),
        (lambda: KERNELS.make("nuts", {"max_doubling": 3}), "Did you mean 'max_doublings'"),
        (lambda: KERNELS.make("hmc", {"num_steps": 0}), "at least 1, got 0"),
        (lambda: build.check(resolve("a.csv", {}, {"network": {"activation": "tahn"}})), "Did you mean 'tanh'"),
        (
            lambda: build.check(resolve("a.csv", {"prior": {"*": {"scale": 2.0}}}, {})),
            "a table of a `name` and settings",
        ),
        (lambda: completed({"likelihood": {"noise": 0.0}}), "above 0"),
        (
            lambda: completed({"likelihood": {"name": "categorical"}}),
            "`likelihood` 'categorical' is not for regression.*`--task`",
        ),
        (
            lambda: completed({"likelihood": {"name": "bernoulli"}}, preprocessing(classes=("u", "v", "w"))),
            "for 2 classes, but there are 3",
        ),
    ],
)
def test_what_is_not_known_is_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_completed_settings_hold_every_default_and_are_stable():
    settings, data = completed({})
    assert (settings.data.task, settings.data.target) == ("regression", ("price",))
    assert settings.kernel["length_jitter"] == HMC().length_jitter
    assert None not in (settings.network.hidden, settings.run.num_chains, settings.run.warm_start)
    assert build.complete(settings, data) == settings


@pytest.mark.parametrize(
    ("data", "outputs"),
    [
        (preprocessing(), 2),
        (preprocessing(targets=("price", "rent")), 4),
        (preprocessing(classes=("u", "v")), 1),
        (preprocessing(classes=("u", "v", "w")), 3),
    ],
)
def test_the_network_has_as_many_inputs_and_outputs_as_the_data_need(data, outputs):
    settings, _ = completed({"network": {"hidden": [50]}}, data)
    assert build.model(settings, Task.of(data)).network == MLP((3, 50, outputs), activation="tanh")


def test_known_noise_is_in_the_unit_of_the_target():
    settings, data = completed({"likelihood": {"noise": 2.0}})
    assert build.model(settings, Task.of(data)).likelihood == likelihood.Gaussian(noise=0.5)
    several = preprocessing(targets=("price", "rent"))
    with pytest.raises(SettingError, match="there are 2 targets"):
        build.model(settings, Task.of(several))


def test_priors_by_leaf_path():
    patterns = {"layers.0.*": {"name": "normal", "scale": 0.5}, "*": {"name": "laplace"}}
    settings = dataclasses.replace(completed({"network": {"hidden": [50]}})[0], prior=patterns)
    model = build.model(settings, Task.of(preprocessing()))
    assert [type(one) for one in model.prior.priors] == [priors.Normal] * 2 + [priors.Laplace] * 2


@pytest.mark.parametrize("name", PRIORS.names())
def test_a_settings_file_can_say_everything_about_a_prior(name, tmp_path):
    settings, made = other_settings(PRIORS, name)
    assert made != PRIORS.make(name)
    for table in ({"name": name} | settings, {"*": {"name": name} | settings}):
        file = tmp_path / "settings.toml"
        file.write_text(to_toml({"prior": table}))
        read = resolve("table.csv", read_settings_file(file), {})
        found = build.prior(read.prior, Task("regression", 3, 1, (1.0,)), read.network)
        assert (found["*"] if isinstance(found, dict) else found) == made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('below = [{gruop = "weight"}]', "'below' has no setting 'gruop'. Did you mean 'group'"),
        ('below = ["weight"]', r"`NormalGamma\(below=...\)` must contain levels .* got 'weight'"),
        ('below = "weight"', "`below` must be a list, got 'weight'"),
        ("below = 3", "`below` must be a list, got 3"),
        ('group = ["leaf"]', "`group` must be a name in quotes, such as 'leaf', got"),
        ('parametrization = ["centered"]', "`parametrization` must be a name in quotes"),
        ('group = "leave"', "Did you mean 'leaf'"),
    ],
)
def test_bad_settings_of_a_prior_are_refused_in_a_sentence(line, message, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(f'[prior]\nname = "normal-gamma"\n{line}\n')
    read = resolve("table.csv", read_settings_file(file), {})
    with pytest.raises(SettingError, match=message):
        build.check(read)
