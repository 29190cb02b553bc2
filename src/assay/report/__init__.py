"""Results to what people read: tables, HTML, files for other harnesses, trackers."""

from assay.report.evaluation import check_first, evaluate, score_again
from assay.report.export import EXPORTS, RUN_IMPORTERS, export_run, sample_files
from assay.report.facts import command_of, marks_of
from assay.report.html import Axis, Bar, bars_of, html_report
from assay.report.jsonl import file_name, sample_objects, write_jsonl
from assay.report.notebook import (
    ForestPlot,
    NotebookProgress,
    Whiskers,
    forest_plot,
    health_table,
    html_rows,
    html_table,
    in_notebook,
    interval_bar,
)
from assay.report.progress import progress_line, running_scores
from assay.report.rows import TableRow, format_number, rows_of, to_pandas
from assay.report.sealing import (
    ModelChoice,
    Reasked,
    SealedDifference,
    SealVerification,
    Sources,
    reask_bundle,
    seal_run,
    verify_bundle,
)
from assay.report.table import csv_table, latex_table, markdown_table, render_text, screen_table

__all__ = [
    "EXPORTS",
    "RUN_IMPORTERS",
    "Axis",
    "Bar",
    "ForestPlot",
    "ModelChoice",
    "NotebookProgress",
    "Reasked",
    "SealVerification",
    "SealedDifference",
    "Sources",
    "TableRow",
    "Whiskers",
    "bars_of",
    "check_first",
    "command_of",
    "csv_table",
    "evaluate",
    "export_run",
    "file_name",
    "forest_plot",
    "format_number",
    "health_table",
    "html_report",
    "html_rows",
    "html_table",
    "in_notebook",
    "interval_bar",
    "latex_table",
    "markdown_table",
    "marks_of",
    "progress_line",
    "reask_bundle",
    "render_text",
    "rows_of",
    "running_scores",
    "sample_files",
    "sample_objects",
    "score_again",
    "screen_table",
    "seal_run",
    "to_pandas",
    "verify_bundle",
    "write_jsonl",
]
