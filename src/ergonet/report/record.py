"""What a report is made of: the settings, numbers and arrays that a run leaves behind."""

import json
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError

_WARMUP = "warmup_"


@dataclass(frozen=True)
class RunRecord:
    """A finished run, as read from its directory.

    Attributes:
        settings: resolved settings, as in ``settings.toml``.
        metrics: scores, diagnostics, seconds, gradients and versions, as in ``metrics.json``.
        evaluation: arrays about test rows. Classification: ``probabilities [rows, classes]``, ``truth
            [rows]`` and, where there are any, ``images [rows, height, width, ...]`` and the entropies ``aleatoric
            [rows]`` and ``epistemic [rows]`` in nats. Regression, in the unit of the target: ``mean``, ``sd``
            and ``truth [rows, targets]``, ``quantiles [level, rows, targets]``, ``levels [level]``,
            ``noise_sd``. Both: ``test_rows [rows]``, indices in the table, and
            ``function_draws [chain, draw, quantity]``, monitored predictions. Where scales were learned:
            ``scale_names [scale]``, ``scale_draws [chain, draw, scale]``, ``scale_prior [draw, scale]``, and where
            every input has one, ``input_names [input]`` and ``input_draws [chain, draw, input]``. Any may be
            missing.
        stats: of kept draws, ``[chain, draw]`` each: ``lp``, ``energy``, ``acceptance_rate``, ``n_steps``,
            ``diverging`` and others. Any may be missing.
        warmup_stats: the same of the warm-up; may be empty.
    """

    settings: Mapping[str, Any]
    metrics: Mapping[str, Any]
    evaluation: Mapping[str, np.ndarray] = field(default_factory=dict)
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    warmup_stats: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def load(cls, run_directory: str | PathLike[str]) -> "RunRecord":
        """Read a run directory.

        Args:
            run_directory: where ``ergonet fit`` wrote.

        Returns:
            The record, all arrays in memory.

        Raises:
            RunDirectoryError: it is not there, or a file in it is missing or cannot be read.
        """
        directory = Path(run_directory)
        if not directory.is_dir():
            raise RunDirectoryError(
                f"There is no run directory {str(directory)!r}. `ergonet fit ... --out RUN` makes one."
            )
        names = ("settings.toml", "metrics.json", "evaluation.npz", "stats.npz")
        missing = [name for name in names if not (directory / name).is_file()]
        if missing:
            raise RunDirectoryError(
                f"The run directory {str(directory)!r} has no {' and no '.join(missing)}: the run was not "
                f"finished, or this is another directory. Fit again."
            )
        stats = _read(directory / "stats.npz", _arrays)
        return cls(
            settings=_read(directory / "settings.toml", _toml),
            metrics=_read(directory / "metrics.json", _json),
            evaluation=_read(directory / "evaluation.npz", _arrays),
            stats={name: values for name, values in stats.items() if not name.startswith(_WARMUP)},
            warmup_stats={
                name.removeprefix(_WARMUP): values for name, values in stats.items() if name.startswith(_WARMUP)
            },
        )


def _read(path: Path, reader: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    try:
        return reader(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunDirectoryError(
            f"{str(path)!r} cannot be read ({error}). It was damaged, or written by something else: fit "
            f"again, or restore it from a copy."
        ) from error


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"a table was expected, not {type(content).__name__}")  # noqa: TRY004
    return content


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
