"""Is B better than A? Two or more runs, doc by doc, up to the root of the group tree."""

from assay.analyses.compare.engine import compare_runs
from assay.analyses.compare.front import compare
from assay.analyses.compare.group_difference import reported_weights
from assay.analyses.compare.model import (
    CompareOptions,
    Comparison,
    ComparisonRow,
    Comparisons,
    Floats,
    Noise,
    Refusal,
)
from assay.analyses.compare.schema import COMPARISON_SCHEMA
from assay.analyses.compare.showing import findings, likeliest, newly_wrong
from assay.analyses.compare.task_difference import (
    aggregated,
    as_judged,
    corrected_draws,
    is_checked,
    repeatable_aggregation,
)

__all__ = [
    "COMPARISON_SCHEMA",
    "CompareOptions",
    "Comparison",
    "ComparisonRow",
    "Comparisons",
    "Floats",
    "Noise",
    "Refusal",
    "aggregated",
    "as_judged",
    "compare",
    "compare_runs",
    "corrected_draws",
    "findings",
    "is_checked",
    "likeliest",
    "newly_wrong",
    "repeatable_aggregation",
    "reported_weights",
]
