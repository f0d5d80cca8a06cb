"""Estimators as older versions saved them: `estimator.json` with everything but the draws."""

import json
from pathlib import Path
from typing import Any


def save_as_version_2(estimator: Any, folder: Path) -> Path:
    """Save a fitted estimator in the format before it was a run directory; returns its JSON file."""
    fitted = {
        "n_features_in_": estimator.n_features_in_,
        "preprocessing": estimator.preprocessing_.to_dict(),
        "diagnostics_": estimator.diagnostics_,
    }
    if hasattr(estimator, "classes_"):
        fitted |= {"classes_": estimator.classes_.tolist(), "dtype": estimator.classes_.dtype.str}
    else:
        fitted["is_flat"] = estimator._is_flat
    content = {"format_version": 2, "estimator": type(estimator).__name__, "fitted": fitted}
    folder.mkdir()
    estimator.samples_.save(folder / "draws.zarr")
    file = folder / "estimator.json"
    file.write_text(json.dumps(content | {"parameters": estimator.get_params(deep=False)}))
    return file
