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
    """Write the results, the report if the time limit leaves the time for it, and, last, the manifest."""
    from ergonet.inference.waiting import LateError, finish_by
    from ergonet.report import RunRecord, write_report

    directory.write_results(metrics, arrays, samples)
    record, left = RunRecord.load(directory.path), signals.active().seconds_left
    try:
        if left is None:
            write_report(record, directory.report)
        else:
            directory.write_manifest()  # should the process be ended meanwhile, only the report is missing
            end = time.perf_counter() + left - LAST_SECONDS
            finish_by(end, lambda: write_report(record, directory.report))
    except LateError:
        sys.stderr.write(
            f"The time limit leaves no time for the report: `ergonet report {directory.path}` writes it.\n"
        )
    directory.write_manifest()
