"""`assay.yaml` → a verdict on every rule, with as few docs as it takes."""

from assay.analyses.ci.execution import CIPlan, joined, plan_ci, record_baseline, run_ci
from assay.analyses.ci.explanation import Prospect, Prospects, explain_ci, prospect_findings

__all__ = [
    "CIPlan",
    "Prospect",
    "Prospects",
    "explain_ci",
    "joined",
    "plan_ci",
    "prospect_findings",
    "record_baseline",
    "run_ci",
]
