"""`ergonet predict` with a stacked predictor, which `ergonet compare --stack` has written."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ergonet._errors import SettingError
from ergonet.cli import predicting
from ergonet.cli.outputs import check_file, table_file
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    import pandas as pd

    from ergonet.comparison import Stacked

STACK = "stack.json"  # as in `ergonet.comparison.stacked`, whose import takes a second


def is_stack(path: str) -> bool:
    """Whether a folder is a stacked predictor."""
    return (Path(path) / STACK).is_file()


def run(directory: RunDirectory, new: str, out: str, *, columns: predicting.Columns, overwrite: bool) -> int:
    """Predict and write; arguments, result and errors are those of `predicting.run`."""
    if columns.num_draws:
        raise SettingError("`--draws` is for single runs: a stacked predictor writes means, sds and quantiles.")
    path = predicting.checked_output(out)
    check_file(path, overwrite=overwrite)

    from ergonet.comparison import Stacked

    stacked, count = Stacked.load(directory.path), 0
    if columns.levels is not None and stacked.preprocessing.classes:
        raise SettingError("`--quantiles` is for numbers: this predicts classes, whose probabilities are written.")
    with table_file(path) as written:
        for table, name in predicting.named_blocks(Path(new)):
            written.append(_predicted(stacked, table, columns, name=name))
            count += len(table)
    return count


def _predicted(stacked: "Stacked", table: "pd.DataFrame", columns: predicting.Columns, *, name: str) -> "pd.DataFrame":
    used = {column for one in stacked.members for column in one.preprocessing.feature_names}
    levels = predicting.LEVELS if columns.levels is None else columns.levels
    known = table[[column for column in table.columns if str(column) in used]]
    prediction = stacked.predict(known, levels=levels, argument=name)
    scaling = stacked.preprocessing
    if scaling.classes:
        return predicting.classes(prediction, scaling)
    plain = replace(scaling, target_mean=0 * scaling.target_mean, target_sd=0 * scaling.target_sd + 1)
    return predicting.numbers(prediction, plain)  # which is in units of the table already
