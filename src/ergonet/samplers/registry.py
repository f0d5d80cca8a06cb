"""Kernels by name, for settings that come as text: files, the command line, estimators."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ergonet._errors import SettingError, suggest
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.dynamical import DynamicalA, DynamicalB
from ergonet.samplers.gibbs_hmc import GibbsHMC
from ergonet.samplers.hmc import HMC
from ergonet.samplers.mala import MALA
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.random_walk import RandomWalk
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.samplers.xhmc import XHMC

_KERNELS: dict[str, Callable[..., AbstractKernel]] = {
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


def kernel_names() -> tuple[str, ...]:
    """The kernels that can be had by name."""
    return tuple(_KERNELS)


def kernel_defaults(name: str) -> dict[str, Any]:
    """Settings of a kernel with their defaults; None: chosen by the warm-up.

    Raises:
        SettingError: the name is not known.
    """
    if name not in _KERNELS:
        raise SettingError(f"`kernel={name!r}` is not known. {suggest(str(name), _KERNELS)}")
    parameters = inspect.signature(_KERNELS[name]).parameters.values()
    return {one.name: one.default for one in parameters}


def kernel(name: str, settings: Mapping[str, Any] | None = None) -> AbstractKernel:
    """The kernel of that name.

    Args:
        name: one of `kernel_names()`.
        settings: arguments of the kernel by name, such as ``{"max_doublings": 8}``; the rest keep their defaults.

    Raises:
        SettingError: the name or a setting is not known, or a value is out of its range.
    """
    known, given = kernel_defaults(name), dict(settings or {})
    for key, value in given.items():
        if key not in known:
            raise SettingError(f"`kernel` {name!r} has no setting {key!r}. {suggest(str(key), known)}")
        if isinstance(known[key], str) and isinstance(value, Mapping) and "name" in value:  # a part with its settings
            given[key] = kernel(str(value["name"]), {one: of for one, of in value.items() if one != "name"})
        elif isinstance(known[key], str) and not isinstance(value, str):  # code may give an object, text a name
            raise SettingError(f"`kernel` {name!r}: `{key}` must be a name in quotes, got {value!r}.")
    return _KERNELS[name](**given)
