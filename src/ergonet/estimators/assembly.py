"""From constructor arguments, which are names or objects, to the parts of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from ergonet import _named
from ergonet._errors import SettingError
from ergonet.models import registry
from ergonet.models.activation import activation
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.network import MLP
from ergonet.models.prior import AbstractPrior, FanInNormal, Normal
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.registry import AnyKernel
from ergonet.samplers.registry import kernel as kernel_by_name

Prior = AbstractPrior | Mapping[str, AbstractPrior]
OUTPUT_SCALE = {"regression": 2.0, "classification": 4.0}


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """Units of the hidden layers; an integer is one layer."""
    sizes = (hidden,) if isinstance(hidden, int) and not isinstance(hidden, bool) else hidden
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise SettingError(f"`hidden` must be a sequence of layer sizes such as (50,), got {hidden!r}.")
    for size in sizes:
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
            raise SettingError(f"`hidden` must hold integers of at least 1, got {size!r} in {hidden!r}.")
    return tuple(int(size) for size in sizes)


def network(num_inputs: int, hidden: Any, num_outputs: int, *, activation_name: str, bias: bool) -> MLP:
    """The network of an estimator."""
    activation(activation_name)
    return MLP((num_inputs, *hidden_sizes(hidden), num_outputs), activation=activation_name, bias=bias)


def prior(choice: Any, *, task: str, hidden: Any, bias: bool) -> Prior:
    """What suits the task, where nothing is chosen; a name; a table; a prior; or patterns of leaves with any of these.

    The default is N(0, 1 / fan_in) for weights and N(0, 1) for biases, with output weights `OUTPUT_SCALE` times as
    wide: functions of one or two standard deviations of a scaled target, or logits of about 2.5.
    """
    if choice is None:
        last = {f"layers.{len(hidden_sizes(hidden))}.weight": FanInNormal(OUTPUT_SCALE[task])}
        weights = last | ({"*.weight": FanInNormal(1.0)} if hidden_sizes(hidden) else {})
        return weights | ({"*.bias": Normal(1.0)} if bias else {})
    chosen = _named.from_choice(choice, registry.prior)
    if isinstance(chosen, Mapping):
        return {pattern: _named.from_choice(one, registry.prior) for pattern, one in chosen.items()}
    return chosen


def likelihood(choice: Any, *, task: str, num_classes: int = 0) -> AbstractLikelihood:
    """None: what suits the task; a name; a table of `name` and settings; or a likelihood of that task."""
    chosen = registry.default_likelihood(task, num_classes) if choice is None else choice
    chosen = _named.from_choice(chosen, registry.likelihood)
    if not isinstance(chosen, AbstractLikelihood) or chosen.is_classification != (task == "classification"):
        raise SettingError(f"`likelihood={choice!r}` is not for {task}. Use one of {registry.likelihood_names(task)}.")
    return chosen


def kernel(choice: Any) -> AnyKernel:
    """None: NUTS; a name; a mapping of `name` and settings; or a kernel."""
    if choice is None:
        return NUTS()
    chosen = _named.from_choice(choice, kernel_by_name)
    if not isinstance(chosen, AnyKernel):
        raise SettingError(
            f"`kernel` must be a name such as 'nuts', settings such as {{'name': 'hmc', 'num_steps': 32}}, or a kernel "
            f"such as `ergonet.HMC()`, got {choice!r}."
        )
    return chosen
