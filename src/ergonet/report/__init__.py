"""The report: one self-contained HTML file made from a finished run."""

from ergonet.report.record import RunRecord
from ergonet.report.write import write_report

__all__ = ["RunRecord", "write_report"]
