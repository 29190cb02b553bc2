"""Why do two numbers differ? What was asked, what was answered, and what was made of it."""

from assay.comparison.explanation.engine import CauseShare, ExplainOptions, Explanation, explain
from assay.comparison.explanation.render import explanation_json, explanation_lines, explanation_page

__all__ = [
    "CauseShare",
    "ExplainOptions",
    "Explanation",
    "explain",
    "explanation_json",
    "explanation_lines",
    "explanation_page",
]
