"""`ergonet predict`: predictions for new rows from a finished run, without the training data."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import DataError, SettingError
from ergonet.cli import recalibrating
from ergonet.cli.outputs import check_file, table_file
from ergonet.diagnostics.finding import FALLBACK
from ergonet.runs.directory import Fitted, RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ergonet.datasets.preprocessing import Preprocessing
    from ergonet.prediction.recalibration import ClassCalibration, Levels
    from ergonet.prediction.units import UnitsPredictor

LEVELS = (0.05, 0.95)
BLOCK_ROWS = 2**15  # of a table that is read, predicted and written at a time
_WRITTEN = (".csv", ".parquet")


@dataclass(frozen=True)
class Columns:
    """Which columns to write.

    Attributes:
        levels: probabilities of the quantiles; None: 0.05 and 0.95, and nothing for classes.
        num_draws: number of simulated targets of each row.
        recalibration: of class probabilities or quantiles; None: they are those of the model.
    """

    levels: tuple[float, ...] | None = None
    num_draws: int = 0
    recalibration: "ClassCalibration | Levels | None" = None

    @classmethod
    def parse(cls, quantiles: str | None, draws: int) -> "Columns":
        """From the text of the options.

        Raises:
            SettingError: a level is no number between 0 and 1, or occurs twice; or the number of draws is below 0.
        """
        if draws < 0:
            raise SettingError(f"`--draws` must be at least 0, got {draws}.")
        return cls(None if quantiles is None else _levels(quantiles), draws)


def _levels(text: str) -> tuple[float, ...]:
    try:
        levels = tuple(float(one) for one in text.split(","))
    except ValueError:
        levels = ()
    if not levels or not all(0 < one < 1 for one in levels) or len(set(levels)) < len(levels):
        raise SettingError(
            f"`--quantiles` takes different probabilities between 0 and 1 with commas, such as 0.05,0.5,0.95; got "
            f"{text!r}."
        )
    return levels


def run(directory: RunDirectory, new: str, out: str, *, columns: Columns, overwrite: bool) -> int:
    """Predict and write.

    Args:
        directory: the run directory of a fit.
        new: a table with the input columns of the training table.
        out: the CSV or Parquet file to write.
        columns: which columns to write.
        overwrite: replace an existing file.

    Returns:
        The number of rows predicted.

    Raises:
        ErgonetError: the run, the table, the path or a column cannot be used.
    """
    path = checked_output(out)
    check_file(path, overwrite=overwrite)
    finished = directory.check_version()
    fitted = directory.read_fitted()
    if columns.levels is not None and fitted.preprocessing.task == "classification":
        raise SettingError("`--quantiles` is for numbers: this run predicts classes, whose probabilities are written.")
    if FALLBACK in fitted.samples.about:
        sys.stderr.write(f"Warning: {fitted.samples.about[FALLBACK]['sentence']}\n")
    elif not finished:
        draws = fitted.samples.num_draws
        sys.stderr.write(f"Warning: this run did not finish; {draws} draws of each chain are used.\n")
    from ergonet.prediction.predictive import Predictor
    from ergonet.prediction.units import UnitsPredictor

    columns = replace(columns, recalibration=recalibrating.read(directory))
    if columns.recalibration is not None:
        sys.stdout.write(f"{columns.recalibration}\n")
    count, predictor = 0, UnitsPredictor(Predictor(fitted.samples, fitted.model), fitted.preprocessing)
    with table_file(path) as written:
        for x in _inputs(Path(new), fitted.preprocessing, weights=fitted.settings.data.weights):
            table = table_of(predictor, x, columns, fitted.preprocessing)
            written.append(_beside(table, _simulated(fitted, x, columns, first_row=count)))
            count += len(x)
    return count


def checked_output(out: str) -> Path:
    """The file to write; raises `DataError` if its name does not end in that of a known format."""
    path = Path(out)
    if path.suffix.lower() not in _WRITTEN:
        raise DataError(f"`--out`: {str(path)!r} must end in {' or '.join(_WRITTEN)}, which determines the format.")
    return path


def _inputs(new: Path, preprocessing: "Preprocessing", *, weights: str | None) -> "Iterator[np.ndarray]":
    """Network inputs, block by block; columns that are not used, except that of weights, cause a warning once."""
    unused: list[Any] = [weights]
    for table, name in named_blocks(new):
        known = _by_position(table.drop(columns=unused, errors="ignore"), new, preprocessing)
        yield preprocessing.transform(known, argument=name)
        unused = [one for one in table.columns if str(one) not in preprocessing.feature_names]


def named_blocks(new: Path) -> "Iterator[tuple[pd.DataFrame, str]]":
    """The rows of a file, block by block, with the name of each block in messages."""
    from ergonet.datasets.readers import blocks

    for table in blocks(new, BLOCK_ROWS):
        first, last = table.index[0] + 1, table.index[-1] + 1
        is_part = first > 1 or len(table) == BLOCK_ROWS
        name = f"the block of data rows {first} to {last} of the file {new}" if is_part else f"the file {new}"
        yield table.reset_index(drop=True), name


def table_of(
    predictor: "UnitsPredictor", x: "np.ndarray", columns: Columns, preprocessing: "Preprocessing"
) -> "pd.DataFrame":
    """The columns of a block of rows, without simulated targets."""
    levels = LEVELS if columns.levels is None else columns.levels
    prediction = _recalibrated(predictor, x, levels, columns.recalibration)
    table = classes(prediction, preprocessing) if preprocessing.classes else numbers(prediction, preprocessing)
    outside = preprocessing.outside(x)
    if outside is not None:
        table["outside"] = _named(outside, preprocessing.encoded_names)
    if columns.recalibration is not None:
        table["recalibrated"] = f"on {columns.recalibration.rows} rows"
    return table


def _recalibrated(
    predictor: "UnitsPredictor", x: "np.ndarray", levels: tuple[float, ...], found: "ClassCalibration | Levels | None"
) -> Any:
    """The prediction with the class probabilities, or at the levels, of a recalibration."""
    import numpy as np

    from ergonet.prediction.probabilities import entropy_of
    from ergonet.prediction.recalibration import Levels

    if isinstance(found, Levels):
        return replace(predictor.predict(x, levels=tuple(found(levels).tolist())), levels=levels)
    prediction = predictor.predict(x, levels=levels)
    if found is None:
        return prediction
    stated = found(prediction.mean)
    entropy = entropy_of(stated)
    share = entropy / np.maximum(entropy_of(prediction.mean), np.finfo(np.float32).tiny)
    expected = None if prediction.expected_entropy is None else prediction.expected_entropy * share
    return replace(prediction, mean=stated, entropy=entropy, expected_entropy=expected)


def _simulated(fitted: Fitted, x: "np.ndarray", columns: Columns, *, first_row: int) -> "pd.DataFrame | None":
    """The columns of simulated targets; None if there are none."""
    from ergonet.prediction.predictive import sample_predictive

    if not columns.num_draws:
        return None
    seed, model = fitted.settings.run.seed, fitted.model
    drawn = sample_predictive(
        fitted.samples, x, num_samples=columns.num_draws, seed=seed, model=model, first_row=first_row
    )
    return _draws(drawn, fitted.preprocessing)


def _beside(table: "pd.DataFrame", more: "pd.DataFrame | None") -> "pd.DataFrame":
    import pandas as pd

    return table if more is None else pd.concat([table, more], axis=1)


def _by_position(table: "pd.DataFrame", new: Path, preprocessing: "Preprocessing") -> Any:
    """Columns of an NPZ matrix `x` have no names; they are matched by position to those of the training table."""
    names = [str(name) for name in table.columns]
    inputs = [name for name in names if re.fullmatch(r"x\d+", name)]
    expected = preprocessing.feature_names
    named = set(expected) & set(names)
    if new.suffix.lower() == ".npz" and inputs and not named and len(inputs) == len(expected):
        return table[inputs].to_numpy()
    return table


def _named(outside: "np.ndarray", names: Sequence[str]) -> list[str]:
    """The names of the inputs that are outside, row by row, as one text each."""
    found = [""] * len(outside)
    for row in outside.any(axis=1).nonzero()[0].tolist():
        found[row] = "; ".join([name for name, is_outside in zip(names, outside[row], strict=True) if is_outside])
    return found


def classes(prediction: Any, preprocessing: "Preprocessing") -> "pd.DataFrame":
    """Label, probabilities, and the entropy with its parts in nats, by row."""
    import pandas as pd

    probabilities = prediction.mean
    columns = {"predicted": preprocessing.labels(probabilities.argmax(axis=1))}
    for index, label in enumerate(preprocessing.classes):
        columns[f"probability_{label}"] = probabilities[:, index]
    columns["entropy"] = prediction.entropy
    columns["entropy_aleatoric"] = prediction.expected_entropy
    columns["entropy_epistemic"] = prediction.mutual_information
    return pd.DataFrame(columns)


def numbers(prediction: Any, preprocessing: "Preprocessing") -> "pd.DataFrame":
    """Mean, sd with its parts, and quantiles of every target, by row."""
    import pandas as pd

    found = {
        "mean": prediction.mean,
        "sd": prediction.sd,
        "sd_aleatoric": prediction.noise_sd,
        "sd_epistemic": prediction.function_sd,
    }
    for number, name in enumerate(level_names(prediction.levels)):
        found[name] = prediction.quantiles[number]
    return pd.DataFrame(
        {
            f"{before}{name}": values[:, target]
            for target, before in enumerate(_prefixes(preprocessing))
            for name, values in found.items()
        }
    )


def _draws(simulated: "np.ndarray", preprocessing: "Preprocessing") -> "pd.DataFrame":
    """Simulated targets `[draw, rows, targets]` as columns, `draw_1` and so on."""
    import pandas as pd

    if preprocessing.classes:
        labels = preprocessing.labels(simulated[..., 0])
        return pd.DataFrame({f"draw_{index + 1}": one for index, one in enumerate(labels)})
    values = preprocessing.inverse_target(simulated)
    return pd.DataFrame(
        {
            f"{before}draw_{index + 1}": one[:, target]
            for target, before in enumerate(_prefixes(preprocessing))
            for index, one in enumerate(values)
        }
    )


def _prefixes(preprocessing: "Preprocessing") -> list[str]:
    names = preprocessing.target_names
    return [f"{name}_" for name in names] if len(names) > 1 else [""]


def level_names(levels: Sequence[float]) -> list[str]:
    """Names of the columns of quantiles: `q05`, `q50`, `q97.5`."""
    names: list[str] = []
    for level in levels:
        whole, point, rest = f"{100 * level:.10g}".partition(".")
        names.append(f"q{whole:0>2}{point}{rest}")
    return names
