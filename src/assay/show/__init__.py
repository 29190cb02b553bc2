"""Findings, and a run's result, to what people and machines read: terminal, Markdown, LaTeX, CSV, JSON, HTML, notebook, JUnit."""

from assay.show.axes import Axis, Whisker
from assay.show.by_field import field_tables
from assay.show.data import json_lines, table_data, to_annotations, to_code_quality
from assay.show.facts import command_of, marks_of
from assay.show.findings import BuildCheck, Column, Conclusion, Findings, Outcome, ShownRow, Table, repeated_names
from assay.show.fitted import FittedTable
from assay.show.formats import OUTPUT_FORMATS, Format, format_of, save
from assay.show.html import Html
from assay.show.notebook import NotebookProgress, in_notebook
from assay.show.palette import PALETTE_FILE, palette_css
from assay.show.plots import ForestPlot
from assay.show.progress import progress_line, running_scores
from assay.show.run_result import (
    RESULT_COLUMNS,
    forest_plot,
    health_html,
    health_table,
    result_html,
    result_text,
    run_findings,
    score_table,
)
from assay.show.terminal import fitted, terminal_parts

__all__ = [
    "OUTPUT_FORMATS",
    "PALETTE_FILE",
    "RESULT_COLUMNS",
    "Axis",
    "BuildCheck",
    "Column",
    "Conclusion",
    "Findings",
    "FittedTable",
    "ForestPlot",
    "Format",
    "Html",
    "NotebookProgress",
    "Outcome",
    "ShownRow",
    "Table",
    "Whisker",
    "command_of",
    "field_tables",
    "fitted",
    "forest_plot",
    "format_of",
    "health_html",
    "health_table",
    "in_notebook",
    "json_lines",
    "marks_of",
    "palette_css",
    "progress_line",
    "repeated_names",
    "result_html",
    "result_text",
    "run_findings",
    "running_scores",
    "save",
    "score_table",
    "table_data",
    "terminal_parts",
    "to_annotations",
    "to_code_quality",
]
