"""Did the model change? Two models on the same texts, token by token, without labels."""

from assay.analyses.drift.engine import Drift, DriftOptions, DriftPart, DriftVerdict, measure_drift
from assay.analyses.drift.showing import findings
from assay.analyses.drift.texts import Passage, bundled_passages, passages_of_file, passages_of_tasks

__all__ = [
    "Drift",
    "DriftOptions",
    "DriftPart",
    "DriftVerdict",
    "Passage",
    "bundled_passages",
    "findings",
    "measure_drift",
    "passages_of_file",
    "passages_of_tasks",
]
