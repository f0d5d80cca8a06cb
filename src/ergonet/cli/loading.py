"""The data set of a fit, from its settings."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet._errors import DataError, RunDirectoryError, SettingError
from ergonet.assembly.default import LOG_BEYOND
from ergonet.assembly.settings import DataSettings, Settings
from ergonet.datasets import registry

if TYPE_CHECKING:
    from ergonet.datasets.dataset import Dataset
    from ergonet.datasets.preprocessing import Preprocessing


def reload_data(settings: Settings, preprocessing: "Preprocessing", *, lacking: str) -> "Dataset":
    """Load the data of a fit again.

    Args:
        settings: the settings of the fit.
        preprocessing: what the fit learned about its data.
        lacking: what the data are needed for, as the beginning of a sentence.

    Raises:
        RunDirectoryError: they are missing or have changed.
    """
    from ergonet.draws.durable import to_json

    try:
        data = dataclasses.replace(settings.data, log_beyond=preprocessing.log_beyond or 0.0)
        dataset = load_data(data, seed=settings.run.seed, likelihood=settings.likelihood)
    except (DataError, OSError) as error:
        raise RunDirectoryError(
            f"{lacking}. To compute this from the draws, run the command in the folder where the fit was started, with "
            f"its data in place: {error}"
        ) from error
    recorded, found = preprocessing.to_dict(), dataset.preprocessing.to_dict()
    if to_json({name: found.get(name) for name in recorded}) != to_json(recorded):  # older runs recorded less
        raise RunDirectoryError(
            f"{lacking}, and its data {settings.data.source!r} have changed since. Restore them, or fit again."
        )
    return dataset


def load_data(data: DataSettings, *, seed: int, likelihood: Any = None) -> "Dataset":
    """Load the data set of the settings.

    Args:
        data: the settings.
        seed: of the split.
        likelihood: the choice of a likelihood, which says how targets are scaled, and the task if that is not set.

    Raises:
        DataError: the file or a column cannot be used.
        SettingError: a setting does not suit the data.
    """
    if data.source in registry.DATASETS:
        return _built_in(data, seed)
    for option, given in {"--data": data.folder is not None, "--fetch": data.fetch}.items():
        if given:
            raise SettingError(f"`{option}` is for built-in data sets of images: {data.source!r} is a file.")
    from ergonet.assembly.likelihoods import target_scaling, task_of
    from ergonet.datasets.choosing import Choices
    from ergonet.datasets.readers import read_file, read_table
    from ergonet.datasets.tables import from_table

    read = read_file(data.source)
    table = read.table
    target = data.target or _usual_target(data.source, [str(name) for name in table.columns])
    task = task_of(likelihood) if data.task is None else data.task
    dataset = from_table(
        table,
        target[0] if len(target) == 1 else target,
        task=task,
        test_fraction=data.test_fraction,
        test_frame=read_table(data.test_file) if data.test_file is not None else None,
        choices=Choices(data.drop, data.columns, data.types or {}, data.missing, data.one_hot_limit),
        seed=seed,
        target_scaling=target_scaling(likelihood, task or ""),
        weights=data.weights,
        target_transform=data.target_transform,
        log_beyond=LOG_BEYOND if data.log_beyond is None else data.log_beyond,
    )
    return dataclasses.replace(dataset, name=name_of(data), said=read.said)


def _built_in(data: DataSettings, seed: int) -> "Dataset":
    unused = {"--test-file": data.test_file is not None}
    unused |= {f"--{name}": bool(getattr(data, name)) for name in ("drop", "columns", "types", "weights")}
    unused |= {"--log-beyond": bool(data.log_beyond), "--missing": data.missing != DataSettings.missing}
    unused |= {"--one-hot-limit": data.one_hot_limit != DataSettings.one_hot_limit}
    if data.source in registry.DATASETS.names(registry.OWN_SPLIT):
        unused["--test-fraction"] = data.test_fraction != DataSettings.test_fraction
    for option, given in unused.items():
        if given:
            raise SettingError(f"`{option}` is for tables of your own: {data.source!r} is a built-in data set.")
    dataset = registry.load(
        data.source,
        test_fraction=data.test_fraction,
        seed=seed,
        data=data.folder,
        fetch=data.fetch,
        target_transform=data.target_transform,
    )
    own = dataset.preprocessing
    if data.target not in ((), own.target_names):
        raise SettingError(
            f"`--target`: the built-in data set {data.source!r} has its own target {own.target_names[0]!r}; leave "
            f"`--target` out."
        )
    if data.task not in (None, own.task):
        raise SettingError(f"`--task`: the built-in data set {data.source!r} is a {own.task}.")
    return dataset


def _usual_target(source: str, columns: list[str]) -> tuple[str, ...]:
    """For NPZ files, `y` or the columns of a matrix `y`; for all others the target must be named."""
    if Path(source).suffix.lower() == ".npz":
        usual = tuple(name for name in columns if name == "y" or (name[:1] == "y" and name[1:].isdigit()))
        if usual:
            return usual
    shown = ", ".join(columns[:30]) + (f" and {len(columns) - 30} more" if len(columns) > 30 else "")
    raise DataError(f"`--target` is missing: name the column of {source} to predict. Its columns are: {shown}.")


def name_of(data: DataSettings) -> str:
    """The name of a data set: that of a built-in one, or of a file without its endings."""
    if data.source in registry.DATASETS:
        return data.source
    name = Path(data.source).name
    return name.partition(".")[0] or name  # without .csv.gz
