"""Construction of a model and a kernel from settings, shared by the command, the estimators and settings files."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet.assembly.default import (
    BOUNDS,
    CROSS_VALIDATION,
    MOST_GROWTH,
    NO_WARM_START,
    PLAIN_RUN,
    USUAL_KERNEL,
    WIDE_PRIOR,
    Default,
    Table,
    default_for,
    with_bounds,
)
from ergonet.assembly.likelihoods import COUNT, OF_COUNTS, require_task, tell_order, with_classes, with_unit
from ergonet.assembly.settings import ModelSettings, NetworkSettings, RunSettings, Settings
from ergonet.diagnostics.finding import LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN
from ergonet.inference.registry import WARM_STARTS
from ergonet.inference.until import Until
from ergonet.models.embedding import EmbeddedMLP
from ergonet.models.likelihood import AbstractLikelihood, Gaussian, HeteroscedasticGaussian
from ergonet.models.likelihoods.classes import Bernoulli
from ergonet.models.network import DIRECT, MLP
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.models.prior import AbstractPrior
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PRIORS
from ergonet.samplers.registry import KERNELS

if TYPE_CHECKING:
    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.samplers.base import AbstractKernel
    from ergonet.samplers.stochastic.base import AbstractMinibatchKernel

OUTPUT_SCALE = {"regression": 2.0, "classification": 4.0, COUNT: 2.0}
PLAIN_ACTIVATION = "tanh"  # that of hidden layers which the user has chosen; `OUTPUT_SCALE` suits it
DATA, SCALED = "data", "scaled"  # units of a likelihood


@dataclass(frozen=True)
class Task:
    """Properties of a model that are determined by the data.

    Attributes:
        kind: ``classification``, ``regression`` or ``count``.
        num_inputs: number of network inputs.
        num_targets: number of classes of a classification, or of target columns of a regression.
        target_sd: for regression, the unit of the model's targets in units of the data, transformed if they are, one
            entry per column.
        embeddings: numbers of categories of the inputs that are indices of learned embeddings, which are the last ones.
        is_transformed: whether targets are transformed, so that they are normal given the network.
    """

    kind: str
    num_inputs: int
    num_targets: int
    target_sd: tuple[float, ...] = ()
    embeddings: tuple[int, ...] = ()
    is_transformed: bool = False

    @classmethod
    def of(cls, preprocessing: "Preprocessing") -> "Task":
        """The task of a data set."""
        return cls(
            kind=preprocessing.task,
            num_inputs=len(preprocessing.encoded_names),
            num_targets=len(preprocessing.classes) or len(preprocessing.target_names),
            target_sd=tuple(map(float, preprocessing.target_sd)),
            embeddings=preprocessing.embeddings,
            is_transformed=preprocessing.target_transform is not None,
        )


def model(settings: ModelSettings, task: Task) -> BayesianNetwork:
    """Build the network with its prior and likelihood.

    Raises:
        SettingError: a setting is unknown, out of range, or does not suit the task.
    """
    chosen, network = likelihood(settings.likelihood, task), settings.network
    sizes = (task.num_inputs, *(network.hidden or ()), chosen.num_outputs(task.num_targets))
    weights, activation = prior(settings.prior, task, network), network.activation or PLAIN_ACTIVATION
    parts: dict[str, Any] = {"activation": activation, "bias": network.bias, "direct": network.direct}
    perceptron = EmbeddedMLP(sizes, task.embeddings, **parts) if task.embeddings else MLP(sizes, **parts)
    return BayesianNetwork(perceptron, weights, chosen)


def kernel(settings: ModelSettings) -> "AbstractKernel | AbstractMinibatchKernel":
    """Build the kernel; raises `SettingError` if it or one of its settings is unknown or out of range."""
    return KERNELS.resolve(_with_name(settings.kernel, USUAL_KERNEL))


def prior(choice: Any, task: Task, network: NetworkSettings) -> AbstractPrior | dict[str, AbstractPrior]:
    """Build one prior, or one for each pattern of leaf paths.

    Args:
        choice: None for the default, which a table with `scale` or `inputs` alone changes; a name, another table or a
            prior; or one of these for each pattern of leaf paths.
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
    """The prior for hidden layers of any width, with the settings that are chosen; any other choice stays as it is.

    It is N(0, 1 / fan_in) for weights and N(0, 1) for biases, with output weights wider by the factor
    `OUTPUT_SCALE` or the chosen scale. This gives functions with a spread of one or two standard deviations of a scaled
    target, or logits of about 2.5. Weights out of the inputs have the prior `inputs` instead, if that is chosen; direct
    connections to the outputs keep theirs.
    """
    chosen = {} if choice is None else choice
    if not changes_the_default(chosen):
        return choice
    scale = chosen.get("scale", OUTPUT_SCALE[task.kind])
    hidden = network.hidden or ()
    table: dict[str, Any] = {f"layers.{len(hidden)}.weight": {"name": "fan-in-normal", "scale": scale}}
    if task.embeddings:
        table["embeddings.*.weight"] = {"name": "normal", "scale": 1.0}
    if "inputs" in chosen:
        table["layers.0.weight"] = chosen["inputs"]
    if network.direct:
        table[DIRECT] = {"name": "fan-in-normal", "scale": 1.0}
    if hidden and not ("inputs" in chosen and len(hidden) == 1):
        table["*.weight"] = {"name": "fan-in-normal", "scale": 1.0}
    if network.bias:
        table["*.bias"] = {"name": "normal", "scale": 1.0}
    return table


def likelihood(choice: Any, task: Task) -> AbstractLikelihood:
    """Build the likelihood, for targets that are scaled by `task.target_sd`.

    Args:
        choice: None for the default; a name; a table of settings with or without a `name`, whose `noise` is in units of
            the data, or of scaled targets with `units = "scaled"`, as are its `floor`, `ceiling` and `reach`;
            or a likelihood.
        task: determines the default and the allowed choices.

    Raises:
        SettingError: the likelihood does not suit the task, or a setting is unknown or out of range.
    """
    choice, units = _without_units(_at_one(_with_name(choice, default_likelihood(task))))
    if isinstance(choice, Mapping) and units == DATA:
        LIKELIHOODS.resolve(choice)  # rejects values out of range before they are scaled
        choice = {**choice, **scaled_deviations(choice, task)}
    chosen = LIKELIHOODS.resolve(choice)
    require_task(chosen, choice, task.kind)
    chosen = with_classes(chosen, task.num_targets)
    if task.is_transformed and not isinstance(chosen, Gaussian | HeteroscedasticGaussian):
        raise SettingError(
            f"`likelihood` {choice!r} cannot be combined with `target_transform`, whose targets are normal given the "
            f"network. Choose 'gaussian' or 'heteroscedastic-gaussian', or leave the transform out."
        )
    if isinstance(chosen, Bernoulli) and task.num_targets != 2:
        raise SettingError(
            f"`likelihood` {choice!r} is for 2 classes, but there are {task.num_targets}. Use 'categorical'."
        )
    return chosen


def _at_one(choice: Any) -> Any:
    """The choice of a likelihood, with a temperature of 1 until cross-validation has found it.

    Raises:
        SettingError: there is label noise already, which cross-validation finds, too.
    """
    if not (isinstance(choice, Mapping) and choice.get("temperature") == CROSS_VALIDATION):
        return choice
    if "label_noise" in choice:
        raise SettingError(
            f"`temperature = {CROSS_VALIDATION!r}` finds the label noise, too. Leave out `label_noise`, or give "
            f"`temperature` a number."
        )
    return {**choice, "temperature": 1.0}


def _without_units(choice: Any) -> tuple[Any, str]:
    """The choice of a likelihood without the units of its noise, and these."""
    if not isinstance(choice, Mapping):
        return choice, DATA
    units = choice.get("units", DATA)
    if units not in (DATA, SCALED):
        raise SettingError(f"`units` of a likelihood must be {DATA!r} or {SCALED!r}, got {units!r}.")
    return {name: value for name, value in choice.items() if name != "units"}, units


def default_likelihood(task: Task) -> str:
    """The likelihood of a task for which a table of settings has no name."""
    if task.kind != "classification":
        return OF_COUNTS if task.kind == COUNT else "gaussian"
    return "bernoulli" if task.num_targets == 2 else "categorical"


def scaled_deviations(table: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """The standard deviations in the table of a likelihood, in units of the model's targets instead of the data."""
    given = {name: table[name] for name in ("noise", *BOUNDS) if table.get(name) is not None}
    return {name: _scaled(name, value, task) for name, value in given.items()}


def _scaled(name: str, sd: Any, task: Task) -> Any:
    """A standard deviation, or one for each target, in units of the model's targets."""
    if isinstance(sd, list | tuple):
        if len(sd) != len(task.target_sd):
            raise SettingError(f"`{name}` has {len(sd)} numbers, but there are {task.num_targets} targets.")
        return [float(one / unit) for one, unit in zip(sd, task.target_sd, strict=True)]
    if len(set(task.target_sd)) != 1:
        raise SettingError(
            f"`{name}` is one number in the unit of the target, but there are {task.num_targets} targets with "
            f"different units. Omit it to learn the noise, or fit one model per target."
        )
    return float(sd / task.target_sd[0])


def check(settings: Settings) -> None:
    """Check everything that can be checked before the data are known.

    Raises:
        SettingError: an activation, prior, likelihood, kernel or warm start, or a setting of one, is unknown or out of
            range; or there are direct connections without hidden layers.
    """
    ACTIVATIONS.entry(settings.network.activation or PLAIN_ACTIVATION)
    if settings.network.direct and settings.network.hidden == ():
        raise SettingError(
            "`direct` needs hidden layers, because without any all connections are direct. Leave out `direct`, or "
            "choose units with `hidden`."
        )
    prior(settings.prior, Task("regression", 1, 1, (1.0,)), settings.network)
    if _is_named(settings.kernel):  # else the table of rows decides whose settings these are, as below
        kernel(settings)
    if settings.run.warm_start not in (None, NO_WARM_START):
        WARM_STARTS.resolve(settings.run.warm_start)
    Until.of(settings.run.until)
    if _is_named(settings.likelihood):
        LIKELIHOODS.resolve(_without_units(_at_one(settings.likelihood))[0])


def choose(settings: Settings, table: Table) -> Settings:
    """Fill in what the user has left open with the default for a table, by the rules that `default.py` states."""
    default, network, run = default_for(table), settings.network, settings.run
    is_own = {"network": network.hidden is not None, "kernel": _is_named(settings.kernel)}
    if not is_own["network"]:
        network = _filled(network, default.network)
    usual, growth = (PLAIN_RUN, 1) if is_own["kernel"] else (default.run, default.growth)
    counts = _filled(run, _lengths(run, usual, growth if len(network.hidden or ()) < 2 else 1))
    return dataclasses.replace(
        settings,
        network=_filled(network, {"activation": PLAIN_ACTIVATION}),
        prior=settings.prior if is_own["network"] else _chosen_prior(settings.prior, default, network),
        likelihood=_chosen_likelihood(settings.likelihood, default, table, is_own=is_own["kernel"]),
        kernel=settings.kernel if is_own["kernel"] else _merged(default.kernel, settings.kernel),
        run=dataclasses.replace(counts, warm_start=None) if counts.warm_start == NO_WARM_START else counts,
    )


def _lengths(run: RunSettings, usual: Mapping[str, Any], growth: int) -> dict[str, Any]:
    """The usual lengths, and how many more draws may follow: by the user's stop rule, or by that of the default."""
    num_chains = usual["num_chains"] if run.num_chains is None else run.num_chains
    if run.until is not None:
        return {**usual, "num_draws": MOST_GROWTH * usual["num_draws"]}
    if growth == 1 or run.num_draws is not None or not (is_integer(num_chains) and num_chains > 1):
        return dict(usual)
    return {
        **usual,
        "num_draws": growth * usual["num_draws"],
        "until_rhat": LARGEST_RHAT,
        "until_ess": float(SMALLEST_ESS_PER_CHAIN * num_chains),
        "until_minimum": usual["num_draws"],
    }


def left_open(given: Settings) -> list[str]:
    """The parts of a fit that its user has left to the default, in words."""
    run = given.run
    parts = {
        "network": given.network.hidden is None,
        "prior": not given.prior,
        "likelihood": not given.likelihood,
        "kernel": not given.kernel,
        "warm start": run.warm_start is None,
        "chains": run.num_chains is None,
        "warm-up": run.num_warmup is None,
        "draws": run.num_draws is None,
    }
    return [name for name, is_open in parts.items() if is_open]


def _chosen_likelihood(given: Any, default: Default, table: Table, *, is_own: bool) -> Any:
    """The likelihood, with the bounds of the table if its noise depends on the row.

    A temperature that cross-validation finds belongs to the default's kernel, so it does not come with the user's own,
    nor with label noise that the user has given.
    """
    if table.task == COUNT or not (given is None or isinstance(given, Mapping | str)):
        return given
    named = {"name": given} if isinstance(given, str) else dict(given or {})
    if table.task == "classification":
        has_one = "temperature" in LIKELIHOODS.settings(named.get("name", "categorical"))
        is_given = is_own or "label_noise" in named
        return named if is_given or not has_one else {**default.likelihood, **named}
    if not set(named) - {"units", *BOUNDS}:
        named = {"name": default.likelihood["name"], **named}
    if set(BOUNDS) & set(named) or not set(BOUNDS) <= set(LIKELIHOODS.settings(named.get("name", "gaussian"))):
        return named
    return with_bounds({key: one for key, one in named.items() if key != "units"}, table)


def _filled(record: Any, values: Mapping[str, Any]) -> Any:
    """A record of settings in which values take the place of what is None."""
    missing = {name: value for name, value in values.items() if getattr(record, name) is None}
    return dataclasses.replace(record, **missing)


def _is_named(choice: Any) -> bool:
    """Whether a choice says by itself what it is: a name, a table with one, or an object."""
    return "name" in choice if isinstance(choice, Mapping) else choice is not None


def _merged(default: Mapping[str, Any], given: Any) -> Any:
    """The default, changed by a table without a name; any other choice takes its place."""
    return given if _is_named(given) else {**default, **(given or {})}


def _chosen_prior(given: Any, default: Default, network: NetworkSettings) -> Any:
    """The default, perhaps with other settings; a name, an object and priors by pattern take its place."""
    if given and not changes_the_default(given):
        return given
    given = given or {}
    if changes_the_default(default.prior):
        return {**default.prior, **given}
    whole = {**WIDE_PRIOR, "scale": given["scale"]} if "scale" in given else default.prior
    own = {"layers.0.weight": given["inputs"]} if "inputs" in given else {}
    if network.direct and "scale" not in given:
        own[DIRECT] = default.direct
    if "name" in whole:
        return {**own, "*": whole} if own else whole
    kept = {pattern: one for pattern, one in whole.items() if network.bias or pattern != "*.bias"}
    return {**own, **{pattern: one for pattern, one in kept.items() if pattern not in own}}


def changes_the_default(prior: Any) -> bool:
    """Whether this is a table with settings of the default prior alone."""
    is_table = isinstance(prior, Mapping) and not set(prior) - {"scale", "inputs"}
    return is_table and not isinstance(prior.get("scale"), Mapping)


def complete(settings: Settings, preprocessing: "Preprocessing", targets: Any = ()) -> Settings:
    """Fill in the settings that are determined by the data or by a default, for the record of a run.

    Args:
        settings: settings of tables and names, without objects.
        preprocessing: what was learned from the training rows.
        targets: their scaled targets, on which the default and the unit of counts depend unless they are set.

    Raises:
        SettingError: the likelihood does not suit the task.
    """
    task = Task.of(preprocessing)
    settings = choose(settings, Table.of(preprocessing, targets))
    settings = dataclasses.replace(settings, likelihood=with_unit(settings.likelihood, task.kind, targets))
    likelihood(settings.likelihood, task)
    tell_order(settings.likelihood, preprocessing.classes)
    chosen_prior = _default_prior(settings.prior, task, settings.network)
    if "name" in chosen_prior:
        chosen_prior = {**PRIORS.settings(chosen_prior["name"]), **chosen_prior}
    table = _with_name(settings.kernel, USUAL_KERNEL)
    every = {**KERNELS.settings(table["name"]), **table}
    return dataclasses.replace(
        settings,
        data=dataclasses.replace(
            settings.data,
            task=task.kind,
            target=preprocessing.target_names,
            log_beyond=preprocessing.log_beyond or 0.0,
            types={**(settings.data.types or {}), **preprocessing.types} or None,
        ),
        prior=chosen_prior,
        likelihood=_with_name(settings.likelihood, default_likelihood(task)),
        kernel={key: value for key, value in every.items() if value is not None},
    )


def _with_name(choice: Any, name: str) -> Any:
    """Add a name to a table without one; None counts as an empty table."""
    chosen = {} if choice is None else choice
    return {"name": name, **chosen} if isinstance(chosen, Mapping) else chosen
