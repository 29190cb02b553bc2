"""Is B better than A? Runs of any harness, aligned doc by doc, up to the root of the group tree."""

from assay.report.compare.engine import compare_runs
from assay.report.compare.model import Comparison, Flips, Options, Refusal, Row
from assay.report.compare.readers import open_run
from assay.report.compare.views import Column, GroupView, RunView

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
