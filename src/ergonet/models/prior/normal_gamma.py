"""Normal weights whose precision is learned, in one level or in several."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._errors import SettingError
from ergonet._registry import Registry
from ergonet._types import Array, PRNGKey
from ergonet.models.network import Leaf
from ergonet.models.precision import (
    gibbs_log_precision,
    log_precision_density,
    require_positive,
    sample_log_precision,
    slice_log_precision,
)
from ergonet.models.prior.base import AbstractPrior, Hyperparameters, root
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import BY_INPUT, Group, layer_of, log_sum_by, members, resolve_group, sum_by
from ergonet.models.prior.parametrization import AbstractParametrization, Centered
from ergonet.models.registry import PARAMETRIZATIONS

LOG_PRECISION = "log_precision"


class Level(eqx.Module):
    """A level of precisions, one per group: tau ~ Gamma with shape alpha / 2, whose mean is the precision above.

    Attributes:
        group: see `groups.Group`; must be finer than the level above.
        alpha: twice the shape, above 0; the larger, the closer these precisions are to the one above.
    """

    group: Group
    alpha: float = eqx.field(static=True)

    def __init__(self, group: str = "weight", alpha: float = 1.0):
        self.group = resolve_group("Level", group)
        self.alpha = require_positive("Level", "alpha", alpha)


class NormalGamma(AbstractPrior):
    """w ~ N(0, 1 / tau), with the precision tau ~ Gamma of mean width^-2 and shape alpha / 2 for every group.

    The coordinate is lambda = log tau. The Gamma(a0, b0) of Lau2018 has alpha = 2 a0 and width = sqrt(b0 / a0). With
    levels `below`, tau is the prior mean of the precisions of the next level, and so on down to the weights. The
    hierarchy of layer, unit and weight of Neal1996 is ``NormalGamma(width, alpha, "leaf", below=(Level("incoming",
    1.0), Level("weight", 4.0)))``. Sources: Choo2000, section 3.2; Lau2018, section 3.2; Neal1996, section 3.2.3.
    """

    width: float = eqx.field(static=True)
    levels: tuple[Level, ...]
    parametrization: AbstractParametrization

    def __init__(
        self,
        width: float = 1.0,
        alpha: float = 0.5,
        group: str = "leaf",
        parametrization: str | AbstractParametrization = "non-centered",
        *,
        below: Sequence[Any] = (),
    ):
        """Check and keep the settings.

        Args:
            width: standard deviation of a weight at the mean precision, above 0.
            alpha: twice the shape of the Gamma distribution, above 0; smaller values give a vaguer prior.
            group: which weights share a precision: `leaf`, `layer`, `incoming`, `outgoing`, `input` or `weight`.
            parametrization: `centered` or `non-centered`, or an object.
            below: further levels, each with finer groups than the one above: `Level` objects or tables of settings.

        Raises:
            SettingError: a setting is out of its range.
        """
        self.width = require_positive("NormalGamma", "width", width)
        resolve_group("NormalGamma", group)
        require_positive("NormalGamma", "alpha", alpha)
        lower = tuple(map(_level, below))
        if lower and group == "layer":
            raise SettingError("`NormalGamma(group='layer')` has no levels `below`: its groups span several leaves.")
        names = [group, *(level.group.name for level in lower)]
        if "layer" in names[1:] or len(set(names)) < len(names):
            raise SettingError(f"`NormalGamma(below=...)`: every level needs finer groups than the last, got {names}.")
        self.levels = (Level(group, alpha), *lower)
        self.parametrization = PARAMETRIZATIONS.resolve(parametrization, owner="NormalGamma")

    def shares(self, path: str) -> str:
        return layer_of(path) if self.top.group.name == "layer" else path

    def hyperparameters(self, leaf: Leaf) -> dict[str, Leaf]:
        shapes = [level.group.shape(leaf, "NormalGamma") for level in self.levels]
        for (above, below), level in zip(itertools.pairwise(shapes), self.levels[1:], strict=True):
            if any(
                fine not in (coarse, full) or (coarse > 1 and fine == 1)
                for coarse, fine, full in zip(above, below, leaf.shape, strict=True)
            ):
                raise SettingError(
                    f"`NormalGamma(below=...)`: groups {level.group.name!r} are not parts of those of the level above."
                )
        return {
            name: level.group.outside(leaf, "NormalGamma") for name, level in zip(self.names, self.levels, strict=True)
        }

    def __repr__(self) -> str:
        top, parametrization = (
            self.levels[0],
            "centered" if isinstance(self.parametrization, Centered) else "non-centered",
        )
        below = "".join(f" > {level.group.name} (alpha {level.alpha:g})" for level in self.levels[1:])
        return f"NormalGamma({self.width:g}, {top.alpha:g}, {top.group.name!r}, {parametrization!r}){below}"

    @property
    def top(self) -> Level:
        """The top level, whose precisions have mean width^-2."""
        return self.levels[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters, from the top level down."""
        if len(self.levels) == 1:
            return (LOG_PRECISION,)
        return tuple(f"{LOG_PRECISION}.{level.group.name}" for level in self.levels)

    @property
    def log_mean(self) -> float:
        """Log omega of the top level."""
        return -2 * math.log(self.width)

    def log_precisions(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        """Log precisions by level from the top, in shapes that broadcast against each other and the weights."""
        return [
            level.group.inside(hyperparameters[name], leaf, "NormalGamma")
            for name, level in zip(self.names, self.levels, strict=True)
        ]

    def _scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        """tau^-1/2 by level, in the shapes of `log_precisions`."""
        return [
            level.group.inside(root(hyperparameters, name), leaf, "NormalGamma")
            for name, level in zip(self.names, self.levels, strict=True)
        ]

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        log_scale = -0.5 * self.log_precisions(hyperparameters, leaf)[-1]
        return self.parametrization.density(coordinates, log_scale, self._scales(hyperparameters, leaf)[-1])

    def own_terms(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        terms: list[Array] = []
        above: Array | float = self.log_mean
        wide: Array | float = self.width
        values, scales = self.log_precisions(hyperparameters, leaf), self._scales(hyperparameters, leaf)
        for value, scale, level in zip(values, scales, self.levels, strict=True):
            terms.append(log_precision_density(value, above, level.alpha, (wide / scale) ** 2).reshape(-1))
            above, wide = value, scale
        return terms

    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        return self.parametrization.weights(coordinates, self._scales(hyperparameters, leaf)[-1])

    def draw_own(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        own, above, found = self.hyperparameters(leaf), jnp.asarray(self.log_mean, dtype), {}
        keys = jax.random.split(key, len(self.levels))
        for name, level, one in zip(self.names, self.levels, keys, strict=True):
            mean = jnp.broadcast_to(above, level.group.shape(leaf, "NormalGamma"))
            above = sample_log_precision(one, mean, level.alpha)
            found[name] = above.reshape(own[name].shape)
        return found

    def initial_values(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        """Every precision at the prior mean."""
        return {name: jnp.full(one.shape, self.log_mean, dtype) for name, one in self.hyperparameters(leaf).items()}

    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        scale = self._scales(hyperparameters, leaf)[-1]
        return self.parametrization.draw(jax.random.normal(key, leaf.shape, dtype), scale)

    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        return {
            level.group.name: jnp.exp(-0.5 * hyperparameters[name])
            for name, level in zip(self.names, self.levels, strict=True)
        }

    @property
    def by_input(self) -> bool:
        return any(level.group.name in BY_INPUT for level in self.levels)

    @property
    def lacks_conjugacy(self) -> str:
        if isinstance(self.parametrization, Centered):
            return ""
        return "`NormalGamma` is not centered: give it `parametrization='centered'`"

    def gibbs(self, key: PRNGKey, weights: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        values = self.log_precisions(hyperparameters, leaf)
        keys = jax.random.split(key, len(values))
        means = [jnp.full_like(values[0], self.log_mean), *values[:-1]]
        squares = sum_by(weights**2, values[-1].shape)
        count = members(values[-1].shape, leaf.shape)
        lowest = self.levels[-1]
        values[-1] = gibbs_log_precision(keys[-1], means[-1], lowest.alpha, count, squares)
        for row in reversed(range(len(values) - 1)):
            below, shape = values[row + 1], values[row].shape
            log_sum = log_sum_by(below, shape)
            children = members(shape, below.shape), self.levels[row + 1].alpha, log_sum
            mean = jnp.broadcast_to(means[row], shape)
            values[row] = slice_log_precision(keys[row], values[row], mean, self.levels[row].alpha, children)
        return {
            name: value.reshape(hyperparameters[name].shape) for name, value in zip(self.names, values, strict=True)
        }


LEVELS: Registry[Level] = Registry("NormalGamma", {"below": f"{__name__}:Level"})


def _level(choice: Any) -> Level:
    if isinstance(choice, Level):
        return choice
    if not isinstance(choice, Mapping):
        raise SettingError(
            f"`NormalGamma(below=...)` must contain levels such as `Level('weight', 1.0)` or tables such as "
            f"{{'group': 'weight', 'alpha': 1.0}}, got {choice!r}."
        )
    return LEVELS.make("below", choice)
