"""Assignment of priors to leaves."""

import itertools
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._errors import SettingError, suggest
from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.equinox import as_network
from ergonet.models.network import Leaf
from ergonet.models.prior.base import AbstractPrior, WithRoots
from ergonet.models.prior.density import Density
from ergonet.models.prior.simple import AbstractNormalPrior, standard_normals


class Block(eqx.Module):
    """Neighboring leaves with one prior, as one array.

    Attributes:
        name: of the leaf, or of what the leaves have in common.
        prior: of the weights.
        leaf: that array.
        start: where its coordinates begin in a position.
        paths: the leaves' own names.
        leaves: the leaves themselves, in the same order.
    """

    name: str = eqx.field(static=True)
    prior: AbstractPrior
    leaf: Leaf = eqx.field(static=True)
    start: int = eqx.field(static=True)
    paths: tuple[str, ...] = eqx.field(static=True)
    leaves: tuple[Leaf, ...] = eqx.field(static=True)

    def coordinates(self, position: Array) -> Array:
        """The coordinates of the weights, in the shape of the block."""
        return position[self.start : self.start + self.leaf.size].reshape(self.leaf.shape)

    def own(self) -> dict[str, Leaf]:
        """The hyperparameters of the block, by their names in a position."""
        return {f"prior.{self.name}.{name}": leaf for name, leaf in self.prior.hyperparameters(self.leaf).items()}

    def hyperparameters(self, named: Mapping[str, Array]) -> dict[str, Array]:
        """The hyperparameters of the block, selected from those of all blocks, by the prior's names."""
        names = {name: f"prior.{self.name}.{name}" for name in self.prior.hyperparameters(self.leaf)}
        own = {name: named[full] for name, full in names.items()}
        if isinstance(named, WithRoots):
            return WithRoots(own, {name: named.roots[full] for name, full in names.items()})
        return own

    def cut(self, weights: Array) -> dict[str, Array]:
        """The block's array as its leaves."""
        if len(self.leaves) == 1:
            return {self.paths[0]: weights}
        ends = list(itertools.accumulate(leaf.size for leaf in self.leaves))
        parts = jnp.split(weights.reshape(-1), ends[:-1])
        return {path: part.reshape(leaf.shape) for path, part, leaf in zip(self.paths, parts, self.leaves, strict=True)}


class PriorAssignment(eqx.Module):
    """The priors of all leaves, in the order of the flat position: first all weights, then all hyperparameters."""

    paths: tuple[str, ...] = eqx.field(static=True)
    leaves: tuple[Leaf, ...] = eqx.field(static=True)
    priors: tuple[AbstractPrior, ...]

    def __check_init__(self):
        seen: dict[str, Block] = {}
        for block in self.blocks():
            for name in block.own():  # raises an error for groups that a leaf does not have
                if name in seen:
                    raise SettingError(
                        f"`prior`: {seen[name].paths[-1]} and {block.paths[0]} would both have {name!r}. The leaves of "
                        f"a layer share a group `layer` if they are adjacent and have the same prior; otherwise give "
                        f"each its own prior with `group='leaf'`."
                    )
                seen[name] = block

    @property
    def num_weights(self) -> int:
        """Coordinates of the weights."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def dim(self) -> int:
        """Number of coordinates, hyperparameters included."""
        return self.num_weights + sum(leaf.size for leaf in self.own().values())

    def own(self) -> dict[str, Leaf]:
        """All hyperparameters by name, in order."""
        return {name: leaf for block in self.blocks() for name, leaf in block.own().items()}

    def blocks(self) -> list[Block]:
        """Merge adjacent leaves if their prior treats them as one block."""
        runs: list[tuple[str, AbstractPrior, list[int]]] = []
        for index, (path, prior) in enumerate(zip(self.paths, self.priors, strict=True)):
            name = prior.shares(path)
            if runs and runs[-1][0] == name and type(runs[-1][1]) is type(prior) and runs[-1][1] == prior:
                runs[-1][2].append(index)
            else:
                runs.append((name, prior, [index]))
        found, start = [], 0
        for name, prior, rows in runs:
            paths, leaves = tuple(self.paths[row] for row in rows), tuple(self.leaves[row] for row in rows)
            size = sum(leaf.size for leaf in leaves)
            leaf = leaves[0] if len(leaves) == 1 else Leaf(shape=(size,), fan_in=1)
            found.append(Block(name=name, prior=prior, leaf=leaf, start=start, paths=paths, leaves=leaves))
            start += size
        return found

    def parts(self, position: Array) -> tuple[list[tuple[Block, Array]], WithRoots]:
        """All blocks with their coordinates, and all hyperparameters by name."""
        blocks, own = self.blocks(), self.own()
        sizes, own_sizes = ([one.size for one in leaves] for leaves in ([block.leaf for block in blocks], own.values()))
        start = self.num_weights
        *pieces, values, _ = jnp.split(position, [*itertools.accumulate(sizes), start + sum(own_sizes)])
        coordinates = [(block, piece.reshape(block.leaf.shape)) for block, piece in zip(blocks, pieces, strict=True)]
        roots = jax.lax.optimization_barrier(jnp.exp(-0.5 * values))
        ends = list(itertools.accumulate(own_sizes))[:-1]

        def by_name(all_: Array) -> dict[str, Array]:
            split = zip(own.items(), jnp.split(all_, ends), strict=True) if own else ()
            return {name: piece.reshape(leaf.shape) for (name, leaf), piece in split}

        return coordinates, WithRoots(by_name(values), by_name(roots))

    def hyperparameters(self, position: Array) -> dict[str, Array]:
        """All of a position by name."""
        return self.parts(position)[1]

    def split(self, position: Array) -> dict[str, Array]:
        """The network's weights of a flat position as named arrays."""
        blocks, named = self.parts(position)
        weights: dict[str, Array] = {}
        for block, coordinates in blocks:
            weights |= block.cut(block.prior.weights(coordinates, block.hyperparameters(named), block.leaf))
        return weights

    def density(self, position: Array) -> Density:
        """Prior density of all coordinates of a flat position, hyperparameters included."""
        blocks, named = self.parts(position)
        return Density.product(
            *(
                block.prior.density(coordinates, block.hyperparameters(named), block.leaf)
                for block, coordinates in blocks
            )
        )

    def log_prob(self, position: Array) -> Scalar:
        """Log prior density of all coordinates of a flat position."""
        return self.density(position).whole

    def sample(self, key: PRNGKey, dtype: DTypeLike, *, is_start: bool = False) -> Array:
        """Draw a flat position from the prior, or, for initial values, with hyperparameters near `initial_values`."""
        keys = dict(zip(self.paths, jax.random.split(key, len(self.leaves)), strict=True))
        drawn = self._draw_normal(keys, dtype)
        weights, hyperparameters = [], [jnp.zeros((0,), dtype)]
        for block in self.blocks():
            prior, one = block.prior, keys[block.paths[0]]
            if not block.own():  # leaf by leaf, so that draws do not depend on which leaves are merged
                parts = zip(block.paths, block.leaves, strict=True)
                weights += [
                    (drawn[path] if path in drawn else prior.draw(keys[path], {}, leaf, dtype)).reshape(-1)
                    for path, leaf in parts
                ]
                continue
            key_own, key_weights = jax.random.split(one)
            if is_start:
                own = jitter(key_own, prior.initial_values(block.leaf, dtype))
            else:
                own = prior.draw_own(key_own, block.leaf, dtype)
            weights.append(prior.draw(key_weights, own, block.leaf, dtype).reshape(-1))
            hyperparameters += [own[name].reshape(-1) for name in prior.hyperparameters(block.leaf)]
        return jnp.concatenate([*weights, *hyperparameters])

    def _draw_normal(self, keys: Mapping[str, PRNGKey], dtype: DTypeLike) -> dict[str, Array]:
        """The weights of the leaves with a fixed normal prior."""
        rows = zip(self.paths, self.leaves, self.priors, strict=True)
        normal = [
            (path, leaf, prior)
            for path, leaf, prior in rows
            if isinstance(prior, AbstractNormalPrior) and prior.draws_as_normal
        ]
        noise = standard_normals([keys[path] for path, *_ in normal], [leaf for _, leaf, _ in normal], dtype)
        return {path: prior.scaled(one, leaf) for (path, leaf, prior), one in zip(normal, noise, strict=True)}

    @property
    def lacks_conjugacy(self) -> str:
        """Why a Gibbs step cannot draw the hyperparameters, in words; empty if it can."""
        return next((reason for block in self.blocks() if (reason := block.prior.lacks_conjugacy)), "")

    def gibbs(self, key: PRNGKey, position: Array) -> Array:
        """Draw hyperparameters `[hyperparameters]` given the weights of a flat position."""
        blocks, named = self.parts(position)
        drawn = [jnp.zeros((0,), position.dtype)]
        for one, (block, coordinates) in zip(jax.random.split(key, len(blocks)), blocks, strict=True):
            own = block.hyperparameters(named)
            weights = block.prior.weights(coordinates, own, block.leaf)
            found = block.prior.gibbs(one, weights, own, block.leaf)
            drawn += [found[name].reshape(-1) for name in own]
        return jnp.concatenate(drawn)

    def describe(self, others: Mapping[str, Leaf] | None = None) -> str:
        """One line per leaf (path, shape, coordinates, prior) and per hyperparameter, and the totals.

        `others` are hyperparameters that do not belong to the prior, such as learned noise.
        """
        rows = [
            f"{path:24s} {list(leaf.shape)!s:14s} {math.prod(leaf.shape):8d}  {prior!r}"
            for path, leaf, prior in zip(self.paths, self.leaves, self.priors, strict=True)
        ]
        own = self.own() | dict(others or {})
        rows += [f"{name:39s} {leaf.size:8d}  hyperparameter" for name, leaf in own.items()]
        if own:
            added = sum(leaf.size for leaf in own.values())
            total = self.num_weights + added
            rows.append(f"{self.num_weights} weights and {added} hyperparameters: {total} coordinates")
        return "\n".join(rows)


def jitter(key: PRNGKey, own: Mapping[str, Array]) -> dict[str, Array]:
    """Move every hyperparameter by Uniform(-1, 1), so that chains have different initial values."""
    keys = jax.random.split(key, max(1, len(own)))
    return {
        name: value + jax.random.uniform(one, value.shape, value.dtype, -1, 1)
        for one, (name, value) in zip(keys, own.items(), strict=False)
    }


def _by_pattern(prior: Any) -> Mapping[str, AbstractPrior]:
    """Priors by leaf pattern, from an argument that may be anything."""
    patterns = {"*": prior} if isinstance(prior, AbstractPrior) else prior
    if isinstance(patterns, Mapping) and all(isinstance(p, AbstractPrior) for p in patterns.values()):
        return patterns
    raise SettingError(
        f"`prior` must be a prior such as `priors.Normal(1.0)`, or a mapping of leaf patterns to priors, got {prior!r}."
    )


def assign(prior: AbstractPrior | Mapping[str, AbstractPrior], leaves: Mapping[str, Leaf]) -> PriorAssignment:
    """Assign a prior to each leaf.

    Args:
        prior: one prior for all leaves, or a mapping from `fnmatch` patterns of leaf paths to priors; the first
            pattern that matches a leaf decides.
        leaves: the leaves of the network.

    Raises:
        SettingError: a pattern matches no leaf or only those of a broader one before it, a leaf has no prior, or a
            value is not a prior.
    """
    chosen: dict[str, AbstractPrior] = {}
    earlier: dict[str, set[str]] = {}
    for pattern, choice in _by_pattern(prior).items():
        matched = {path for path in leaves if fnmatchcase(path, pattern)}
        if not matched:
            raise SettingError(f"`prior`: the pattern {pattern!r} matches no leaf. {suggest(pattern, leaves)}")
        broader = next((one for one, those in earlier.items() if matched < those), None)
        if broader is not None and matched <= chosen.keys():
            raise SettingError(
                f"`prior`: the pattern {pattern!r} decides nothing, because {broader!r} comes first and matches the "
                f"same leaves and more. Put {pattern!r} before it."
            )
        earlier[pattern] = matched
        for path in matched:
            chosen.setdefault(path, choice)
    without = [path for path in leaves if path not in chosen]
    if without:
        raise SettingError(f"`prior`: no pattern matches {', '.join(without)}. Add a pattern such as '*'.")
    return PriorAssignment(
        paths=tuple(leaves), leaves=tuple(leaves.values()), priors=tuple(chosen[path] for path in leaves)
    )


def describe(prior: AbstractPrior | Mapping[str, AbstractPrior], network: Any) -> str:
    """Describe which prior each leaf of a network has, and how many hyperparameters there are.

    Args:
        prior: as in `BayesianNetwork`.
        network: as in `BayesianNetwork`.
    """
    return assign(prior, as_network(network).leaves()).describe()
