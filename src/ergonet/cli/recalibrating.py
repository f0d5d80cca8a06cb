"""`ergonet recalibrate`: what the predictions of a run state, corrected on rows that were held out for this."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet._errors import DataError, RunDirectoryError, SettingError, visible
from ergonet.cli.errors import errors_in_one_line
from ergonet.cli.options import Run
from ergonet.runs.directory import ESTIMATOR, RunDirectory

if TYPE_CHECKING:
    from ergonet.prediction.recalibration import ClassCalibration, Levels
    from ergonet.runs.directory import Fitted


def recalibrate(
    run: Run,
    rows: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Table with the columns of the fit, and its target.")
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Undo the recalibration.")] = False,
) -> None:
    """Recalibrate what `ergonet predict` states, on the rows of FILE, which must not have been used for anything else.

    Classes get a temperature and label noise, quantiles of numbers other levels; means, standard deviations and the
    draws stay as they are. It is recorded in RUN, and named in predictions and the report; added draws end it.
    The scores of the report are those before it.
    """
    from ergonet.runs.claiming import claim_to_continue

    with errors_in_one_line():
        if (rows is None) != remove:
            raise SettingError("Give either a FILE of held-out rows, or `--remove`.")
        with closing(claim_to_continue(Path(run))) as claim:
            sys.stdout.write(f"{visible(_recorded(RunDirectory(claim.folder), rows))}\n")


def read(directory: RunDirectory) -> "ClassCalibration | Levels | None":
    """How the predictions of a run are recalibrated; None if they are not.

    Raises:
        RunDirectoryError: the record is missing or damaged.
    """
    from ergonet.diagnostics.finding import RECALIBRATION

    if not directory.check_version() or directory.missing_results():
        return None
    found = directory.read_metrics().get(RECALIBRATION)
    if found is None:
        return None
    from ergonet.prediction.recalibration import from_table

    try:
        return from_table(found)
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(
            f"The recalibration in {str(directory.path)!r} cannot be read: {error!r}. `ergonet recalibrate "
            f"{directory.path} FILE` writes it again."
        ) from error


def _recorded(directory: RunDirectory, rows: str | None) -> str:
    """Record the recalibration, write the report again, and say what was done."""
    from ergonet.diagnostics.finding import RECALIBRATION
    from ergonet.report import RunRecord, write_report

    if (directory.path / ESTIMATOR).exists():
        raise SettingError(
            f"{str(directory.path)!r} is a saved estimator, and `ergonet recalibrate` is for runs of `ergonet fit`. In "
            f"Python, `ergonet.prediction.recalibration` has what it uses."
        )
    if not directory.check_version() or directory.missing_results():
        raise RunDirectoryError(
            f"The fit of {str(directory.path)!r} did not finish. `ergonet resume {directory.path}` finishes it."
        )
    metrics: dict[str, Any] = dict(directory.read_metrics())
    metrics.pop(RECALIBRATION, None)
    said = "Predictions state again what the model states."
    if rows is not None:
        fitted = directory.read_fitted()
        x, y = _rows(fitted, rows)
        found = _found(fitted, x, y)
        said = f"{found} {_seen(fitted, x, y)}".rstrip()
        metrics[RECALIBRATION] = found.to_table() | {"file": Path(rows).name, "sentence": said}
    directory.write_metrics(metrics)
    write_report(RunRecord.load(directory.path), directory.report)
    return f"{said}\nReport: {directory.report}"


def _rows(fitted: "Fitted", rows: str) -> tuple[Any, Any]:
    """Inputs and targets of a file, as the network takes them."""
    from ergonet.datasets.readers import read_table
    from ergonet.diagnostics.finding import FALLBACK

    if FALLBACK in fitted.samples.about:
        raise SettingError("This run has no draws from a posterior to recalibrate. Fit again with more time.")
    table, units = read_table(rows), fitted.preprocessing
    table.columns = [str(one) for one in table.columns]
    table = table.drop(columns=[fitted.settings.data.weights], errors="ignore")
    targets = list(units.target_names)
    lacking = [name for name in targets if name not in table.columns]
    if lacking:
        raise DataError(f"The file {rows} has no column {lacking[0]!r}, which is the target of this run.")
    x = units.transform(table[[one for one in table.columns if one not in targets]], argument=f"the file {rows}")
    values = table[targets[0]] if len(targets) == 1 else table[targets]
    y = units.transform_target(values.to_numpy(), argument=f"the target in {rows}")
    return x, y


def _found(fitted: "Fitted", x: Any, y: Any) -> "ClassCalibration | Levels":
    from ergonet.prediction.pit import probability_transform, steps_of
    from ergonet.prediction.predictive import predict
    from ergonet.prediction.recalibration import recalibrate_classes, recalibrate_levels

    samples, model = fitted.samples, fitted.model
    if fitted.preprocessing.classes:
        return recalibrate_classes(predict(samples, x, model=model).mean, y)
    steps = steps_of(model.likelihood, y, scaling=fitted.preprocessing)
    return recalibrate_levels(probability_transform(samples, x, y, model=model, steps=steps))


def _seen(fitted: "Fitted", x: Any, y: Any) -> str:
    """A sentence if rows are training rows, as far as the data of the fit are still in place; else empty."""
    from ergonet.cli.loading import reload_data
    from ergonet.datasets.copies import row_keys

    try:
        dataset = reload_data(fitted.settings, fitted.preprocessing, lacking="")
    except RunDirectoryError:
        return ""
    known = set(row_keys(dataset.x_train, dataset.y_train))
    count = sum(key in known for key in row_keys(x, y))
    if not count:
        return ""
    return (
        f"But {count} of these rows are training rows, for which predictions are better than for new ones, so that new "
        f"ones now get too narrow intervals or too sure probabilities: recalibrate on rows that were not in the fit."
    )
