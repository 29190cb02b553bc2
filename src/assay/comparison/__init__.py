"""Is B better than A? Runs of any harness, aligned doc by doc, up to the root of the group tree."""

from assay.comparison.engine import compare_runs
from assay.comparison.model import Comparison, Flips, Options, Refusal, Row
from assay.comparison.readers import open_run
from assay.comparison.views import Column, GroupView, RunView

__all__ = [
    "Column",
    "Comparison",
    "Flips",
    "GroupView",
    "Options",
    "Refusal",
    "Row",
    "RunView",
    "compare_runs",
    "open_run",
]
