"""How a doubling trajectory draws its next state.

A selection gives every state a log weight, and exposes the two probabilities with which a doubling
trajectory moves its running draw, so that tests can enumerate them exactly.
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Scalar


class AbstractSelection(eqx.Module):
    """Weights of states and the probabilities that follow from them."""

    @abc.abstractmethod
    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        """A random level for each trajectory from a draw of [0, 1) (unused where weights are deterministic)."""

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
    """Weights e^-H; uniform progressive inside a subtree, biased progressive at the top level.

    P(leaf) = w_leaf / w_subtree, P(subtree) = min(1, w_subtree / w_tree). Source: Betancourt 2017, appendix A.3;
    Lau 2018, Algorithm 6.
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
    """Uniform among the states under a slice through the starting density.

    log u = -H_start + log Uniform; a state counts when log u <= -H. Inside a subtree uniform, across
    min(1, n_subtree / n_tree). Source: Hoffman and Gelman 2014; Ask 2022, Algorithm 5.2 (whose error test is reversed).
    """

    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        return jnp.log1p(-uniform)

    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        return jnp.where(threshold <= -energy_error, 0.0, -jnp.inf).astype(energy_error.dtype)

    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        return jnp.exp(log_weight - log_total)

    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        return jnp.minimum(1.0, jnp.exp(log_subtree - log_tree))
