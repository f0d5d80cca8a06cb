"""What is sampled: a potential on flat, unconstrained positions, and the way back to named parameters.

Sampling (hamiltonian, trajectory, samplers, adaptation, inference) knows this file and nothing else of the
models. A target is a pytree: its data are array leaves passed as arguments, so other data of the same shape
never recompile anything.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ergonet._errors import CapabilityError, SettingError
from ergonet._types import Array, Float, Position, PRNGKey, Scalar

START_RADIUS = 2.0


class Origin(eqx.Module):
    """What a potential leaves out, which is its value at some position; see `Target.around`.

    Attributes:
        potential: that value, which draws have put back.
        parts: of it, each of which is taken off its own; the target knows what they are.
    """

    potential: Scalar
    parts: Any = None


class Target(eqx.Module):
    """Minus a log density on R^dim, with optional capabilities.

    Potentials are *sums* over rows at temperature 1; a minibatch potential scales its rows up by N / n. The
    capabilities `monitor` (quantities in function space), `log_likelihood` and `minibatch_potential` raise a
    `CapabilityError` where a target does not offer them; `offers` asks.
    """

    dim: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows of the data; 0 where the target has none that it could be cut into."""

    @abc.abstractmethod
    def potential(self, position: Position) -> Scalar:
        """U(q) = -log density, up to a constant."""

    @abc.abstractmethod
    def unravel(self, position: Position) -> Any:
        """Named parameters (a pytree of arrays) of a flat position."""

    @abc.abstractmethod
    def initial_position(self, key: PRNGKey) -> Position:
        """A random place to start a chain from."""

    @abc.abstractmethod
    def offers(self, capability: str) -> bool:
        """Whether `monitor`, `log_likelihood` or `minibatch_potential` can be called."""

    @abc.abstractmethod
    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        """Quantities of interest at a position, for tuning and convergence in function space."""

    @abc.abstractmethod
    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        """Log likelihood of each row of the data."""

    @abc.abstractmethod
    def rows(self) -> Any:
        """Every row of the data, for `minibatch_potential`: a pytree of arrays with the rows on the first axis."""

    @abc.abstractmethod
    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        """The potential with its likelihood estimated from some of `rows()` (data, not indices), scaled up by N / n."""

    @abc.abstractmethod
    def origin(self, position: Position) -> Origin:
        """What `around` leaves out: the potential at a position, in parts; 0 where it is no sum of parts."""

    @abc.abstractmethod
    def around(self, origin: Origin) -> "Target":
        """The same density, with a potential that is smaller by `origin.potential`, taken off part by part.

        A sum over many rows or weights is large, and float32 resolves it to 1e-7 of its size only; what is left of it
        near the origin is small. The rounding of each row's own log likelihood stays.
        """

    @abc.abstractmethod
    def explain(self, position: Position) -> str:
        """Which part of the density is not finite at `position`, in words; for error messages."""

    @staticmethod
    def from_logdensity(logdensity_fn: Callable[[Any], Scalar], example: Any) -> "LogDensity":
        """A target from any log density.

        Args:
            logdensity_fn: maps a pytree of arrays like `example` to a scalar. Arrays in a callable `eqx.Module` are
                data; arrays in a closure are constants of the compiled program.
            example: a pytree of floating arrays that gives names, shapes and dtype. Chains start from
                Uniform(-2, 2) in every coordinate, as Stan's do.
        """
        return LogDensity(logdensity_fn, example)

    @staticmethod
    def from_terms(
        log_prior_fn: Callable[[Any], Scalar],
        log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]],
        data: Any,
        example: Any,
    ) -> "LogDensityTerms":
        """A target from its log prior and the log likelihood of each row.

        Args:
            log_prior_fn: `params -> scalar`.
            log_likelihood_fn: `(params, rows) -> [rows]`, where `rows` is like `data`.
            data: a pytree of arrays with the rows on the first axis.
            example: a pytree of floating arrays that gives names, shapes and dtype of the parameters.
        """
        return LogDensityTerms(log_prior_fn, log_likelihood_fn, data, example)

    @staticmethod
    def from_numpyro(model: Callable[..., Any], args: Any = (), kwargs: Any = None) -> "Target":
        """A target from a NumPyro program, `model(*args, **kwargs)`, on NumPyro's own unconstrained space.

        `unravel` gives latent sites constrained, and deterministic sites. Chains start from Uniform(-2, 2) in every
        unconstrained coordinate. Sites with a flat, improper prior are taken as they are.

        A program whose rows stand in one `numpyro.plate(name, N, subsample_size=n)` offers `minibatch_potential`; its
        rows are the plate's indices, and a minibatch has n of them. Its `potential` is the full one all the same: a
        loop over chunks of n rows, so a program for full-batch kernels is faster without `subsample_size`.

        Args:
            model: the program. Continuous latent sites, none of them inside the subsampling plate; no `param` sites.
            args: its arguments, a tuple; arrays in them are data, all else is fixed.
            kwargs: its named arguments, a dict, likewise; None: none.

        Raises:
            SettingError: the program has a site that cannot be sampled, or nothing to sample; names the site.
        """
        from ergonet.models.interop.numpyro import NumpyroProgram

        return NumpyroProgram(model, args, kwargs)


class HierarchicalTarget(Target):
    """A target whose position is a block of weights followed by a block of hyperparameters.

    Its capabilities, beside those of every target: `gibbs` (the hyperparameters can be drawn given the weights),
    `weight curvature` (step sizes of centred weights from the hyperparameters), `centered curvature` and
    `non-centered curvature` (step sizes of either block from the other). `lacks` says why one is not offered.
    """

    @property
    @abc.abstractmethod
    def num_weights(self) -> int:
        """Coordinates of the first block; at least 1."""

    @abc.abstractmethod
    def lacks(self, capability: str) -> str:
        """Why the capability is not offered, in words; empty where it is."""

    @abc.abstractmethod
    def scales(self, position: Position) -> dict[str, Array]:
        """Learned standard deviations by name, none of which depends on the order of hidden units; empty: none."""

    @abc.abstractmethod
    def gibbs(self, key: PRNGKey, position: Position) -> Float[Array, "hyperparameters"]:
        """Hyperparameters drawn from their distribution given the weights (one pass through the network)."""

    @abc.abstractmethod
    def weight_curvature(self, hyperparameters: Float[Array, "hyperparameters"]) -> Float[Array, "weights"]:
        """About the second derivative of the potential by each weight, from the hyperparameters alone; above 0."""

    @abc.abstractmethod
    def hyperparameter_curvature(self, weights: Float[Array, "weights"]) -> Float[Array, "hyperparameters"]:
        """About the second derivative of the potential by each hyperparameter, from the weights alone; above 0."""


class Layout(eqx.Module):
    """How a flat position is cut into a pytree of arrays."""

    dim: int = eqx.field(static=True)
    unravel: Callable[[Array], Any] = eqx.field(static=True)

    @staticmethod
    def of(example: Any) -> tuple["Layout", Array]:
        """The layout of `example` and its flat position; raises `SettingError` where it is unusable."""
        leaves = jax.tree_util.tree_leaves_with_path(example)
        if not leaves:
            raise SettingError("`example` holds no array: nothing can be sampled. Give a pytree of floating arrays.")
        for path, leaf in leaves:
            if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
                name = jax.tree_util.keystr(path) or "the example"
                raise SettingError(
                    f"`example`: {name} has dtype {jnp.asarray(leaf).dtype}; Hamiltonian samplers need floating "
                    f"arrays. Make it a float, or take it out of the parameters."
                )
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, example))
        return Layout(dim=flat.size, unravel=unravel), flat

    def uniform_start(self, key: PRNGKey, dtype: Any) -> Array:
        """Uniform(-2, 2) in every coordinate."""
        return jax.random.uniform(key, (self.dim,), dtype, -START_RADIUS, START_RADIUS)


def _missing(capability: str, owner: str, remedy: str) -> CapabilityError:
    return CapabilityError(f"{owner} offers no `{capability}`. {remedy}")


class LogDensity(Target):
    """Any log density; see `Target.from_logdensity`."""

    logdensity_fn: Callable[[Any], Scalar]
    layout: Layout
    example: Array
    dim: int = eqx.field(static=True)

    def __init__(self, logdensity_fn: Callable[[Any], Scalar], example: Any):
        self.logdensity_fn = logdensity_fn
        self.layout, self.example = Layout.of(example)
        self.dim = self.layout.dim

    def potential(self, position: Position) -> Scalar:
        value = jnp.asarray(self.logdensity_fn(self.layout.unravel(position)))
        if value.shape != ():
            raise SettingError(f"`logdensity_fn` must return a scalar, got an array of shape {value.shape}. Sum it.")
        return -value.astype(position.dtype)

    @property
    def num_rows(self) -> int:
        return 0

    def unravel(self, position: Position) -> Any:
        return self.layout.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.layout.uniform_start(key, self.example.dtype)

    def offers(self, capability: str) -> bool:
        return False

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        raise _missing("monitor", "A target from a log density", "Use a `BayesianNetwork` for function space.")

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        raise _missing("log_likelihood", "A target from a log density", "Build it with `Target.from_terms`.")

    def rows(self) -> Any:
        raise _missing("rows", "A target from a log density", "Build it with `Target.from_terms`.")

    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        raise _missing("minibatch_potential", "A target from a log density", "Build it with `Target.from_terms`.")

    def origin(self, position: Position) -> Origin:
        return Origin(jnp.zeros((), position.dtype))

    def around(self, origin: Origin) -> "LogDensity":
        return self

    def explain(self, position: Position) -> str:
        return f"the log density itself is {-self.potential(position)} there"


class LogDensityTerms(Target):
    """A log prior and a log likelihood by rows; see `Target.from_terms`."""

    log_prior_fn: Callable[[Any], Scalar]
    log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]]
    data: Any
    layout: Layout
    example: Array
    left_out: tuple[Scalar, Scalar]  # log prior, log likelihood of a row on average
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        log_prior_fn: Callable[[Any], Scalar],
        log_likelihood_fn: Callable[[Any, Any], Float[Array, "rows"]],
        data: Any,
        example: Any,
    ):
        self.log_prior_fn = log_prior_fn
        self.log_likelihood_fn = log_likelihood_fn
        self.data = jax.tree.map(jnp.asarray, data)
        self.layout, self.example = Layout.of(example)
        self.dim = self.layout.dim
        self.left_out = jnp.zeros((), self.example.dtype), jnp.zeros((), self.example.dtype)
        count_rows(self.data)

    @property
    def num_rows(self) -> int:
        return count_rows(self.data)

    def potential(self, position: Position) -> Scalar:
        params, (prior, row) = self.layout.unravel(position), self.left_out
        likelihood = jnp.sum(self.log_likelihood_fn(params, self.data) - row)
        return -(self.log_prior_fn(params) - prior + likelihood).astype(position.dtype)

    def unravel(self, position: Position) -> Any:
        return self.layout.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.layout.uniform_start(key, self.example.dtype)

    def offers(self, capability: str) -> bool:
        return capability in ("log_likelihood", "minibatch_potential")

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        raise _missing("monitor", "A target from terms", "Use a `BayesianNetwork` for function space.")

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        return self.log_likelihood_fn(self.layout.unravel(position), self.data)

    def rows(self) -> Any:
        return self.data

    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        params = self.layout.unravel(position)
        scale = self.num_rows / count_rows(rows)
        likelihood = scale * jnp.sum(self.log_likelihood_fn(params, rows))
        return -(self.log_prior_fn(params) + likelihood).astype(position.dtype)

    def origin(self, position: Position) -> Origin:
        """The log prior is one number here, which is rounded as it is."""
        prior, rows = self.log_prior_fn(self.layout.unravel(position)), self.log_likelihood(position)
        parts = jax.tree.map(lambda one: jnp.asarray(one, position.dtype), (prior, jnp.mean(rows)))
        return Origin(-(prior + jnp.sum(rows)).astype(position.dtype), parts)

    def around(self, origin: Origin) -> "LogDensityTerms":
        return eqx.tree_at(lambda target: target.left_out, self, origin.parts)

    def explain(self, position: Position) -> str:
        params = self.layout.unravel(position)
        prior = self.log_prior_fn(params)
        if not bool(jnp.isfinite(prior)):
            return f"the log prior is {prior} there"
        rows = self.log_likelihood_fn(params, self.data)
        bad = ~jnp.isfinite(rows)
        if bool(bad.any()):
            first = int(jnp.argmax(bad))
            return f"the log likelihood of row {first} (counted from 0) is {rows[first]} there"
        return "log prior and log likelihood are finite there, but their gradient is not"


def count_rows(data: Any) -> int:
    """The length that all first axes of a pytree of arrays share; raises `SettingError` where they do not."""
    counts = {leaf.shape[0] if getattr(leaf, "ndim", 0) else 0 for leaf in jax.tree.leaves(data)}
    if len(counts) != 1 or 0 in counts:
        raise SettingError(
            f"`data` must be arrays with the same number of rows (at least 1) on their first axis, got {counts}."
        )
    return counts.pop()


def flatten_names(parameters: Any) -> Mapping[str, Array]:
    """Names such as `layers.0.weight` for the leaves of a pytree, in order."""
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
        parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in path]
        named[".".join(parts) or "x"] = leaf
    return named
