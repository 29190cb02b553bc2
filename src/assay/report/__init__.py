"""A finished run to what people read: results file, tables, HTML report, sample files, the viewer, comparisons."""

from assay.report.evaluate import check_first, evaluate
from assay.report.html import html_report
from assay.report.results import Results, Scores
from assay.report.rows import Row, rows_of
from assay.report.schema import results_dict
from assay.report.table import csv_table, latex_table, markdown_table, render_text, screen_table

__all__ = [
    "Results",
    "Row",
    "Scores",
    "check_first",
    "csv_table",
    "evaluate",
    "html_report",
    "latex_table",
    "markdown_table",
    "render_text",
    "results_dict",
    "rows_of",
    "screen_table",
]
