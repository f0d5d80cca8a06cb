"""The input of a report: settings, figures and arrays of a finished run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ergonet.runs.directory import EVALUATION, METRICS, SETTINGS, STATS, RunDirectory

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
            [rows, targets]``, ``quantiles [level, rows, targets]``, ``levels [level]``, ``noise_sd``, and the
            probability integral ``transform [rows, targets]``. Both: ``test_rows [rows]``, indices in the table, and
            ``function_draws [chain, draw, quantity]``, monitored predictions, output by output; their rows are
            ``reference_rows [row]``, indices in the table, or without test rows among the training rows, with the input
            of each that is farthest from the middle, ``reference_inputs [row]``, as text. With learned scales:
            ``scale_names [scale]``, ``scale_draws [chain, draw, scale]``, ``scale_prior [draw, scale]``, and if every
            input has a scale, ``input_names [input]`` and ``input_draws [chain, draw, input]``. For tables:
            ``importance_names [column]`` with ``importance [loss of log score, standard error, repeats; column]``, and
            ``dependence_names [column]`` with, for each of them, ``dependence_0_values [point]`` and
            ``dependence_0 [mean, 5 %, 95 %; point, target]``, and so on.
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
        directory = RunDirectory(Path(run_directory))
        directory.require((SETTINGS, METRICS, EVALUATION, STATS))
        stats = directory.read(STATS)
        return cls(
            settings=directory.read(SETTINGS),
            metrics=directory.read(METRICS),
            evaluation=directory.read(EVALUATION),
            stats={name: values for name, values in stats.items() if not name.startswith(_WARMUP)},
            warmup_stats={
                name.removeprefix(_WARMUP): values for name, values in stats.items() if name.startswith(_WARMUP)
            },
        )
