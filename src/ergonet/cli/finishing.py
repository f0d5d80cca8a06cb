"""The last step of `ergonet fit`: results, report and manifest."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ergonet.cli import signals
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.draws.samples import Samples

LAST_SECONDS = 1.0  # before the process is ended


def finish(directory: RunDirectory, metrics: Any, arrays: Mapping[str, Any], samples: "Samples") -> None:
    """Write the results, the report if the time limit has left time for it and for scores, and, last, the manifest."""
    directory.write_results(metrics, arrays, samples)
    what, writes = ("scores and report", "makes them") if lacks_scores(metrics) else ("the report", "writes it")
    if lacks_scores(metrics) or not _reported(directory):
        sys.stderr.write(f"The time limit leaves no time for {what}: `ergonet report {directory.path}` {writes}.\n")
    directory.write_manifest()


def _reported(directory: RunDirectory) -> bool:
    """Write the report, if there is time for it, and say whether there was."""
    from ergonet.inference.waiting import LateError, finish_by
    from ergonet.report import RunRecord, write_report

    record, left = RunRecord.load(directory.path), signals.active().seconds_left
    if left is None:
        write_report(record, directory.report)
        return True
    directory.write_manifest()  # should the process be ended meanwhile, only the report is missing
    try:
        finish_by(time.perf_counter() + left - LAST_SECONDS, lambda: write_report(record, directory.report))
    except LateError:
        return False
    return True


def lacks_scores(metrics: Mapping[str, Any]) -> bool:
    """Whether a time limit has left no time for the scores of the test rows."""
    return bool(metrics.get("num_test")) and not metrics.get("test")
