"""`assay.yaml` → a verdict on every rule, with as few docs as it takes."""

from assay.analyses.ci.execution import CIPlan, joined, plan_ci, record_baseline, run_ci
from assay.analyses.ci.explanation import Prospect, explain_ci

__all__ = ["CIPlan", "Prospect", "explain_ci", "joined", "plan_ci", "record_baseline", "run_ci"]
