"""Scores and diagnostics of any run: as written by its fit, or computed from the draws of a fit that was killed."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from ergonet._errors import RunDirectoryError
from ergonet.cli.finishing import lacks_scores
from ergonet.runs.directory import ESTIMATOR, METRICS, RunDirectory

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings
    from ergonet.draws.samples import Samples
    from ergonet.report import RunRecord


def metrics_of(directory: RunDirectory) -> dict[str, Any]:
    """The content of `metrics.json`, computed if the fit was killed before it wrote the file, or had no time for it.

    Raises:
        ErgonetError: the run has no draws, is damaged, or its data are not available.
    """
    if directory.check_version() or METRICS not in directory.missing_results():
        metrics = directory.read_metrics()
        scored = _scored(directory) if lacks_scores(metrics) else None
        return metrics if scored is None else dict(scored.metrics)
    return dict(_computed(directory).metrics)


def record_of(directory: RunDirectory) -> "RunRecord":
    """The input of a report, computed if the fit was killed before it wrote the files.

    Raises:
        ErgonetError: the run has no draws, is damaged, or its data are not available.
    """
    from ergonet.report import RunRecord

    if (directory.path / ESTIMATOR).exists():
        raise RunDirectoryError(
            f"{str(directory.path)!r} is a saved estimator, which has no test rows to report on. `ergonet diagnose "
            f"{directory.path}` prints its diagnostics."
        )
    if directory.check_version() or not directory.missing_results():
        record = RunRecord.load(directory.path)
        return (_scored(directory) if lacks_scores(record.metrics) else None) or record
    return _computed(directory)


def _scored(directory: RunDirectory) -> "RunRecord | None":
    """A record with the scores for which a time limit left no time; None, with the reason, if the data are gone."""
    try:
        return _computed(directory)
    except RunDirectoryError as error:
        sys.stderr.write(f"{error}\n")
        return None


def _computed(directory: RunDirectory) -> "RunRecord":
    """Evaluate the draws of a fit that was killed, as the fit would have done; writes nothing."""
    settings, preprocessing, model = directory.read_model()

    from ergonet.cli import evaluation, fitting, loading
    from ergonet.cli.explaining import with_explanation
    from ergonet.draws.samples import load
    from ergonet.report import RunRecord

    missing = directory.missing_results()
    why = f"{' and no '.join(missing)}: its fit did not finish" if missing else "scores: its time limit left no time"
    lacking = f"{str(directory.path)!r} has no {why}"
    dataset = loading.reload_data(settings, preprocessing, lacking=lacking)
    fitting.keep_compiled_programs()
    samples = _described(load(directory.draws, target=fitting.condition(model, dataset)), settings)
    sys.stderr.write(f"{lacking}. They are computed from {samples.num_draws} draws of each chain.\n")
    found = evaluation.with_baselines(evaluation.evaluate(samples, dataset, model), settings, dataset)
    found = with_explanation(found, samples, dataset, model, limit=None, left=None)
    return RunRecord(
        settings=settings.to_table(),
        metrics=evaluation.metrics_of(settings, dataset, samples, found, seconds=samples.seconds),
        evaluation=found.arrays,
        stats=samples.stats,
        warmup_stats=samples.warmup_stats,
    )


def _described(samples: "Samples", settings: "Settings") -> "Samples":
    """The samples with what diagnostics need to know about them, if the fit was killed before it wrote this."""
    if "kernel" in samples.about:
        return samples
    about = {name: settings.kernel.get(name) for name in ("max_doublings", "target_acceptance")}
    about["thin"] = settings.run.thin
    if settings.kernel.get("step_size") is not None:
        about["target_acceptance"] = None  # the warm-up did not tune it
    return dataclasses.replace(samples, about={**samples.about, **about, "stopped_by": "the end of its process"})
