"""One self-contained HTML file from a finished run, for a person to read."""

from ergonet.report.record import RunRecord
from ergonet.report.write import write_report

__all__ = ["RunRecord", "write_report"]
