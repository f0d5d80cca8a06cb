"""Kernels by name, for settings that come as text: files, the command line, estimators."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ergonet import _named
from ergonet._errors import SettingError
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.dynamical import DynamicalA, DynamicalB
from ergonet.samplers.gibbs_hmc import GibbsHMC
from ergonet.samplers.hmc import HMC
from ergonet.samplers.mala import MALA
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.random_walk import RandomWalk
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from ergonet.samplers.stochastic.naive_sghmc import NaiveSGHMC
from ergonet.samplers.stochastic.noise_model import noise_model
from ergonet.samplers.stochastic.schedule import schedule
from ergonet.samplers.stochastic.sg_nuts import SGNUTS
from ergonet.samplers.stochastic.sghmc import SGHMC
from ergonet.samplers.stochastic.sgld import SGLD
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.samplers.xhmc import XHMC
from ergonet.trajectory.criterion import criterion_names, resolve_criterion
from ergonet.trajectory.selection import resolve_selection, selection_names

AnyKernel = AbstractKernel | AbstractMinibatchKernel

_KERNELS: dict[str, Callable[..., AnyKernel]] = {
    "nuts": NUTS,
    "xhmc": XHMC,
    "hmc": HMC,
    "windowed": WindowedHMC,
    "mala": MALA,
    "random-walk": RandomWalk,
    "gibbs": GibbsHMC,
    "dynamical-a": DynamicalA,
    "dynamical-b": DynamicalB,
}
_MINIBATCH_KERNELS: dict[str, Callable[..., AnyKernel]] = {
    "sgld": SGLD,
    "sghmc": SGHMC,
    "naive-sghmc": NaiveSGHMC,
    "sg-nuts": SGNUTS,
}
_KERNELS |= _MINIBATCH_KERNELS


def kernel_names() -> tuple[str, ...]:
    """The kernels that can be had by name."""
    return tuple(_KERNELS)


def minibatch_kernel_names() -> tuple[str, ...]:
    """Those of them whose gradients are of minibatches."""
    return tuple(_MINIBATCH_KERNELS)


def kernel_defaults(name: str) -> dict[str, Any]:
    """Settings of a kernel with their defaults; None: chosen by the warm-up.

    Raises:
        SettingError: the name is not known.
    """
    return _named.defaults("kernel", name, _KERNELS)


def kernel(name: str, settings: Mapping[str, Any] | None = None) -> AnyKernel:
    """The kernel of that name.

    Args:
        name: one of `kernel_names()`.
        settings: arguments of the kernel by name, such as ``{"max_doublings": 8}``; the rest keep their defaults.

    Raises:
        SettingError: the name or a setting is not known, or a value is out of its range.
    """
    known, given = kernel_defaults(name), dict(settings or {})
    for key, value in given.items():
        if not isinstance(known.get(key), str):
            continue
        if key in _PARTS and isinstance(value, Mapping) and "name" in value:  # a part with its settings
            others = {one: of for one, of in value.items() if one != "name"}
            given[key] = _PARTS[key](str(value["name"]), others)
        elif not isinstance(value, str):  # code may give an object, text a name
            raise SettingError(f"`kernel` {name!r}: `{key}` must be a name in quotes, got {value!r}.")
    return _named.make("kernel", name, given, _KERNELS)


_CRITERIA = {name: type(resolve_criterion("NUTS", name)) for name in criterion_names()}
_SELECTIONS = {name: type(resolve_selection("NUTS", name)) for name in selection_names()}
_PARTS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "criterion": partial(_named.make, "criterion", factories=_CRITERIA),
    "noise": noise_model,
    "schedule": schedule,
    "selection": partial(_named.make, "selection", factories=_SELECTIONS),
    "update": kernel,
}
