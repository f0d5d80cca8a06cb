"""Cross-validation: fits without some rows, each a job of an executor, and the densities of the rows left out."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergonet._errors import DataError
from ergonet.comparison.criteria import EXACT, Elpd, held_out
from ergonet.comparison.sources import Known, before_calibration, fitted
from ergonet.execution.in_process import InProcess

Fit = Callable[[Any, Any], Any]  # from inputs and targets to `Samples` or a fitted estimator


@dataclass(frozen=True)
class _Job:
    """A fit without some rows; it can be sent to another process if its parts can."""

    fit: Fit
    x: Any
    y: Any
    left_out: np.ndarray
    read: Callable[[Any], Known] = fitted

    def __call__(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The log densities of the rows that are left out, and their targets."""
        kept = np.setdiff1d(np.arange(len(self.y)), self.left_out)
        found = held_out(self.read(self.fit(_take(self.x, kept), _take(self.y, kept))), *self._rows())
        return found.pointwise, found.observed

    def _rows(self) -> tuple[Any, Any]:
        return _take(self.x, self.left_out), _take(self.y, self.left_out)


def cross_validate(fit: Fit, x: Any, y: Any, folds: Iterable[Any], *, executor: Executor | None = None) -> Elpd:
    """Compute the log predictive density of every row by fits without it.

    Args:
        fit: fits a model to inputs and targets, and returns `Samples` or a fitted estimator:
            `lambda x, y: ergonet.sample(model.condition(x, y), seed=1)`, or the `fit` of a clone of an estimator.
        x: inputs of all rows, an array or a pandas table.
        y: their targets.
        folds: for each fold the indices of the rows that are left out, from 0. Every row must be in one fold, as in
            `[out for _, out in KFold(10, shuffle=True).split(x)]`, or with `GroupKFold` or `LeaveOneGroupOut` of
            scikit-learn.
        executor: runs the fits; None: one after the other, in this process. Other processes need a `fit` that can be
            sent to them, such as a function of a module.

    Returns:
        The estimate by row, in the units of `y`.

    Raises:
        DataError: a row is in no fold or in several, or an index is not that of a row.
    """
    left_out = _checked([np.asarray(one) for one in folds], len(y))
    if sum(map(len, left_out)) < len(y):
        raise DataError(f"`folds` has {sum(map(len, left_out))} of {len(y)} rows: every row must be left out once.")
    values, observed = _densities([_Job(fit, x, y, rows) for rows in left_out], executor)
    return Elpd("cross-validation", values, observed)


def refit(estimate: Elpd, fit: Fit, x: Any, y: Any, *, executor: Executor | None = None) -> Elpd:
    """Replace what importance sampling cannot estimate: fit again without each row that is not reliable.

    Args:
        estimate: from `loo`.
        fit: as `cross_validate` takes it, with the settings of the fit that is judged.
        x: inputs of all its rows, in the same order.
        y: their targets.
        executor: runs the fits; None: one after the other, in this process.

    Returns:
        The estimate, with the density of these rows by fits without them, as in `loo` before a temperature and label
        noise of a classification; their `pareto_k` is minus infinity.

    Raises:
        DataError: `y` has another number of rows.
    """
    if len(y) != len(estimate.pointwise):
        raise DataError(f"`y` has {len(y)} rows, but `estimate` has {len(estimate.pointwise)}. Pass the same rows.")
    rows = np.flatnonzero(estimate.unreliable)
    if estimate.pareto_k is None or not len(rows):
        return estimate
    jobs = [_Job(fit, x, y, rows[[index]], before_calibration) for index in range(len(rows))]
    found, _ = _densities(jobs, executor)
    changed = {"pointwise": estimate.pointwise, "pareto_k": estimate.pareto_k}
    values = {"pointwise": found[rows], "pareto_k": np.full(len(rows), EXACT)}
    if estimate.monte_carlo_error is not None:  # that of a fit is not known, and far smaller
        changed["monte_carlo_error"], values["monte_carlo_error"] = estimate.monte_carlo_error, np.zeros(len(rows))
    if estimate.parameters is not None:
        changed["parameters"] = estimate.parameters
        values["parameters"] = estimate.parameters[rows] + estimate.pointwise[rows] - found[rows]
    return replace(estimate, **{name: _with(array, rows, values[name]) for name, array in changed.items()})


def _densities(jobs: Sequence[_Job], executor: Executor | None) -> tuple[np.ndarray, np.ndarray | None]:
    """The log densities of the rows of all folds, `[row]`, NaN for others; and their targets `[row, target]`."""
    chosen, count = InProcess() if executor is None else executor, len(jobs[0].y)
    waiting = [chosen.submit(job) for job in jobs]
    values, observed = np.full(count, np.nan), None
    for job, found in zip(jobs, waiting, strict=True):
        values[job.left_out], targets = found.result()
        if targets is not None:
            observed = np.full((count, targets.shape[1]), np.nan) if observed is None else observed
            observed[job.left_out] = targets
    return values, observed


def _checked(folds: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    for one in folds:
        if one.ndim != 1 or not np.issubdtype(one.dtype, np.integer) or not ((one >= 0) & (one < count)).all():
            raise DataError(f"`folds` must contain arrays of indices from 0 to {count - 1}, got {one!r:.80}.")
    every, times = np.unique(np.concatenate([*folds, np.empty(0, int)]), return_counts=True)
    if (times > 1).any():
        raise DataError(
            f"`folds`: row {every[times > 1][0]} is left out more than once. Every row must be in one fold."
        )
    return list(folds)


def _take(table: Any, rows: np.ndarray) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else np.asarray(table)[rows]


def _with(array: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed[rows] = values
    return changed
