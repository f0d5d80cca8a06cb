"""The posterior of a network whose rows stay in NumPy arrays, in memory or memory-mapped.

Only minibatch kernels can sample it: they move the rows to the device in chunks; other kernels need all rows at once.
"""

from typing import Any, ClassVar, NoReturn

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from ergonet._errors import CapabilityError, DataError
from ergonet._types import AnyArray, Array, Int, Position, Scalar
from ergonet.diagnostics.function_space import choose_reference_rows
from ergonet.models.checked import CLASSES, numbers, precision_of
from ergonet.models.network_posterior import NUM_REFERENCE_ROWS, AbstractNetworkPosterior, BayesianNetwork
from ergonet.models.weighting import prepared
from ergonet.target.contract import CapabilityT, Missing, ReferencePoint, own_capability

CHECKED_ROWS = 4096  # rows read at once
STREAMED = "its rows are streamed, and that needs all of them at once"
SEEN_ROWS = 1000  # rows among which reference rows are chosen


class HostRows:
    """Inputs `[rows, ...]` and prepared targets `[rows, targets]` on the host; compared by identity."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray):
        self.inputs, self.targets = inputs, targets


class StreamedPosterior(AbstractNetworkPosterior):
    """The posterior of a `BayesianNetwork` given rows on the host; make it with `stream`."""

    is_streamed: ClassVar[bool] = True

    model: BayesianNetwork
    reference: Array
    count: Int[Array, ""]
    host: HostRows | None = eqx.field(static=True)  # None: the part on the device
    dim: int = eqx.field(static=True)

    def __init__(self, model: BayesianNetwork, reference: Array, count: Array, host: HostRows | None = None):
        self.model, self.reference, self.count, self.host = model, reference, count, host
        self.dim = model.dim

    @property
    def num_rows(self) -> Any:
        """Rows of the data: an integer, traced where the posterior is an argument of a compiled function."""
        return self.count if isinstance(self.count, Tracer) else int(self.count)

    def rows(self) -> tuple[AnyArray, AnyArray]:
        if self.host is None:
            _refuse("rows")
        return self.host.inputs, self.host.targets

    def device_part(self) -> "StreamedPosterior":
        return StreamedPosterior(self.model, self.reference, self.count)

    def potential(self, position: Position) -> Scalar:
        _refuse("potential")

    def reference_point(self, position: Position) -> ReferencePoint:
        _refuse("reference_point")

    def relative_to(self, reference: ReferencePoint) -> NoReturn:
        _refuse("relative_to")

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        found = own_capability(self, kind)
        return Missing(STREAMED) if isinstance(found, Missing) else found

    def explain(self, position: Position) -> str:
        return "the density of streamed rows was not finite; look at the prior, and at the scale of x and y"


def _refuse(what: str) -> NoReturn:
    raise CapabilityError(
        f"A streamed posterior has no `{what}`: its rows are never all on the device. Use a minibatch kernel such "
        f"as `ergonet.SGHMC()`, or `BayesianNetwork.condition`."
    )


def stream(model: BayesianNetwork, x: Any, y: Any, *, weights: Any = None) -> StreamedPosterior:
    """Condition on rows that stay on the host, for data larger than the memory of the device.

    Args:
        model: the network.
        x: inputs `[rows, ...]`, a floating-point NumPy array or `numpy.memmap`; read in chunks.
        y: targets, as in `BayesianNetwork.condition`; held in memory.
        weights: weights of the rows, as there.

    Returns:
        The posterior.

    Raises:
        DataError: `x` or `y` is empty or not finite, their lengths differ, or `x` is not floating-point.
        SettingError: the shapes do not match the network.
    """
    if not isinstance(x, np.ndarray) or not np.issubdtype(x.dtype, np.floating) or x.ndim < 2 or not len(x):
        raise DataError("`x` must be a floating-point NumPy array or `numpy.memmap`, [rows, ...] with at least 1 row.")
    y = numbers("y", y, CLASSES)
    if y.ndim == 0 or len(y) != len(x):
        raise DataError(f"`x` has {len(x)} rows, but `y` has shape {list(y.shape)}. They must match.")
    for name, values in (("x", x), ("y", y)):
        _check_finite(name, values)
    network = model.network
    model, prepared_targets = prepared(model, y, model.num_outputs(network.prepare(x[:1])), weights)
    targets = prepared_targets.astype(precision_of(x)).T
    seen = np.asarray(x[:: -(-len(x) // SEEN_ROWS)], precision_of(x))
    chosen = choose_reference_rows(seen.reshape(len(seen), -1), count=NUM_REFERENCE_ROWS)
    reference, count = jax.device_put((network.prepare(seen[np.asarray(chosen)]), np.int32(len(x))))
    return StreamedPosterior(model, reference, count, HostRows(x, np.ascontiguousarray(targets)))


def _check_finite(name: str, values: np.ndarray) -> None:
    for start in range(0, len(values), CHECKED_ROWS):
        part = np.asarray(values[start : start + CHECKED_ROWS])
        bad = ~np.isfinite(part.astype(float).reshape(len(part), -1))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise DataError(
                f"`{name}` contains NaN or infinite values, the first at row {start + row}, column {column} (counted "
                f"from 0). Drop these rows or impute the values."
            )
