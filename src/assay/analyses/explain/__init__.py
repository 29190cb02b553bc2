"""Why do two numbers differ? What was sent, what was answered, and what was made of it."""

from assay.analyses.explain.engine import CauseShare, ExplainOptions, Explanation, explain
from assay.analyses.explain.showing import findings

__all__ = ["CauseShare", "ExplainOptions", "Explanation", "explain", "findings"]
