"""The posterior of a network whose rows stay in NumPy arrays, in memory or mapped from files.

Minibatch kernels move the rows to the device in chunks; nothing else can sample it, for that would need all of them.
"""

from typing import Any, NoReturn

import equinox as eqx
import jax
import numpy as np

from ergonet._errors import CapabilityError, DataError
from ergonet._types import AnyArray, Array, Float, Position, Scalar
from ergonet.diagnostics.function_space import choose_reference_rows
from ergonet.models.network_posterior import NUM_REFERENCE_ROWS, BayesianNetwork, NetworkPosterior
from ergonet.models.target import Origin

CHECKED_ROWS = 4096  # that are read at once
SEEN_ROWS = 1000  # that reference rows are chosen among


class HostRows:
    """Inputs `[rows, ...]` and prepared targets `[rows, targets]` on the host; compared by identity."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray):
        self.inputs, self.targets = inputs, targets


class StreamedPosterior(NetworkPosterior):
    """The posterior of a `BayesianNetwork` given rows on the host; build it with `stream`."""

    host: HostRows = eqx.field(static=True)

    def __init__(self, model: BayesianNetwork, host: HostRows, reference: Array):
        super().__init__(model, reference, jax.device_put(host.targets[:1].T), reference)
        self.host = host

    @property
    def num_rows(self) -> int:
        return len(self.host.targets)

    def rows(self) -> tuple[AnyArray, AnyArray]:
        return self.host.inputs, self.host.targets

    def offers(self, capability: str) -> bool:
        return capability in ("monitor", "minibatch_potential")

    def potential(self, position: Position) -> Scalar:
        _refuse("potential")

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        _refuse("log_likelihood")

    def origin(self, position: Position) -> Origin:
        _refuse("origin")

    def lacks(self, capability: str) -> str:
        return "its rows are streamed, and that needs all of them at once"

    def explain(self, position: Position) -> str:
        return "the density of streamed rows was not finite; look at the prior, and at the scale of x and y"


def _refuse(what: str) -> NoReturn:
    raise CapabilityError(
        f"A streamed posterior offers no `{what}`: its rows are never all on the device. Use a minibatch kernel such "
        f"as `ergonet.SGHMC()`, or `BayesianNetwork.condition`."
    )


def stream(model: BayesianNetwork, x: Any, y: Any) -> StreamedPosterior:
    """The posterior given rows that stay on the host, for data larger than the device's memory.

    Args:
        model: the network.
        x: inputs `[rows, ...]`, a floating NumPy array or `numpy.memmap`; read in pieces.
        y: targets, as in `BayesianNetwork.condition`; these are held in memory.

    Raises:
        DataError: x or y is empty, not finite, of different lengths, or x is not floating.
        SettingError: the shapes do not fit the network.
    """
    if not isinstance(x, np.ndarray) or not np.issubdtype(x.dtype, np.floating) or x.ndim < 2 or not len(x):
        raise DataError("`x` must be a floating NumPy array or `numpy.memmap` [rows, features] with at least 1 row.")
    y = np.asarray(y)
    if y.ndim == 0 or len(y) != len(x):
        raise DataError(f"`x` has {len(x)} rows, but `y` has shape {list(y.shape)}. They must match.")
    for name, values in (("x", x), ("y", y)):
        _check_finite(name, values)
    network = model.network
    targets = np.asarray(model.likelihood.prepare(y, model.num_outputs(network.prepare(x[:1]))), x.dtype).T
    seen = np.asarray(x[:: -(-len(x) // SEEN_ROWS)])
    chosen = choose_reference_rows(seen.reshape(len(seen), -1), count=NUM_REFERENCE_ROWS)
    reference = jax.device_put(network.prepare(seen[np.asarray(chosen)]))
    return StreamedPosterior(model, HostRows(x, np.ascontiguousarray(targets)), reference)


def _check_finite(name: str, values: np.ndarray) -> None:
    for start in range(0, len(values), CHECKED_ROWS):
        part = np.asarray(values[start : start + CHECKED_ROWS])
        bad = ~np.isfinite(part.astype(float).reshape(len(part), -1))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise DataError(
                f"`{name}` holds NaN or infinity, the first at row {start + row}, column {column} (counted from 0). "
                f"Drop those rows or fill them in."
            )
