"""Partial dependence: the prediction as a function of one column, averaged over rows (Friedman2001)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._errors import CapabilityError
from ergonet._types import Array
from ergonet.datasets.kinds import ORDINAL
from ergonet.explanation.explained import Explained, Input, chosen, spread_rows
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.chunks import Rows, draw_chunks
from ergonet.prediction.moments import network_outputs
from ergonet.prediction.probabilities import calibrated
from ergonet.prediction.units import with_target_means

POINTS = 21
MOST_ROWS = 48
LEVELS = (0.05, 0.95)
RANGE = (0.02, 0.98)  # quantiles of a column between which it is varied


@dataclass(frozen=True)
class PartialDependence:
    """How the prediction depends on one column.

    Attributes:
        name: the column.
        values: what the column is set to, in the user's units, `[point]`; names of categories are texts.
        mean: posterior mean of the prediction averaged over rows, in the user's units, `[point, targets]`;
            probabilities `[point, classes]` for a classification, as the model states them.
        lower: 5 % quantile over posterior draws, of the same shape.
        upper: 95 % quantile over posterior draws, of the same shape.
    """

    name: str
    values: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def partial_dependence(
    fitted: Any, x: Any, columns: Sequence[str] | str | None = None
) -> tuple[PartialDependence, ...]:
    """Set a column to one value after the other in all rows, and average the predictions over the rows.

    The band is what the data leave open about this average: it comes from the posterior draws and has no noise. Where
    columns depend on one another, some of the rows that are averaged do not exist.

    Args:
        fitted: a fitted estimator, a run that was read, or samples from the posterior of a network.
        x: rows to average over, as the model takes them; 48 evenly spaced ones are used.
        columns: names of columns, or of parts of dates such as `day: year`; None: all.

    Returns:
        A record for each of them. A number is varied between its 2 % and 98 % quantiles over `x`, or if these are equal
        from its smallest to its largest value.

    Raises:
        CapabilityError: there is no network, its inputs are images, or a column has too many categories.
        DataError: `x` does not match the training rows.
        SettingError: there is no such column, or nothing was fitted.
    """
    explained = Explained.of(fitted)
    return dependence_on(explained, explained.scaled(x), columns)


def dependence_on(
    explained: Explained, scaled: np.ndarray, columns: Sequence[str] | str | None
) -> tuple[PartialDependence, ...]:
    """`partial_dependence` over rows of network inputs."""
    rows = scaled[spread_rows(len(scaled), MOST_ROWS)]
    wanted = chosen(explained.settable(scaled.shape[1]), columns)
    varied = [one for one in wanted if one.can_vary]
    if columns is not None and len(varied) < len(wanted):
        name = next(one.name for one in wanted if not one.can_vary)
        raise CapabilityError(f"`columns`: {name!r} has too many categories to set all rows to each of them.")
    return tuple(_along(explained, scaled, rows, one) for one in varied)


def _along(explained: Explained, every: np.ndarray, rows: np.ndarray, column: Input) -> PartialDependence:
    settings, values = _settings(explained, every, column)
    varied = np.repeat(rows[None], len(settings), axis=0)
    varied[:, :, column.indices] = settings[:, None, :]
    units, factor, shift = explained.preprocessing, 1.0, 0.0
    if units is not None and units.task != "classification":
        model, factor, shift = with_target_means(explained.model, units)
        explained = replace(explained, model=model)
    found = _averages(explained, varied) * factor + shift
    return PartialDependence(column.name, values, found[0], *np.quantile(found[1:], LEVELS, axis=0))


def _settings(explained: Explained, every: np.ndarray, column: Input) -> tuple[np.ndarray, np.ndarray]:
    """What the inputs of a column are set to, `[point, input]`, and what this means to the user, `[point]`."""
    preprocessing, indices = explained.preprocessing, list(column.indices)
    if not column.categories:
        known = np.unique(every[:, indices[0]])
        if len(known) > POINTS:
            low, high = np.quantile(every[:, indices[0]], RANGE)
            low, high = (low, high) if low < high else (known[0], known[-1])  # almost all rows have one value
            known = np.linspace(low, high, POINTS).astype(np.float32)
        own = known if preprocessing is None else preprocessing.from_inputs(known[:, None], indices[:1])[:, 0]
        # Further inputs of a number flag missing entries.
        encoder = None if preprocessing is None else preprocessing.encoder(column.name)
        if preprocessing is not None and encoder is not None and encoder.kind == ORDINAL:
            ranks = np.arange(len(encoder.categories), dtype=np.float64)
            known, own = preprocessing.to_inputs(ranks[:, None], indices[:1])[:, 0], np.asarray(encoder.categories)
        flags = np.repeat(_zeros(explained, indices[1:])[None], len(known), axis=0)
        return np.column_stack([known, flags]).astype(np.float32), own
    assert preprocessing is not None
    rows = preprocessing.to_inputs(np.eye(len(indices)), indices)
    return rows[: len(column.categories)].astype(np.float32), np.asarray(column.categories)


def _zeros(explained: Explained, indices: list[int]) -> np.ndarray:
    """Network inputs of zeros in the user's units, `[input]`."""
    known = explained.preprocessing
    zeros = np.zeros(len(indices))
    return zeros if known is None else known.to_inputs(zeros, indices)


def _averages(explained: Explained, varied: np.ndarray) -> np.ndarray:
    """Averages over rows, `[1 + draw, point, targets]`, of the prediction and those of each draw.

    Args:
        explained: the model.
        varied: inputs `[point, rows, input]`.
    """
    model, positions = explained.model, explained.samples.positions
    points, count, width = varied.shape
    rows, size = Rows(model, varied.reshape(points * count, width)), Rows(model, varied[0]).chunk_size()
    weights = np.ones(positions.shape[:2], np.float32)
    parts: list[np.ndarray] = []
    for inputs, _ in rows.chunks(size):
        means = [
            np.asarray(_means(model, *network_outputs(model, draws, inputs)))[used > 0]
            for draws, used in draw_chunks(positions, weights)
        ]
        parts.append(np.concatenate(means))
    functions = np.concatenate(parts, axis=2)[:, :, : points * count].astype(np.float64).swapaxes(1, 2)
    functions = np.concatenate([functions.mean(axis=0, keepdims=True), functions])
    if (calibration := model.likelihood.calibration) is not None:
        stated, _ = calibrated(functions.reshape(-1, functions.shape[2]), None, calibration)
        functions = stated.reshape(functions.shape)
    return functions.reshape(len(functions), points, count, -1).mean(axis=2)


@eqx.filter_jit
def _means(model: BayesianNetwork, outputs: Array, own: Any) -> Array:
    """Conditional means `[draw, targets, rows]`."""
    return jax.vmap(model.likelihood.mean)(own, outputs)
