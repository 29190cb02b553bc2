"""Is B better than A? Two or more runs, doc by doc, up to the root of the group tree."""

from assay.analyses.compare.engine import compare_runs
from assay.analyses.compare.front import compare, comparison_html, comparison_plot, comparison_text
from assay.analyses.compare.group_difference import reported_weights
from assay.analyses.compare.model import CompareOptions, Comparison, ComparisonRow, Floats
from assay.analyses.compare.page import comparison_page, page_template
from assay.analyses.compare.render import (
    answer_text,
    comparison_dict,
    comparison_json,
    comparison_legend,
    comparison_table,
    flip_lines,
    likeliest,
    signed,
)
from assay.analyses.compare.task_difference import (
    aggregated,
    as_judged,
    corrected_draws,
    is_checked,
    repeatable_aggregation,
)

__all__ = [
    "CompareOptions",
    "Comparison",
    "ComparisonRow",
    "Floats",
    "aggregated",
    "answer_text",
    "as_judged",
    "compare",
    "compare_runs",
    "comparison_dict",
    "comparison_html",
    "comparison_json",
    "comparison_legend",
    "comparison_page",
    "comparison_plot",
    "comparison_table",
    "comparison_text",
    "corrected_draws",
    "flip_lines",
    "is_checked",
    "likeliest",
    "page_template",
    "repeatable_aggregation",
    "reported_weights",
    "signed",
]
