"""The report: one self-contained HTML file made from a finished run, or from parts of a space that are joined."""

from ergonet.report.parts import write_parts
from ergonet.report.record import RunRecord
from ergonet.report.write import write_report

__all__ = ["RunRecord", "write_parts", "write_report"]
