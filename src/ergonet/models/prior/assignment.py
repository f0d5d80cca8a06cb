"""Which prior falls on which leaf."""

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._errors import SettingError, suggest
from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.network import Leaf
from ergonet.models.prior.simple import AbstractPrior, Normal


class PriorAssignment(eqx.Module):
    """A prior for every leaf, in the order of the flat position."""

    paths: tuple[str, ...] = eqx.field(static=True)
    leaves: tuple[Leaf, ...] = eqx.field(static=True)
    priors: tuple[AbstractPrior, ...]

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return sum(leaf.size for leaf in self.leaves)

    def split(self, position: Array) -> dict[str, Array]:
        """A flat position as named arrays."""
        named, start = {}, 0
        for path, leaf in zip(self.paths, self.leaves, strict=True):
            named[path] = position[start : start + leaf.size].reshape(leaf.shape)
            start += leaf.size
        return named

    def log_prob(self, position: Array) -> Scalar:
        """Log prior density of all weights of a flat position; neighbours with the same prior are one product."""
        total, start = jnp.zeros((), position.dtype), 0
        for prior, leaf in self._runs():
            total = total + prior.log_prob(position[start : start + leaf.size].reshape(leaf.shape), leaf)
            start += leaf.size
        return total

    def _runs(self) -> list[tuple[AbstractPrior, Leaf]]:
        """Leaves merged with their neighbours where a prior does not look at the leaf."""
        runs: list[tuple[AbstractPrior, Leaf]] = []
        for prior, leaf in zip(self.priors, self.leaves, strict=True):
            if runs and isinstance(prior, Normal) and runs[-1][0] == prior:
                merged = Leaf(shape=(runs[-1][1].size + leaf.size,), fan_in=1)
                runs[-1] = (prior, merged)
            else:
                runs.append((prior, leaf))
        return runs

    def sample(self, key: PRNGKey, dtype: DTypeLike) -> Array:
        """A flat position drawn from the prior."""
        keys = jax.random.split(key, len(self.leaves))
        parts = [
            prior.sample(k, leaf, dtype).reshape(-1)
            for prior, leaf, k in zip(self.priors, self.leaves, keys, strict=True)
        ]
        return jnp.concatenate(parts)

    def describe(self) -> str:
        """One line per leaf: path, shape, coordinates, prior."""
        rows = [
            f"{path:24s} {list(leaf.shape)!s:14s} {math.prod(leaf.shape):8d}  {prior!r}"
            for path, leaf, prior in zip(self.paths, self.leaves, self.priors, strict=True)
        ]
        return "\n".join(rows)


def assign(prior: AbstractPrior | Mapping[str, AbstractPrior], leaves: Mapping[str, Leaf]) -> PriorAssignment:
    """The prior of each leaf.

    Args:
        prior: one prior for every leaf, or a mapping of `fnmatch` patterns of leaf paths; the first pattern that
            matches a leaf decides.
        leaves: the network's leaves.

    Raises:
        SettingError: a pattern matches no leaf, a leaf has no prior, or a value is not a prior.
    """
    patterns = {"*": prior} if isinstance(prior, AbstractPrior) else prior
    if not isinstance(patterns, Mapping) or not all(isinstance(p, AbstractPrior) for p in patterns.values()):
        raise SettingError(
            f"`prior` must be a prior such as `priors.Normal(1.0)`, or a mapping of leaf patterns to priors, "
            f"got {prior!r}."
        )
    chosen: dict[str, AbstractPrior] = {}
    for pattern, choice in patterns.items():
        matched = [path for path in leaves if fnmatchcase(path, pattern)]
        if not matched:
            raise SettingError(f"`prior`: the pattern {pattern!r} matches no leaf. {suggest(pattern, leaves)}")
        for path in matched:
            chosen.setdefault(path, choice)
    without = [path for path in leaves if path not in chosen]
    if without:
        raise SettingError(f"`prior`: no pattern matches {', '.join(without)}. Add a pattern such as '*'.")
    return PriorAssignment(
        paths=tuple(leaves), leaves=tuple(leaves.values()), priors=tuple(chosen[path] for path in leaves)
    )
