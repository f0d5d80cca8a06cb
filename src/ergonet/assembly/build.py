"""Construction of a model and a kernel from settings, shared by the command, the estimators and settings files."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ergonet._errors import SettingError
from ergonet.assembly.settings import ModelSettings, NetworkSettings, Settings
from ergonet.inference.registry import WARM_STARTS
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.network import MLP
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.models.prior import AbstractPrior
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PRIORS
from ergonet.samplers.registry import KERNELS

if TYPE_CHECKING:
    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.samplers.base import AbstractKernel
    from ergonet.samplers.stochastic.base import AbstractMinibatchKernel

OUTPUT_SCALE = {"regression": 2.0, "classification": 4.0}
DEFAULT_KERNEL = "nuts"
DATA, SCALED = "data", "scaled"  # units of a likelihood


@dataclass(frozen=True)
class Task:
    """Properties of a model that are determined by the data.

    Attributes:
        kind: ``classification`` or ``regression``.
        num_inputs: number of network inputs.
        num_targets: number of classes of a classification, or of target columns of a regression.
        target_sd: for regression, the unit of the model's targets in units of the data, one entry per column.
    """

    kind: str
    num_inputs: int
    num_targets: int
    target_sd: tuple[float, ...] = ()

    @classmethod
    def of(cls, preprocessing: "Preprocessing") -> "Task":
        """The task of a data set."""
        return cls(
            kind=preprocessing.task,
            num_inputs=len(preprocessing.encoded_names),
            num_targets=len(preprocessing.classes) or len(preprocessing.target_names),
            target_sd=tuple(map(float, preprocessing.target_sd)),
        )


def model(settings: ModelSettings, task: Task) -> BayesianNetwork:
    """Build the network with its prior and likelihood.

    Raises:
        SettingError: a setting is unknown, out of range, or does not suit the task.
    """
    chosen, network = likelihood(settings.likelihood, task), settings.network
    sizes = (task.num_inputs, *network.hidden, chosen.num_outputs(task.num_targets))
    weights = prior(settings.prior, task, network)
    return BayesianNetwork(MLP(sizes, activation=network.activation, bias=network.bias), weights, chosen)


def kernel(settings: ModelSettings) -> "AbstractKernel | AbstractMinibatchKernel":
    """Build the kernel; raises `SettingError` if it or one of its settings is unknown or out of range."""
    return KERNELS.resolve(_with_name(settings.kernel, DEFAULT_KERNEL))


def prior(choice: Any, task: Task, network: NetworkSettings) -> AbstractPrior | dict[str, AbstractPrior]:
    """Build one prior, or one for each pattern of leaf paths.

    Args:
        choice: None for the default; a name, a table or a prior; or one of these for each pattern of leaf paths.
        task: determines the default.
        network: determines the default.

    Raises:
        SettingError: a name or a setting is unknown or out of range.
    """
    choice = _default_prior(choice, task, network)
    if isinstance(choice, Mapping) and "name" not in choice:
        return {pattern: PRIORS.resolve(one) for pattern, one in choice.items()}
    return PRIORS.resolve(choice)


def _default_prior(choice: Any, task: Task, network: NetworkSettings) -> Any:
    """The default prior for the task if nothing or only a scale is chosen; otherwise the choice unchanged.

    The default is N(0, 1 / fan_in) for weights and N(0, 1) for biases, with output weights wider by the factor
    `OUTPUT_SCALE` or the chosen scale. This gives functions with a spread of one or two standard deviations of a scaled
    target, or logits of about 2.5.
    """
    chosen = {} if choice is None else choice
    if not isinstance(chosen, Mapping) or set(chosen) - {"scale"} or isinstance(chosen.get("scale"), Mapping):
        return choice
    scale = chosen.get("scale", OUTPUT_SCALE[task.kind])
    table: dict[str, Any] = {f"layers.{len(network.hidden)}.weight": {"name": "fan-in-normal", "scale": scale}}
    if network.hidden:
        table["*.weight"] = {"name": "fan-in-normal", "scale": 1.0}
    if network.bias:
        table["*.bias"] = {"name": "normal", "scale": 1.0}
    return table


def likelihood(choice: Any, task: Task) -> AbstractLikelihood:
    """Build the likelihood, for targets that are scaled by `task.target_sd`.

    Args:
        choice: None for the default; a name; a table of settings with or without a `name`, whose `noise` is in units of
            the data, or of scaled targets with `units = "scaled"`; or a likelihood.
        task: determines the default and the allowed choices.

    Raises:
        SettingError: the likelihood does not suit the task, or a setting is unknown or out of range.
    """
    choice, units = _without_units(_with_name(choice, default_likelihood(task)))
    if isinstance(choice, Mapping) and choice.get("noise") is not None and units == DATA:
        LIKELIHOODS.resolve(choice)  # rejects values out of range before they are scaled
        choice = {**choice, "noise": _scaled_noise(choice["noise"], task)}
    chosen = LIKELIHOODS.resolve(choice)
    if chosen.is_classification != (task.kind == "classification"):
        raise SettingError(
            f"`likelihood` {choice!r} is not for {task.kind}. Choose {LIKELIHOODS.listed(task.kind)}, or another "
            f"`task`."
        )
    if task.kind == "classification" and chosen.num_outputs(task.num_targets) == 1 and task.num_targets != 2:
        raise SettingError(
            f"`likelihood` {choice!r} is for 2 classes, but there are {task.num_targets}. Use 'categorical'."
        )
    return chosen


def _without_units(choice: Any) -> tuple[Any, str]:
    """The choice of a likelihood without the units of its noise, and these."""
    if not isinstance(choice, Mapping):
        return choice, DATA
    units = choice.get("units", DATA)
    if units not in (DATA, SCALED):
        raise SettingError(f"`units` of a likelihood must be {DATA!r} or {SCALED!r}, got {units!r}.")
    return {name: value for name, value in choice.items() if name != "units"}, units


def default_likelihood(task: Task) -> str:
    """The default likelihood of a task: Gaussian with learned noise for regression, otherwise by number of classes."""
    if task.kind == "regression":
        return "gaussian"
    return "bernoulli" if task.num_targets == 2 else "categorical"


def _scaled_noise(noise: float, task: Task) -> float:
    """Known noise, in units of the model's targets."""
    if len(set(task.target_sd)) != 1:
        raise SettingError(
            f"`noise` is one number in the unit of the target, but there are {task.num_targets} targets with different "
            f"units. Omit it to learn the noise, or fit one model per target."
        )
    return float(noise / task.target_sd[0])


def check(settings: Settings) -> None:
    """Check everything that can be checked before the data are known.

    Raises:
        SettingError: an activation, prior, likelihood, kernel or warm start, or a setting of one, is unknown or out of
            range.
    """
    ACTIVATIONS.entry(settings.network.activation)
    prior(settings.prior, Task("regression", 1, 1, (1.0,)), settings.network)
    kernel(settings)
    if settings.run.warm_start is not None:
        WARM_STARTS.resolve(settings.run.warm_start)
    if settings.likelihood:
        LIKELIHOODS.resolve(_without_units(_with_name(settings.likelihood, "gaussian"))[0])


def complete(settings: Settings, preprocessing: "Preprocessing") -> Settings:
    """Fill in the settings that are determined by the data or by a default.

    Raises:
        SettingError: the likelihood does not suit the task.
    """
    task = Task.of(preprocessing)
    likelihood(settings.likelihood, task)
    chosen_prior = _default_prior(settings.prior, task, settings.network)
    if "name" in chosen_prior:
        chosen_prior = {**PRIORS.settings(chosen_prior["name"]), **chosen_prior}
    table = _with_name(settings.kernel, DEFAULT_KERNEL)
    every = {**KERNELS.settings(table["name"]), **table}
    return dataclasses.replace(
        settings,
        data=dataclasses.replace(settings.data, task=task.kind, target=preprocessing.target_names),
        prior=chosen_prior,
        likelihood=_with_name(settings.likelihood, default_likelihood(task)),
        kernel={key: value for key, value in every.items() if value is not None},
    )


def _with_name(choice: Any, name: str) -> Any:
    """Add a name to a table without one; None counts as an empty table."""
    chosen = {} if choice is None else choice
    return {"name": name, **chosen} if isinstance(chosen, Mapping) else chosen
