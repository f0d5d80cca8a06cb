"""The input of a report: settings, figures and arrays of a finished run."""

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
        evaluation: arrays for the test rows, any of which may be missing. Classification: ``probabilities [rows,
            classes]``, ``truth [rows]``, ``images [rows, height, width, ...]`` and the entropies ``aleatoric [rows]``
            and ``epistemic [rows]`` in nats. Regression, in the unit of the target: ``mean``, ``sd`` and ``truth
            [rows, targets]``, ``quantiles [level, rows, targets]``, ``levels [level]``, ``noise_sd``. Both:
            ``test_rows [rows]``, indices in the table, and ``function_draws [chain, draw, quantity]``, monitored
            predictions. With learned scales: ``scale_names [scale]``, ``scale_draws [chain, draw, scale]``,
            ``scale_prior [draw, scale]``, and if every input has a scale, ``input_names [input]`` and
            ``input_draws [chain, draw, input]``.
        stats: statistics of the stored draws, ``[chain, draw]`` each, any of which may be missing: ``lp``,
            ``energy``, ``acceptance_rate``, ``n_steps``, ``diverging`` and others.
        warmup_stats: the same statistics of the warm-up; may be empty.
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
            run_directory: the directory written by ``ergonet fit``.

        Returns:
            The record, with all arrays in memory.

        Raises:
            RunDirectoryError: the directory does not exist, or a file in it is missing or unreadable.
        """
        directory = Path(run_directory)
        if not directory.is_dir():
            raise RunDirectoryError(
                f"There is no run directory {str(directory)!r}. `ergonet fit ... --out RUN` creates one."
            )
        names = ("settings.toml", "metrics.json", "evaluation.npz", "stats.npz")
        missing = [name for name in names if not (directory / name).is_file()]
        if missing:
            raise RunDirectoryError(
                f"The run directory {str(directory)!r} has no {' and no '.join(missing)}: the run did "
                f"not finish, or this is some other directory. Fit again."
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
            f"{str(path)!r} cannot be read ({error}). It is damaged or was written by another program: fit "
            f"again, or restore it from a backup."
        ) from error


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"expected a table, got {type(content).__name__}")  # noqa: TRY004
    return content


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
