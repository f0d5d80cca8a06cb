"""Targets made of a log prior and the log likelihood of each row."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Float, Int, Position, PRNGKey, Scalar
from ergonet.target.capabilities import PointwiseLogLikelihood, Rows
from ergonet.target.contract import AbstractTarget, CapabilityT, Missing, ReferencePoint, own_capability
from ergonet.target.layout import Layout, as_arrays, check_function, check_result, count_rows


class LogDensityTerms(AbstractTarget, Rows, PointwiseLogLikelihood):
    """A target with a log prior and the log likelihood of each row; see `Target.from_terms`."""

    log_prior_fn: Callable[[Any], Scalar]
    log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]]
    data: Any
    layout: Layout
    example: Array
    left_out: tuple[Scalar, Scalar]  # log prior, and mean log likelihood of a row
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        log_prior_fn: Callable[[Any], Scalar] | Any,
        log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]] | Any,
        data: Any,
        example: Any,
    ):
        check_function(log_prior_fn, "log_prior_fn", (example,))
        check_function(log_likelihood_fn, "log_likelihood_fn", (example, data))
        self.log_prior_fn = log_prior_fn
        self.log_likelihood_fn = log_likelihood_fn
        self.data = jax.tree.map(jnp.asarray, as_arrays(data, argument="data"))
        self.layout, self.example = Layout.of(example)
        self.dim = self.layout.dim
        self.left_out = jnp.zeros((), self.example.dtype), jnp.zeros((), self.example.dtype)
        count_rows(self.data)

    @property
    def num_rows(self) -> int:
        return count_rows(self.data)

    def _facts(self) -> dict[str, object]:
        return {"dim": self.dim, "rows": self.num_rows}

    def potential(self, position: Position) -> Scalar:
        params, (prior, row) = self.layout.unravel(position), self.left_out
        likelihood = jnp.sum(self._of_rows(params, self.data) - row)
        return -(self._prior(params) - prior + likelihood).astype(position.dtype)

    def unravel(self, position: Position) -> Any:
        return self.layout.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.layout.uniform_start(key, self.example.dtype)

    def log_likelihood(self, position: Position, rows: Int[Array, "row"] | None = None) -> Float[Array, "row"]:
        data = self.data if rows is None else jax.tree.map(lambda leaf: leaf[rows], self.data)
        return self._of_rows(self.layout.unravel(position), data)

    def rows(self) -> Any:
        return self.data

    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        params = self.layout.unravel(position)
        scale = self.num_rows / count_rows(rows)
        likelihood = scale * jnp.sum(self._of_rows(params, rows))
        return -(self._prior(params) + likelihood).astype(position.dtype)

    def _prior(self, params: Any) -> Scalar:
        return check_result(self.log_prior_fn(params), "log_prior_fn", (), "Sum it.")

    def _of_rows(self, params: Any, rows: Any) -> Float[Array, "rows"]:
        terms = self.log_likelihood_fn(params, rows)
        return check_result(terms, "log_likelihood_fn", (count_rows(rows),), "Sum over everything but the rows.")

    def reference_point(self, position: Position) -> ReferencePoint:
        """The log prior is a single number here, so its rounding error remains."""
        prior, rows = self._prior(self.layout.unravel(position)), self.log_likelihood(position)
        parts = jax.tree.map(lambda one: jnp.asarray(one, position.dtype), (prior, jnp.mean(rows)))
        return ReferencePoint(-(prior + jnp.sum(rows)).astype(position.dtype), parts)

    def relative_to(self, reference: ReferencePoint) -> "LogDensityTerms":
        return eqx.tree_at(lambda target: target.left_out, self, reference.parts)

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        return own_capability(self, kind)

    def explain(self, position: Position) -> str:
        params = self.layout.unravel(position)
        prior = self._prior(params)
        if not bool(jnp.isfinite(prior)):
            return f"the log prior is {prior} there"
        rows = self._of_rows(params, self.data)
        bad = ~jnp.isfinite(rows)
        if bool(bad.any()):
            first = int(jnp.argmax(bad))
            return f"the log likelihood of row {first} (counted from 0) is {rows[first]} there"
        return "log prior and log likelihood are finite there, but their gradient is not"
