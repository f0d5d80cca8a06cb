"""`ergonet predict`: predictions for new rows from a finished run, without the training data."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import DataError
from ergonet.cli.outputs import check_file
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ergonet.datasets.preprocessing import Preprocessing

LEVELS = (0.05, 0.95)
_WRITTEN = (".csv", ".parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet takes for a formula


def run(directory: RunDirectory, new: str, out: str, *, overwrite: bool) -> int:
    """Predict and write.

    Args:
        directory: the run directory of a fit.
        new: a table with the input columns of the training table.
        out: the CSV or Parquet file to write.
        overwrite: replace an existing file.

    Returns:
        The number of rows predicted.

    Raises:
        ErgonetError: the run, the table or the path cannot be used.
    """
    path = Path(out)
    if path.suffix.lower() not in _WRITTEN:
        raise DataError(f"`--out`: {str(path)!r} must end in {' or '.join(_WRITTEN)}, which determines the format.")
    check_file(path, overwrite=overwrite)
    finished = directory.check_version()
    fitted = directory.read_fitted()
    preprocessing, samples = fitted.preprocessing, fitted.samples

    from ergonet.datasets.readers import read_table
    from ergonet.prediction.predictive import predict

    x = preprocessing.transform(_by_position(read_table(new), new, preprocessing), argument=f"the file {new}")
    if not finished:
        sys.stderr.write(f"Warning: this run did not finish; {samples.num_draws} draws of each chain are used.\n")
    prediction = predict(samples, x, model=fitted.model, levels=LEVELS)
    if preprocessing.task == "classification":
        table = _classes(prediction.mean, preprocessing)
    else:
        table = _numbers(prediction, preprocessing)
    _write(table, path)
    return len(table)


def _by_position(table: "pd.DataFrame", new: str, preprocessing: "Preprocessing") -> Any:
    """Columns of an NPZ matrix `x` have no names; they are matched by position to those of the training table."""
    names = [str(name) for name in table.columns]
    inputs = [name for name in names if re.fullmatch(r"x\d+", name)]
    expected = preprocessing.feature_names
    named = set(expected) & set(names)
    if Path(new).suffix.lower() == ".npz" and inputs and not named and len(inputs) == len(expected):
        return table[inputs].to_numpy()
    return table


def _classes(probabilities: "np.ndarray", preprocessing: "Preprocessing") -> "pd.DataFrame":
    import pandas as pd

    labels = preprocessing.labels(probabilities.argmax(axis=1))
    columns = {"predicted": labels}
    for index, label in enumerate(preprocessing.classes):
        columns[f"probability_{label}"] = probabilities[:, index]
    return pd.DataFrame(columns)


def _numbers(prediction: Any, preprocessing: "Preprocessing") -> "pd.DataFrame":
    import pandas as pd

    from ergonet.cli.evaluation import in_units

    found = in_units(prediction, preprocessing)
    columns: dict[str, Any] = {}
    for target, name in enumerate(preprocessing.target_names):
        before = f"{name}_" if len(preprocessing.target_names) > 1 else ""
        columns[f"{before}mean"] = found["mean"][:, target]
        columns[f"{before}sd"] = found["sd"][:, target]
        for level, quantile in zip(_level_names(LEVELS), found["quantiles"], strict=True):
            columns[f"{before}{level}"] = quantile[:, target]
    return pd.DataFrame(columns)


def _level_names(levels: Sequence[float]) -> list[str]:
    return [f"q{round(100 * level):02d}" for level in levels]


def _without_formulas(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with an apostrophe before texts that a spreadsheet would execute; numbers stay numbers."""

    def plain(entry: Any) -> Any:
        return f"'{entry}" if isinstance(entry, str) and entry.startswith(_FORMULA) else entry

    texts = {name: column.map(plain) for name, column in table.items() if column.dtype.kind not in "biuf"}
    return table.assign(**{str(name): column for name, column in texts.items()}).rename(columns=plain)


def _write(table: "pd.DataFrame", path: Path) -> None:
    """Replace the file atomically once it is complete."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # a link there would be followed
    try:
        if path.suffix.lower() == ".csv":
            _without_formulas(table).to_csv(unfinished, index=False)
        else:
            table.to_parquet(unfinished, index=False)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
