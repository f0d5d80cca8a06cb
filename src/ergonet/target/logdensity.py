"""Targets made of any log density."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Position, PRNGKey, Scalar
from ergonet.target.contract import AbstractTarget, CapabilityT, Missing, ReferencePoint, own_capability
from ergonet.target.layout import Layout, check_function, check_result


class LogDensity(AbstractTarget):
    """Any log density; see `Target.from_logdensity`."""

    logdensity_fn: Callable[[Any], Scalar]
    layout: Layout
    example: Array
    dim: int = eqx.field(static=True)

    def __init__(self, logdensity_fn: Callable[[Any], Scalar] | Any, example: Any):
        check_function(logdensity_fn, "logdensity_fn", (example,))
        self.logdensity_fn = logdensity_fn
        self.layout, self.example = Layout.of(example)
        self.dim = self.layout.dim

    def potential(self, position: Position) -> Scalar:
        value = self.logdensity_fn(self.layout.unravel(position))
        return -check_result(value, "logdensity_fn", (), "Sum it.").astype(position.dtype)

    def unravel(self, position: Position) -> Any:
        return self.layout.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.layout.uniform_start(key, self.example.dtype)

    def reference_point(self, position: Position) -> ReferencePoint:
        return ReferencePoint(jnp.zeros((), position.dtype))

    def relative_to(self, reference: ReferencePoint) -> "LogDensity":
        return self

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        return own_capability(self, kind)

    def explain(self, position: Position) -> str:
        return f"the log density itself is {-self.potential(position)} there"
