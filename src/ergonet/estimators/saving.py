"""The record of a fitted estimator: `save` writes it as a run directory, and pickle and joblib hold the same parts.

The parts are the settings of the model, the preprocessing, the draws with their statistics, the diagnostics, and what
only estimators have: their parameters and the fitted attributes of scikit-learn.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergonet import __version__
from ergonet._errors import CapabilityError, RunDirectoryError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.default import NO_WARM_START
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import NetworkSettings, RunSettings, Settings
from ergonet.datasets.preprocessing import PER_COLUMN_SCALING, UNSCALED, Preprocessing
from ergonet.diagnostics.finding import RECALIBRATION
from ergonet.draws.replacement import Claim
from ergonet.draws.samples import Samples, load
from ergonet.runs import files
from ergonet.runs.claiming import run_content
from ergonet.runs.directory import DRAWS, ESTIMATOR, METRICS, PREPROCESSING, SETTINGS, RunDirectory
from ergonet.runs.metrics import metrics_of

if TYPE_CHECKING:
    from ergonet.estimators.base import BayesianEstimator

FORMAT_VERSION = 3  # since 3 a run directory; before, `estimator.json` had everything but the draws
OLDER = (1, 2)
_ARRAYS = ("stats", "warmup_stats", "tuning", "curve")
_PLAIN = ("seconds", "gradients", "about")
_ESTIMATORS = {
    "classification": "BayesianClassifier",
    "regression": "BayesianRegressor",
    "count": "BayesianCountRegressor",
}


@dataclasses.dataclass(frozen=True)
class Parts:
    """What an estimator learned.

    Attributes:
        settings: settings of the model and the sampler, as they were at the fit.
        preprocessing: the scaling.
        samples: the draws.
        diagnostics: the diagnostics of the draws.
        fitted: attributes that only this kind of estimator has, by name.
    """

    settings: Settings
    preprocessing: Preprocessing
    samples: Samples
    diagnostics: Mapping[str, Any]
    fitted: Mapping[str, Any]


def state_of(estimator: "BayesianEstimator") -> dict[str, Any]:
    """The record of a fitted estimator for pickle: arrays, text, numbers, and parameters as they were given."""
    parts = estimator.parts()
    settings = {name: getattr(parts.settings, name) for name in ("prior", "likelihood", "kernel")}
    samples = parts.samples
    return {
        "format_version": FORMAT_VERSION,
        "ergonet": __version__,
        "parameters": estimator.get_params(deep=False),
        "settings": settings
        | {"network": dataclasses.asdict(parts.settings.network), "run": dict(vars(parts.settings.run))},
        "preprocessing": parts.preprocessing.to_dict(),
        "diagnostics": dict(parts.diagnostics),
        "fitted": dict(parts.fitted) | {"classes_": getattr(estimator, "classes_", None)},
        "samples": {"positions": np.asarray(samples.positions[...])}
        | {name: dict(getattr(samples, name) or {}) for name in (*_ARRAYS, *_PLAIN)},
    }


def restore(estimator: "BayesianEstimator", state: Mapping[str, Any]) -> None:
    """Restore a fitted estimator from the result of `state_of`.

    Raises:
        RunDirectoryError: it was pickled by a version with another format.
    """
    if state["format_version"] != FORMAT_VERSION:
        raise RunDirectoryError(
            f"This {type(estimator).__name__} was pickled by Ergonet {state.get('ergonet')} in format "
            f"{state['format_version']}, but this version reads {FORMAT_VERSION}. Load it with that version and use "
            f"its `save`, or fit again."
        )
    vars(estimator).update(state["parameters"])
    settings, arrays = dict(state["settings"]), state["samples"]
    held: dict[str, Any] = {**arrays, "curve": arrays["curve"] or None}
    estimator.restore_parts(
        Parts(
            settings=Settings(
                network=NetworkSettings(**settings.pop("network")),
                run=RunSettings(**settings.pop("run", _run_of(estimator))),
                **settings,
            ),
            preprocessing=Preprocessing.from_dict(state["preprocessing"]),
            samples=Samples(**held),
            diagnostics=state["diagnostics"],
            fitted=state["fitted"],
        )
    )


def save(estimator: "BayesianEstimator", path: Path, *, overwrite: bool, samples: Samples) -> None:
    """Write a fitted estimator with these draws as a run directory; see `BayesianEstimator.save`."""
    parts = estimator.parts()
    given = estimator.get_params(deep=False)
    content = {
        "format_version": FORMAT_VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {name: _as_text(name, value) for name, value in given.items()},
        "fitted": {name: _as_text(name, value) for name, value in parts.fitted.items()},
    }
    labels = tuple(_as_text("classes_", one) for one in np.asarray(getattr(estimator, "classes_", ())).tolist())
    parts = dataclasses.replace(parts, preprocessing=dataclasses.replace(parts.preprocessing, classes=labels))
    settings = _settings_of(estimator, parts)
    metrics = metrics_of(
        settings,
        parts.preprocessing,
        parts.samples,
        name=type(estimator).__name__,
        num_train=parts.fitted["num_train"],
        diagnostics=parts.diagnostics,
    )
    with closing(Claim(path, run_content("pass `overwrite=True`"), overwrite=overwrite)) as claim:
        directory = RunDirectory(claim.folder)
        directory.write_settings(settings, parts.preprocessing)
        samples.save(directory.draws)
        directory.write_estimator(content, metrics)
        directory.write_manifest()
        claim.take()


def _settings_of(estimator: "BayesianEstimator", parts: Parts) -> Settings:
    """The settings of the fit, as the command would write them."""
    chosen, samples = parts.settings, parts.samples
    tables = {name: _as_table(name, getattr(chosen, name)) for name in ("prior", "likelihood", "kernel")}
    run = {"num_chains": samples.num_chains, "num_draws": samples.num_draws, "thin": estimator.thin}
    run |= {"num_warmup": chosen.run.num_warmup, "seed": samples.about.get("seed", 0)}
    run |= {"warm_start": NO_WARM_START if chosen.run.warm_start is None else _as_text("start", chosen.run.warm_start)}
    record = {"network": dataclasses.asdict(chosen.network), "run": run, "data": _data_of(parts)}
    return build.complete(Settings.from_table(record | tables), parts.preprocessing)


def _data_of(parts: Parts) -> dict[str, Any]:
    """The settings of the data of an estimator."""
    transform = parts.preprocessing.target_transform
    return {"test_fraction": 0.0} | ({} if transform is None else {"target_transform": transform.name})


def _run_of(estimator: "BayesianEstimator") -> dict[str, Any]:
    """The settings of a run that was fitted before any was chosen from the data."""
    counts = {name: getattr(estimator, name) for name in ("num_chains", "num_warmup", "num_draws", "thin")}
    return counts | {"warm_start": estimator.start}


def _as_table(name: str, choice: Any) -> dict[str, Any]:
    """A choice of a prior, likelihood or kernel as a table of settings."""
    if choice is None:
        return {}
    text = _as_text(name, choice)
    if isinstance(text, str):
        return {"name": text}
    is_by_pattern = name == "prior" and "name" not in text and not build.changes_the_default(text)
    return {key: _as_table(name, one) if is_by_pattern else one for key, one in text.items()}


def _as_text(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Number):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, list | tuple):
        return [_as_text(name, item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _as_text(name, item) for key, item in value.items()}
    raise CapabilityError(
        f"`{name}={value!r}` cannot be saved as text. Give it by name, or by a table of `name` and settings, or use "
        f"joblib instead."
    )


def read(kind: "type[BayesianEstimator]", path: Path) -> "BayesianEstimator":
    """Read a saved estimator, of any version, or the run directory of a fit; see `BayesianEstimator.load`."""
    directory, file = RunDirectory(path), path / ESTIMATOR
    if not file.exists():
        return _of_fit(kind, directory)
    directory.require((ESTIMATOR, DRAWS))
    content = directory.read(ESTIMATOR)
    version = content.get("format_version")
    if version not in (*OLDER, FORMAT_VERSION) or content.get("estimator") != kind.__name__:
        raise RunDirectoryError(
            f"{str(path)!r} contains a {content.get('estimator')} of format {version}, but this method reads a "
            f"{kind.__name__} of formats {', '.join(map(str, (*OLDER, FORMAT_VERSION)))}."
        )
    return files.using(file, lambda: _of_content(kind, directory, content))


def _of_content(
    kind: "type[BayesianEstimator]", directory: RunDirectory, content: Mapping[str, Any]
) -> "BayesianEstimator":
    given = translate(files.table_of(content, "parameters"))
    estimator = kind(**{name: tuple(one) if isinstance(one, list) else one for name, one in given.items()})
    fitted = files.table_of(content, "fitted")
    if content["format_version"] in OLDER:
        estimator.restore_parts(_older(estimator, fitted, directory))
        return estimator
    found = directory.read_fitted()
    diagnostics = directory.read_metrics()["diagnostics"]
    estimator.restore_parts(Parts(found.settings, found.preprocessing, found.samples, diagnostics, fitted))
    return estimator


def _older(estimator: "BayesianEstimator", fitted: dict[str, Any], directory: RunDirectory) -> Parts:
    """The parts of an estimator that was saved before it was a run directory."""
    record = fitted["preprocessing"] if "preprocessing" in fitted else _preprocessing_of_version_1(fitted)
    scaling = Preprocessing.from_dict(record)
    if "classes_" in fitted:
        scaling = dataclasses.replace(scaling, classes=tuple(fitted["classes_"]))
    settings = Settings(**vars(estimator.model_settings()), run=RunSettings(**_run_of(estimator)))
    samples, dim = load(directory.draws), build.model(settings, Task.of(scaling)).dim
    if samples.positions.shape[2] != dim:
        raise ValueError(f"its parameters give {dim} coordinates, the draws have {samples.positions.shape[2]}")
    return Parts(settings, scaling, samples, files.table_of(fitted, "diagnostics_"), fitted)


def _of_fit(kind: "type[BayesianEstimator]", directory: RunDirectory) -> "BayesianEstimator":
    """An estimator from a run directory of `ergonet fit`."""
    directory.require((SETTINGS, PREPROCESSING, DRAWS))
    found = directory.read_fitted()
    settings, scaling = found.settings, found.preprocessing
    if scaling.task != kind.task:
        raise RunDirectoryError(
            f"{str(directory.path)!r} is a {scaling.task}, but a {kind.__name__} is for {kind.task}. Use "
            f"`{_ESTIMATORS[scaling.task]}.load`."
        )
    if scaling.encoded:
        raise RunDirectoryError(
            f"{str(directory.path)!r} has columns with text, dates or missing entries "
            f"({', '.join(map(repr, scaling.encoded))}), which estimators do not take. Use `ergonet predict`."
        )
    estimator = kind(
        **dataclasses.asdict(settings.network),
        **{name: getattr(settings.run, name) for name in ("num_chains", "num_warmup", "num_draws", "thin", "devices")},
        prior=settings.prior,
        likelihood=_in_scaled_units(settings.likelihood, Task.of(scaling)),
        kernel=settings.kernel,
        start=settings.run.warm_start or NO_WARM_START,
        until=settings.run.until,
        standardize=scaling.scaling != UNSCALED,
        log_beyond=scaling.log_beyond or 0.0,
        random_state=settings.run.seed,
        **({} if scaling.target_transform is None else {"target_transform": scaling.target_transform.name}),
    )
    metrics = directory.read_metrics() if METRICS not in directory.missing_results() else {}
    if metrics.get(RECALIBRATION):
        warnings.warn(
            f"{str(directory.path)!r} was recalibrated, but an estimator states what the model states. Use `ergonet "
            f"predict` for recalibrated predictions.",
            UserWarning,
            stacklevel=4,
        )
    fitted = {
        "n_features_in_": len(scaling.feature_names),
        "feature_names_in_": list(scaling.feature_names),
        "num_train": metrics.get("num_train", 0),
        "is_flat": len(scaling.target_names) == 1,
    }
    estimator.restore_parts(Parts(settings, scaling, found.samples, metrics.get("diagnostics", {}), fitted))
    return estimator


def _in_scaled_units(table: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """The table of a likelihood as estimators take it."""
    given = {key: one for key, one in table.items() if key != "units"}
    return given if table.get("units") == build.SCALED else given | build.scaled_deviations(given, task)


def _preprocessing_of_version_1(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a scaling that was saved as means and standard deviations."""
    classes, means = fitted.get("classes_", []), fitted.get("target_mean_", [])
    return {
        "version": 1,
        "task": "classification" if classes else "regression",
        "feature_names": [f"x{index}" for index in range(fitted["n_features_in_"])],
        "target_names": ["y"] if len(means) < 2 else [f"y{index}" for index in range(len(means))],
        "categories": {},
        "dropped": [],
        "feature_mean": fitted["input_mean_"],
        "feature_sd": fitted["input_sd_"],
        "target_mean": means,
        "target_sd": fitted.get("target_sd_", []),
        "classes": list(range(len(classes))),
        "scaling": PER_COLUMN_SCALING,
    }
