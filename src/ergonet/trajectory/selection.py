"""Selection of the next state from a doubling trajectory.

A selection assigns a log weight to every state and exposes the two probabilities with which the trajectory replaces its
running draw, so that tests can enumerate them exactly. Inside a subtree the draw is updated by uniform progressive
sampling; between subtrees by biased progressive sampling (Betancourt2017, appendix A.3).
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Scalar


class AbstractSelection(eqx.Module):
    """Weights of states, and the probabilities that follow from them."""

    @abc.abstractmethod
    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        """The log slice level relative to the start, H_start + log u, at most 0; 0 for a selection without a slice.

        `uniform` is a draw from [0, 1). A trajectory diverges if H + log u exceeds 1000.
        """

    @abc.abstractmethod
    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        """Log weight of a state with energy error H - H_start."""

    @abc.abstractmethod
    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        """Probability that a new leaf replaces the draw of its subtree; `log_total` includes the leaf's weight."""

    @abc.abstractmethod
    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        """Probability that the draw of a complete subtree replaces the draw of the old tree."""


class Multinomial(AbstractSelection):
    """Multinomial sampling: a state is weighted by its density e^-H.

    With W(S) the sum of e^-H over the states of S, a new leaf z replaces the draw of its subtree S (which includes z),
    and the draw of a complete subtree S replaces that of the old tree T, with probabilities

        P(z) = e^-H(z) / W(S)           (uniform progressive sampling),
        P(S) = min(1, W(S) / W(T))      (biased progressive sampling).

    Source: Betancourt2017, appendix A.3; Lau2018, Algorithms 6 and 12 (which print +H as the log weight).
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
    """Slice sampling: all states above the slice level have equal weight.

    The log slice level log u = -H_start + log Uniform(0, 1) is drawn once per trajectory. With n(S) the number of
    states of S that satisfy log u <= -H, a new leaf z with log u <= -H(z) replaces the draw of its subtree S (which
    includes z), and the draw of a complete subtree S replaces that of the old tree T, with probabilities

        P(z) = 1 / n(S)                 (uniform progressive sampling),
        P(S) = min(1, n(S) / n(T))      (biased progressive sampling).

    Source: HoffmanGelman2014, Algorithm 3; Ask2022, Algorithms 5.1 and 5.2 (whose test for divergences is reversed).
    """

    def threshold(self, uniform: Scalar, energy_start: Scalar) -> Scalar:
        return jnp.log1p(-uniform)

    def log_weight(self, threshold: Scalar, energy_error: Scalar) -> Scalar:
        return jnp.where(threshold <= -energy_error, 0.0, -jnp.inf).astype(energy_error.dtype)

    def inside(self, log_weight: Scalar, log_total: Scalar) -> Scalar:
        return jnp.exp(log_weight - log_total)

    def across(self, log_subtree: Scalar, log_tree: Scalar) -> Scalar:
        return jnp.minimum(1.0, jnp.exp(log_subtree - log_tree))
