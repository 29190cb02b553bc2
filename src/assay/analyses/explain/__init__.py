"""Why do two numbers differ? What was asked, what was answered, and what was made of it."""

from assay.analyses.explain.engine import CauseShare, ExplainOptions, Explanation, explain
from assay.analyses.explain.render import explanation_json, explanation_lines, explanation_page

__all__ = [
    "CauseShare",
    "ExplainOptions",
    "Explanation",
    "explain",
    "explanation_json",
    "explanation_lines",
    "explanation_page",
]
