"""Names become models and kernels; what is not known is refused with the nearest names."""

import dataclasses

import numpy as np
import pytest

from ergonet._errors import SettingError
from ergonet.cli import build
from ergonet.cli.settings import resolve
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.models import likelihood, prior, registry
from ergonet.models.network import MLP
from ergonet.samplers import registry as kernels
from ergonet.samplers.hmc import HMC
from ergonet.samplers.mala import MALA
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.random_walk import RandomWalk
from ergonet.samplers.xhmc import XHMC


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


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("normal", prior.Normal),
        ("fan-in-normal", prior.FanInNormal),
        ("laplace", prior.Laplace),
        ("student-t", prior.StudentT),
    ],
)
def test_priors_by_name(name, kind):
    assert name in registry.prior_names()
    assert registry.prior(name, {"scale": 2.0}) == kind(scale=2.0)
    assert registry.prior_defaults(name)["scale"] == 1.0


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
    kinds = {"nuts": NUTS, "hmc": HMC, "xhmc": NUTS, "mala": MALA, "random-walk": RandomWalk}
    assert {name: type(one) for name, one in made.items()} == kinds
    assert made["xhmc"] == XHMC(0.1)
    chosen = kernels.kernel("nuts", {"max_doublings": 6, "metric": "dense", "integrator": "leapfrog"})
    assert isinstance(chosen, NUTS)
    assert (chosen.max_doublings, chosen.metric) == (6, "dense")
    assert "criterion" not in kernels.kernel_defaults("nuts")


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
    assert [type(one) for one in model.prior.priors] == [prior.Normal] * 2 + [prior.Laplace] * 2
