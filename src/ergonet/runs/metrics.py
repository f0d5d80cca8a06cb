"""The content of `metrics.json`: figures about the data, the run and the draws."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ergonet.assembly.settings import Settings
from ergonet.datasets.overview import column_rows
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.diagnostics.finding import FALLBACK, UNTIL
from ergonet.draws.samples import Samples
from ergonet.draws.versions import versions
from ergonet.samplers.registry import KERNELS


def metrics_of(
    settings: Settings,
    preprocessing: Preprocessing,
    samples: Samples,
    *,
    name: str,
    num_train: int,
    diagnostics: Mapping[str, Any],
) -> dict[str, Any]:
    """The figures of a fit without test rows; unknown ones are None.

    Args:
        settings: resolved settings.
        preprocessing: the transformation of columns.
        samples: the draws.
        name: name of the data.
        num_train: number of training rows.
        diagnostics: convergence diagnostics of the draws.
    """
    data: dict[str, Any] = {"name": name, "target": list(preprocessing.target_names)}
    if preprocessing.classes:
        data["classes"] = [str(one) for one in preprocessing.classes]
    told = [asdict(row) for row in column_rows(preprocessing) if row.note and row.kind != "target"]
    if told:
        data["columns"] = told
    content = {
        "task": preprocessing.task,
        "data": data,
        "num_train": num_train,
        "num_test": 0,
        "num_features": len(preprocessing.encoded_names),
        "dim": int(samples.positions.shape[2]),
        "kernel": KERNELS.entry(settings.kernel["name"]).attribute,
        "num_chains": samples.num_chains,
        "num_warmup": settings.run.num_warmup,
        "num_draws": samples.num_draws,
        "thin": settings.run.thin,
        "stopped_by": samples.about.get("stopped_by"),
        "warm_start": "warm_start" in samples.about,
        "has_linear_part": settings.network.direct or not settings.network.hidden,
        "seconds": dict(samples.seconds),
        "gradients": dict(samples.gradients),
        "test": {},
        "diagnostics": dict(diagnostics),
        "versions": samples.about.get("versions") or versions(),
    }
    content |= {name: dict(samples.about[name]) for name in (FALLBACK, UNTIL) if name in samples.about}
    return as_json(content)


def as_json(value: Any) -> Any:
    """Convert to plain Python types, with None for values that are not finite, since JSON has no NaN."""
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [as_json(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
