"""May this run pass? Every number of a baseline, or of a list of thresholds, must hold."""

from assay.analyses.gate.engine import GateCheck, GateReport, gate, gate_against, gate_thresholds, noise_note
from assay.analyses.gate.options import GateOptions
from assay.analyses.gate.schema import GATE_SCHEMA
from assay.analyses.gate.showing import findings

__all__ = [
    "GATE_SCHEMA",
    "GateCheck",
    "GateOptions",
    "GateReport",
    "findings",
    "gate",
    "gate_against",
    "gate_thresholds",
    "noise_note",
]
