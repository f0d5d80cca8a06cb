"""`ergonet fit` after a time limit that ended before the first draw: a run directory that predicts nevertheless."""

import os
import shlex
import time
from contextlib import suppress
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from ergonet._errors import ErgonetError, TimeLimitError
from ergonet.assembly.settings import Settings
from ergonet.cli import evaluation, signals
from ergonet.cli.deadline import Deadline
from ergonet.cli.finishing import finish
from ergonet.diagnostics.finding import FALLBACK
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.baselines.fallback import Fallback
    from ergonet.datasets.dataset import Dataset
    from ergonet.draws.replacement import Claim


def fall_back(
    error: TimeLimitError, settings: Settings, dataset: "Dataset", claim: "Claim", *, began: float
) -> tuple[RunDirectory, dict[str, Any]]:
    """Write what predicts instead of draws in the place of the run; the run itself stays beside it, to be continued.

    Args:
        error: the error of the run; raised if there is something in the place.
        settings: the settings of the fit.
        dataset: its data.
        claim: its directory.
        began: `time.perf_counter()` at the start of the command.

    Returns:
        The run directory, complete, and its figures.
    """
    if os.path.lexists(claim.path):  # better draws of an earlier fit than none
        rest = (
            "give `resume` more time."
            if claim.is_there
            else "choose another `--out` for what can be predicted without draws."
        )
        stays = f"stays as it is, since its draws are better than none: {rest}"
        with suppress(ErgonetError):  # whatever is there
            if RunDirectory(claim.path).read_metrics().get(FALLBACK):
                stays = "still predicts without draws: give `resume` more time."
        error.args = (f"{error} {str(claim.path)!r} {stays}",)
        raise error
    from ergonet.baselines import fallback
    from ergonet.baselines.forecast import Rows

    rows, levels = Rows.of(dataset), dataset.preprocessing.embeddings
    found = fallback.fall_back(error, rows, seed=settings.run.seed, levels=levels)
    chosen = found.settings(settings)
    with claim.interim() as folder:
        directory = RunDirectory(folder)
        directory.write_settings(chosen, dataset.preprocessing)
        found.samples.save(directory.draws)
        directory.write_manifest()
    directory, stop, name = RunDirectory(claim.path), signals.active(), shlex.quote(str(claim.path))
    stop.kept = lambda: f"{found.sentence} `ergonet predict {name} NEW` predicts with them."
    deadline = Deadline(settings.run.time_limit, began, len(dataset.x_test))
    with stop.deferred(SIGINT, doing="evaluation"):
        evaluated = _evaluated(found, chosen, dataset, deadline)
        seconds = {"total": time.perf_counter() - began}
        metrics = evaluation.metrics_of(chosen, dataset, found.samples, evaluated, seconds=seconds)
        finish(directory, metrics, evaluated.arrays, found.samples)
    return directory, metrics


def _evaluated(found: "Fallback", settings: Settings, dataset: "Dataset", deadline: Deadline) -> evaluation.Evaluation:
    """Test scores; there are no diagnostics, because there are no draws."""
    if found.linear is not None:
        return evaluation.evaluate_linear(found.linear, dataset)
    from ergonet.assembly import build

    model = build.model(settings, build.Task.of(dataset.preprocessing))
    return evaluation.evaluate(found.samples, dataset, model, deadline=deadline)
