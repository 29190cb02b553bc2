"""Findings and results to what people read: terminal, Markdown, LaTeX, CSV, HTML, notebook."""

from assay.show.facts import command_of, marks_of
from assay.show.fitted import EDGE, GAP, Column, FittedTable, cell_width
from assay.show.notebook import (
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
from assay.show.palette import PALETTE_FILE, palette_css
from assay.show.progress import progress_line, running_scores
from assay.show.run_page import Axis, Bar, bars_of, html_report
from assay.show.run_tables import csv_table, latex_table, markdown_table, render_text, screen_table

__all__ = [
    "EDGE",
    "GAP",
    "PALETTE_FILE",
    "Axis",
    "Bar",
    "Column",
    "FittedTable",
    "ForestPlot",
    "NotebookProgress",
    "Whiskers",
    "bars_of",
    "cell_width",
    "command_of",
    "csv_table",
    "forest_plot",
    "health_table",
    "html_report",
    "html_rows",
    "html_table",
    "in_notebook",
    "interval_bar",
    "latex_table",
    "markdown_table",
    "marks_of",
    "palette_css",
    "progress_line",
    "render_text",
    "running_scores",
    "screen_table",
]
