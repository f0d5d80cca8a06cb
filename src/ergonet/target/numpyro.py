"""NumPyro programs as targets; NumPyro provides bijectors, Jacobians and the scaling of subsampled rows."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions.transforms import biject_to
from numpyro.handlers import block, seed, substitute, trace
from numpyro.infer.initialization import init_to_uniform
from numpyro.infer.util import potential_energy
from numpyro.primitives import Messenger

from ergonet._errors import CapabilityError, SettingError
from ergonet._types import Array, Float, Int, Position, PRNGKey, Scalar
from ergonet.target.capabilities import PointwiseLogLikelihood, Rows
from ergonet.target.contract import AbstractTarget, Capability, CapabilityT, Missing, ReferencePoint, own_capability
from ergonet.target.layout import Layout, check_function

Site = Mapping[str, Any]
NO_PLATE = (
    "the NumPyro program has no subsampling plate. Put the rows into one: "
    '`with numpyro.plate("rows", len(y), subsample_size=100) as i: '
    'numpyro.sample("y", dist.Normal(x[i] @ w, 1), obs=y[i])`'
)


class Plate(NamedTuple):
    """The subsampling plate: `size` rows, of which `batch` are used at a time."""

    name: str
    size: int
    batch: int


class RowAxis(NamedTuple):
    """The axis (negative) of an observed site's log density that counts the rows."""

    site: str
    axis: int


class _At(Messenger):
    """Runs a program at given indices of its subsampling plate, however many there are."""

    def __init__(self, model: Callable[..., Any], plate: Plate | None, indices: Array | None):
        super().__init__(model)
        self.plate, self.indices = plate, indices

    def process_message(self, msg: Any) -> None:
        if self.plate and self.indices is not None and msg["type"] == "plate" and msg["name"] == self.plate.name:
            # The second argument is the expected size; without it, NumPyro would warn about the number of indices.
            msg["value"], msg["args"] = self.indices, (msg["args"][0], self.indices.shape[0])


class NumpyroProgram(AbstractTarget):
    """The posterior of a NumPyro program; see `Target.from_numpyro`."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layout: Layout
    example: Array
    dim: int = eqx.field(static=True)
    plate: Plate | None = eqx.field(static=True)
    row_axis: RowAxis | str = eqx.field(static=True)  # or why the rows cannot be identified

    def __init__(self, model: Any, args: Any, kwargs: Any):
        if not callable(model):
            raise SettingError(f"`model` must be a NumPyro program, a function that calls `sample`, got {model!r}.")
        if not isinstance(args, tuple) or not isinstance(kwargs, Mapping | None):
            raise SettingError(
                f"`args` must be a tuple and `kwargs` a dict, as in `model(*args, **kwargs)`, got "
                f"{type(args).__name__} and {type(kwargs).__name__}. One argument is `args=(x,)`."
            )
        check_function(model, "model", args, kwargs or {})
        self.model = model
        self.args, self.kwargs = jax.tree.map(_leaf, (args, dict(kwargs or {})))
        survey = _survey(self.model, self.args, self.kwargs)
        dtype = jnp.result_type(float)
        self.layout, self.example = Layout.of({name: jnp.zeros(s, dtype) for name, s in survey.shapes.items()})
        self.dim, self.plate, self.row_axis = self.layout.dim, survey.plate, survey.rows

    def potential(self, position: Position) -> Scalar:
        if self.plate is None:
            return self.energy(position, None)
        size = self.plate.size

        @jax.checkpoint
        def add(total: Scalar, rows: Int[Array, "rows"]) -> tuple[Scalar, None]:
            return total + self.energy(position, rows) * (rows.shape[0] / size), None

        whole, rest = self.chunks()
        total, _ = lax.scan(add, jnp.zeros((), position.dtype), whole)
        return add(total, rest)[0] if rest.size else total

    def energy(self, position: Position, rows: Int[Array, "rows"] | None) -> Scalar:
        """NumPyro's potential, with the log likelihood of these rows scaled to all rows."""
        model, params = _At(self.model, self.plate, rows), self.layout.unravel(position)
        try:
            with block():  # the target may be part of another program
                return jnp.asarray(potential_energy(model, self.args, self.kwargs, params), position.dtype)
        except (TypeError, ValueError) as error:
            if self.plate is None or rows is None or rows.shape[0] == self.plate.batch:
                raise
            raise CapabilityError(
                f"The number of rows, {self.plate.size}, is not a multiple of subsample_size={self.plate.batch} of the "
                f"plate {self.plate.name!r}, and the program cannot be run with {rows.shape[0]} of them ({error}). "
                f"Take "
                f"the number of rows from the plate's indices instead of a constant, or choose a divisor."
            ) from error

    def chunks(self) -> tuple[Int[Array, "chunk rows"], Int[Array, "rest"]]:
        """Indices of all rows, in chunks of the plate's subsample size, and the remaining ones."""
        assert self.plate is not None
        rows = jnp.arange(self.plate.size)
        end = self.plate.size - self.plate.size % self.plate.batch
        return rows[:end].reshape(-1, self.plate.batch), rows[end:]

    def _trace(self, position: Position, rows: Int[Array, "rows"] | None) -> Mapping[str, Site]:
        """All sites, with the constrained values of the latent sites."""
        params = self.layout.unravel(position)

        def constrained(site: Site) -> Any:
            if site["type"] == "sample" and site["name"] in params:
                return biject_to(site["fn"].support)(params[site["name"]])
            return None

        program = trace(substitute(_At(self.model, self.plate, rows), substitute_fn=constrained))
        with block():
            return program.get_trace(*self.args, **self.kwargs)

    def unravel(self, position: Position) -> dict[str, Array]:
        """Constrained values of the latent sites, and the deterministic sites outside the subsampling plate."""
        rows = None if self.plate is None else jnp.arange(self.plate.batch)
        latent = self.layout.unravel(position)
        return {
            name: jnp.asarray(site["value"])
            for name, site in self._trace(position, rows).items()
            if name in latent or (site["type"] == "deterministic" and not _is_inside(site, self.plate))
        }

    def initial_position(self, key: PRNGKey) -> Position:
        return self.layout.uniform_start(key, self.example.dtype)

    def row_densities(self, position: Position, rows: Int[Array, "rows"] | None) -> Float[Array, "rows"]:
        """Log density of the observed site for each row, at these indices of the plate."""
        assert isinstance(self.row_axis, RowAxis)
        site = self._trace(position, rows)[self.row_axis.site]
        values = jnp.moveaxis(site["fn"].log_prob(site["value"]), self.row_axis.axis, 0)
        return jnp.sum(values.reshape(values.shape[0], -1), axis=1)

    def reference_point(self, position: Position) -> ReferencePoint:
        return ReferencePoint(jnp.zeros((), position.dtype))

    def relative_to(self, reference: ReferencePoint) -> "NumpyroProgram":
        return self

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        found: Capability | Missing | None = None
        if issubclass(Subsamples, kind):
            found = Missing(NO_PLATE) if self.plate is None else Subsamples(self, self.plate)
        elif issubclass(ObservedRows, kind):
            found = Missing(self.row_axis) if isinstance(self.row_axis, str) else ObservedRows(self)
        return found if isinstance(found, kind | Missing) else own_capability(self, kind)

    def explain(self, position: Position) -> str:
        for rows in self._each_chunk():
            for name, site in self._trace(position, rows).items():
                if site["type"] != "sample":
                    continue
                if not site["is_observed"] and not bool(jnp.all(jnp.isfinite(site["value"]))):
                    return f"the value of the site {name!r} is not finite there"
                density = jnp.asarray(site["fn"].log_prob(site["value"]))
                bad = np.argwhere(~np.isfinite(density))
                if len(bad):
                    return self._blame(name, density, bad[0], rows)
        return "the log density of every site is finite there, but a Jacobian, their sum or its gradient is not"

    def _each_chunk(self) -> Iterator[Array | None]:
        if self.plate is None:
            yield None
            return
        whole, rest = self.chunks()
        yield from whole
        if rest.size:
            yield rest

    def _blame(self, name: str, density: Array, index: Any, rows: Array | None) -> str:
        value = density[tuple(index)]
        if isinstance(self.row_axis, RowAxis) and name == self.row_axis.site:
            row = int(index[self.row_axis.axis])
            row = row if rows is None else int(rows[row])
            return f"the log density of row {row} (counted from 0) of the observed site {name!r} is {value} there"
        where = f" at index {[int(i) for i in index]}" if len(index) else ""
        return f"the log density of the site {name!r} is {value}{where} there"


class Subsamples(Rows):
    """The rows of a program's subsampling plate, represented by its indices."""

    program: NumpyroProgram
    plate: Plate = eqx.field(static=True)

    @property
    def num_rows(self) -> int:
        return self.plate.size

    def rows(self) -> Int[Array, "rows"]:
        return jnp.arange(self.plate.size)

    def minibatch_potential(self, position: Position, rows: Int[Array, "rows"]) -> Scalar:
        """The potential estimated from as many rows as the plate's subsample size, or from a single row.

        A single row gives per-example gradients.
        """
        if rows.shape[0] not in (self.plate.batch, 1):
            raise SettingError(
                f"A minibatch of this NumPyro program has {self.plate.batch} rows, the subsample_size of its plate "
                f"{self.plate.name!r}, got {rows.shape[0]}. Set the batch size to {self.plate.batch}, or the plate's "
                f"subsample_size to {rows.shape[0]}."
            )
        return self.program.energy(position, rows)


class ObservedRows(PointwiseLogLikelihood):
    """The log density of a program's only observed site, by rows."""

    program: NumpyroProgram

    @property
    def num_rows(self) -> int:
        if self.program.plate is not None:
            return self.program.plate.size
        return eqx.filter_eval_shape(self.log_likelihood, self.program.example).shape[0]

    def log_likelihood(self, position: Position, rows: Int[Array, "row"] | None = None) -> Float[Array, "row"]:
        """Without a plate, the log likelihood of some rows costs as much as that of all rows."""
        program = self.program
        if program.plate is None:
            every = program.row_densities(position, None)
            return every if rows is None else every[rows]
        wanted = jnp.arange(self.num_rows) if rows is None else rows
        missing = -wanted.shape[0] % program.plate.batch
        chunks = jnp.pad(wanted, (0, missing), mode="edge").reshape(-1, program.plate.batch)
        found = lax.map(lambda chunk: program.row_densities(position, chunk), chunks)
        return found.reshape(-1)[: wanted.shape[0]]


class _Survey(NamedTuple):
    shapes: dict[str, tuple[int, ...]]  # of the unconstrained latent sites
    plate: Plate | None
    rows: RowAxis | str


def _leaf(value: Any) -> Any:
    """Convert arrays to JAX arrays, and NumPy scalars to Python numbers, which are not arguments of the program."""
    if isinstance(value, jax.Array):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            raise SettingError(
                f"An array of dtype {value.dtype} in `args` or `kwargs` cannot be data of a NumPyro program. "
                f"Encode it as numbers."
            )
        return jnp.asarray(value)
    try:
        hash(value)
    except TypeError:
        raise SettingError(
            f"A {type(value).__name__} in `args` or `kwargs` is neither an array nor hashable, so it cannot be part of "
            f"a compiled program. Pass its arrays instead, or bind it with `functools.partial`."
        ) from None
    return value


def _survey(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Survey:
    """Survey the sites of the program by tracing it once, without computing anything."""
    found: list[_Survey] = []

    def run(given: tuple[Any, Any, Any]) -> None:
        model, args, kwargs = given
        program = substitute(seed(model, jax.random.key(0)), substitute_fn=init_to_uniform())
        with block():
            sites = trace(program).get_trace(*args, **kwargs)
        plate = _subsampling_plate(sites)
        found.append(_Survey(_latent_shapes(sites, plate), plate, _find_rows(sites, plate)))

    try:
        eqx.filter_eval_shape(run, (model, args, kwargs))
    except jax.errors.TracerArrayConversionError as error:
        raise SettingError(
            "The program passes a traced value to NumPy, most often by indexing a NumPy array that it closes over. "
            "Pass its data in `args` or `kwargs`, and compute with `jax.numpy`."
        ) from error
    except NotImplementedError as error:
        raise SettingError(f"The NumPyro program cannot be transformed to unconstrained space: {error}") from error
    return found[0]


def _subsampling_plate(sites: Mapping[str, Site]) -> Plate | None:
    plates = [
        Plate(name, *site["args"])
        for name, site in sites.items()
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0])
    ]
    if not plates:
        return None
    if len(plates) > 1:
        raise SettingError(
            f"The NumPyro program has {len(plates)} subsampling plates ({', '.join(p.name for p in plates)}); at most "
            f"one is allowed. Pass `subsample_size` only to the plate of the rows."
        )
    (plate,) = plates
    if not 1 <= plate.batch <= plate.size:
        raise SettingError(f"The plate {plate.name!r} has {plate.size} rows, but subsample_size={plate.batch}.")
    if not any(site["type"] == "sample" and _is_inside(site, plate) for site in sites.values()):
        raise SettingError(
            f"There is no observed site inside the subsampling plate {plate.name!r}. Indent the observed `sample` "
            f"below "
            f"the plate's `with`, and index the data with its indices."
        )
    return plate


def _latent_shapes(sites: Mapping[str, Site], plate: Plate | None) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for name, site in sites.items():
        if site["type"] in ("param", "mutable"):
            raise SettingError(
                f"The NumPyro program has the site {name!r} of type {site['type']!r}, which is not a random variable. "
                f"Give it a prior with `numpyro.sample`, or pass its value in `args`."
            )
        if site["type"] != "sample" or site["is_observed"]:
            continue
        if site["fn"].support.is_discrete:
            raise SettingError(
                f"The site {name!r} is discrete and not observed; Hamiltonian samplers need continuous ones. Sum it "
                f"out, e.g. with `dist.MixtureSameFamily`, or condition on it."
            )
        if _is_inside(site, plate):
            raise SettingError(
                f"The site {name!r} is not observed and stands inside the subsampling plate, so each minibatch would "
                f"have variables of its own. Leave `subsample_size` out, or integrate the site out."
            )
        shapes[name] = jnp.shape(biject_to(site["fn"].support).inv(site["value"]))
    if not shapes:
        raise SettingError(
            "The NumPyro program has no latent site, so there is nothing to sample. Is every site observed?"
        )
    return shapes


def _is_inside(site: Site, plate: Plate | None) -> bool:
    return plate is not None and any(frame.name == plate.name for frame in site["cond_indep_stack"])


def _find_rows(sites: Mapping[str, Site], plate: Plate | None) -> RowAxis | str:
    """The axis of the observed site's log density that counts rows, or why it cannot be identified."""
    observed = {
        name: site
        for name, site in sites.items()
        if site["type"] == "sample" and site["is_observed"] and not site["infer"].get("is_auxiliary")
    }
    if len(observed) != 1:
        return f"the NumPyro program has {len(observed)} observed sites, and one is needed"
    ((name, site),) = observed.items()
    frames = [f for f in site["cond_indep_stack"] if plate is None or f.name == plate.name]
    if len(frames) == 1:
        return RowAxis(name, frames[0].dim)
    if not site["cond_indep_stack"] and site["fn"].log_prob(site["value"]).ndim == 1:
        return RowAxis(name, -1)
    return (
        f"the rows of the program's observed site {name!r} cannot be told. Put it into one plate, with the rows on its "
        f"axis"
    )
