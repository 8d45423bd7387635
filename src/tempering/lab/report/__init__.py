"""A run folder -> tables, figures, one self-contained HTML page. Reads files only: no density is evaluated here."""

from tempering.lab.report.make import FIGURES, make_report
from tempering.lab.report.tables import quality_lines

__all__ = ["FIGURES", "make_report", "quality_lines"]
