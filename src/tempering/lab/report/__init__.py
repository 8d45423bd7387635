"""A run folder -> tables, figures, one self-contained HTML page. Reads files only: no density is evaluated here."""

from tempering.lab.report.compare import compare_lines, compare_page, compare_runs
from tempering.lab.report.contents import read_contents
from tempering.lab.report.make import FIGURES, make_report, report_of
from tempering.lab.report.tables import quality_lines

__all__ = [
    "FIGURES",
    "compare_lines",
    "compare_page",
    "compare_runs",
    "make_report",
    "quality_lines",
    "read_contents",
    "report_of",
]
