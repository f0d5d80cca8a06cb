"""Callbacks: called with every draw inside the compiled loop of a run, stored or not, to update a summary."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Count, Float, Position, Scalar


class AbstractCallback(eqx.Module):
    """Updates a summary with every draw, so that positions need not be stored.

    Arrays of a callback are leaves; `update` is traced, and the summary keeps the shapes and dtypes of `blank`.
    """

    @abc.abstractmethod
    def blank(self) -> Any:
        """The summary of no draws, a pytree of arrays."""

    @abc.abstractmethod
    def update(self, summary: Any, position: Position, weight: Scalar) -> tuple[Any, dict[str, Scalar]]:
        """Add one draw to the summary; also returns figures for the learning curve, by name.

        Args:
            summary: summary of the previous draws.
            position: the draw, `[dim]`.
            weight: weight of the draw in averages, at least 0; 0 in the warm-up.
        """

    @abc.abstractmethod
    def join(self, summaries: list[Any]) -> Any:
        """Combine the summaries of all chains."""


class NoCallback(AbstractCallback):
    """Sees nothing."""

    def blank(self) -> tuple[()]:
        return ()

    def update(self, summary: Any, position: Position, weight: Scalar) -> tuple[Any, dict[str, Scalar]]:
        return (), {}

    def join(self, summaries: list[Any]) -> None:
        return None


def observe(
    callback: AbstractCallback, summary: Any, positions: Float[Array, "draw dim"], weight: Scalar, count: Count
) -> tuple[Any, dict[str, Float[Array, "draw"]]]:
    """Update the summary with the first `count` positions; also returns figures `[draw]` by name, 0 beyond `count`.

    For kernels whose compiled loop does not call the callback itself.
    """
    figures = jax.eval_shape(lambda: callback.update(summary, positions[0], weight)[1])
    blank = {name: jnp.zeros((len(positions),), one.dtype) for name, one in figures.items()}

    def one(index: Count, carry: tuple[Any, dict[str, Array]]) -> tuple[Any, dict[str, Array]]:
        summary, curve = carry
        summary, row = callback.update(summary, positions[index], weight)
        return summary, {name: values.at[index].set(row[name]) for name, values in curve.items()}

    return jax.lax.fori_loop(0, count, one, (summary, blank))
