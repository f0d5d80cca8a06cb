"""How a doubling trajectory draws its next state.

A selection gives every state a log weight, and exposes the two probabilities with which a doubling
trajectory moves its running draw, so that tests can enumerate them exactly.
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Scalar


class AbstractSelection(eqx.Module):
    """Weights of states and the probabilities that follow from them."""

    @abc.abstractmethod
    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        """H_start + log u, at most 0: the level u of the trajectory from a draw of [0, 1); 0 where there is none.

        A trajectory has diverged where H + log u is above 1000.
        """

    @abc.abstractmethod
    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        """Log weight of a state with this H - H_start."""

    @abc.abstractmethod
    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        """Probability that a new leaf replaces the draw of its subtree; `log_total` includes the leaf."""

    @abc.abstractmethod
    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        """Probability that a finished subtree's draw replaces the draw of the old tree."""


class Multinomial(AbstractSelection):
    """Every state counts by its density; biased progressive at the top level.

    With w(S) the sum of e^-H over the states of S, a new leaf z replaces the draw of its subtree S (z included),
    and the draw of a complete subtree S that of the old tree T, with

        P(z) = e^-H(z) / w(S),
        P(S) = min(1, w(S) / w(T)).

    Source: Betancourt 2017, appendix A.3; Lau 2018, Algorithm 6 and 12 (which print +H as the log weight).
    """

    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        return jnp.zeros_like(energy_start)

    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        return -energy_error

    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        return jnp.exp(log_weight - log_total)

    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        return jnp.minimum(1.0, jnp.exp(log_subtree - log_tree))


class Slice(AbstractSelection):
    """Every state in a slice under the density counts the same.

    With log u = -H_start + log Uniform(0, 1), drawn once per trajectory, and n(S) the number of the states of S that
    have log u <= -H, a new leaf z with log u <= -H(z) replaces the draw of its subtree S (z included), and the draw
    of a complete subtree S that of the old tree T, with

        P(z) = 1 / n(S),
        P(S) = min(1, n(S) / n(T)).

    Source: Hoffman and Gelman 2014, Algorithm 3; Ask 2022, Algorithms 5.1 and 5.2 (whose error test is reversed).
    """

    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        return jnp.log1p(-uniform)

    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        return jnp.where(threshold <= -energy_error, 0.0, -jnp.inf).astype(energy_error.dtype)

    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        return jnp.exp(log_weight - log_total)

    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        return jnp.minimum(1.0, jnp.exp(log_subtree - log_tree))


_SELECTIONS: dict[str, type[AbstractSelection]] = {"multinomial": Multinomial, "slice": Slice}


def selection_names() -> tuple[str, ...]:
    """The names that kernels, settings files and the command line take."""
    return tuple(_SELECTIONS)


def resolve_selection(owner: str, choice: str | AbstractSelection) -> AbstractSelection:
    """A selection as it is, or the one of that name; `owner` is the kernel that an error names."""
    if isinstance(choice, AbstractSelection):
        return choice
    if choice not in selection_names():
        raise SettingError(f"`{owner}(selection={choice!r})` is not known. {suggest(str(choice), _SELECTIONS)}")
    return _SELECTIONS[choice]()
