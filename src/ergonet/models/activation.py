"""Activations by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Array

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
}


def activation_names() -> tuple[str, ...]:
    """The activations that a network takes by name."""
    return tuple(_ACTIVATIONS)


def activation(name: str) -> Callable[[Array], Array]:
    """The elementwise function of that name; an unknown name is a `SettingError` with the nearest ones."""
    if name not in _ACTIVATIONS:
        raise SettingError(f"`activation={name!r}` is not known. {suggest(str(name), _ACTIVATIONS)}")
    return _ACTIVATIONS[name]
