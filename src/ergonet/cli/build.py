"""From settings to a model and a kernel; the same for fitting and for predicting from a finished run."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ergonet._errors import SettingError
from ergonet.cli.settings import Settings
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.models.activation import activation
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.network import MLP
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.models.prior import AbstractPrior
from ergonet.models.registry import default_likelihood, likelihood, likelihood_names, prior, prior_defaults
from ergonet.samplers.registry import AnyKernel, kernel, kernel_defaults

Table = Mapping[str, Any]


def check(settings: Settings) -> None:
    """Refuse names that are not known, and what no data could make right.

    Raises:
        SettingError: an activation, prior, likelihood or kernel, or a setting of one, is not known or out of range.
    """
    activation(settings.network.activation)
    prior_of(settings.prior)
    kernel_of(settings)
    if settings.likelihood:
        name, arguments = _named("likelihood", {"name": likelihood_names()[2], **settings.likelihood})
        likelihood(name, arguments)


def complete(settings: Settings, preprocessing: Preprocessing) -> Settings:
    """Settings with everything filled in that the data or a default decides.

    Raises:
        SettingError: the likelihood is not for the task.
    """
    task, classes = preprocessing.task, len(preprocessing.classes)
    name = settings.likelihood.get("name", default_likelihood(task, classes))
    if name not in likelihood_names(task):
        raise SettingError(
            f"`--likelihood {name}` is not for {task}. Choose one of {', '.join(likelihood_names(task))}, or another "
            f"`--task`."
        )
    if name == "bernoulli" and classes != 2:
        raise SettingError(f"`--likelihood bernoulli` is for 2 classes, there are {classes}. Use categorical.")
    kernel_name, arguments = _named("kernel", settings.kernel)
    chosen_prior = settings.prior
    if "name" in chosen_prior:
        prior_name, given = _named("prior", chosen_prior)
        chosen_prior = {"name": prior_name, **prior_defaults(prior_name), **given}
    every = {"name": kernel_name, **kernel_defaults(kernel_name), **arguments}
    return dataclasses.replace(
        settings,
        data=dataclasses.replace(settings.data, task=task, target=preprocessing.target_names),
        prior=chosen_prior,
        likelihood={**settings.likelihood, "name": name},
        kernel={key: value for key, value in every.items() if value is not None},
    )


def model_of(settings: Settings, preprocessing: Preprocessing) -> BayesianNetwork:
    """The network, prior and likelihood of completed settings.

    Raises:
        SettingError: a setting is not known or out of its range.
    """
    chosen = _likelihood_of(settings, preprocessing)
    targets = len(preprocessing.classes) or len(preprocessing.target_names)
    sizes = (len(preprocessing.encoded_names), *settings.network.hidden, chosen.num_outputs(targets))
    network = MLP(sizes, activation=settings.network.activation, bias=settings.network.bias)
    return BayesianNetwork(network, prior_of(settings.prior), chosen)


def kernel_of(settings: Settings) -> AnyKernel:
    """The kernel of the settings; see `ergonet.samplers.registry`."""
    return kernel(*_named("kernel", settings.kernel))


def prior_of(table: Table) -> AbstractPrior | dict[str, AbstractPrior]:
    """One prior, or one for each pattern of leaf paths."""
    if table and all(isinstance(value, Mapping) for value in table.values()):
        return {pattern: prior(*_named(f'prior."{pattern}"', one)) for pattern, one in table.items()}
    return prior(*_named("prior", table))


def _likelihood_of(settings: Settings, preprocessing: Preprocessing) -> AbstractLikelihood:
    """The likelihood in standardised units: a known noise is in the unit of the target."""
    name, arguments = _named("likelihood", settings.likelihood)
    noise = arguments.get("noise")
    if noise is None:
        return likelihood(name, arguments)
    likelihood(name, arguments)  # refuses what is out of its range before it is scaled
    if len(preprocessing.target_names) != 1:
        raise SettingError(
            f"`--noise` is in the unit of the target, but there are {len(preprocessing.target_names)} targets. Leave "
            f"it out to learn it, or fit one model per target."
        )
    return likelihood(name, {**arguments, "noise": float(noise / preprocessing.target_sd[0])})


def _named(kind: str, table: Table) -> tuple[str, dict[str, Any]]:
    """A table's name and its other settings."""
    name = table.get("name")
    if not isinstance(name, str):
        raise SettingError(
            f'[{kind}] of the settings needs a name, such as name = "normal", got {name!r}.'
            if kind.startswith("prior")
            else f"[{kind}] of the settings needs a name, got {name!r}."
        )
    return name, {key: value for key, value in table.items() if key != "name"}
